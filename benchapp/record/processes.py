"""Naming processes: see `runner.sandboxes.processes`, where it lives because sandboxes carry their owner's name."""

from runner.sandboxes.processes import ProcessName, read_start_of_process, this_machine, this_process

__all__ = ["ProcessName", "read_start_of_process", "this_machine", "this_process"]
