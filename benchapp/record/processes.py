"""Name processes. The code is in `runner.sandboxes.processes`, because sandboxes carry their owner's name."""

from runner.sandboxes.processes import ProcessName, read_start_of_process, this_machine, this_process

__all__ = ["ProcessName", "read_start_of_process", "this_machine", "this_process"]
