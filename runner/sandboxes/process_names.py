"""Names a process so that anyone can check later, from elsewhere, whether it still lives.

A process id alone is reused; with the machine and the time it started it names one process for good.
"""

from __future__ import annotations

import os
import socket
import subprocess
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from runner.sandboxes.processes import boot_id


@dataclass(frozen=True, slots=True)
class ProcessName:
    machine: str
    pid: int
    started: str  # as the system tells it; compared, never read

    def __str__(self) -> str:
        return f"{self.machine} {self.pid} {self.started}"

    @classmethod
    def parse(cls, text: str) -> ProcessName | None:
        machine, _, rest = text.partition(" ")
        pid, _, started = rest.partition(" ")
        return cls(machine, int(pid), started) if pid.isdigit() and started else None

    @property
    def is_here(self) -> bool:
        """Does it run, or did it, where we can see it?"""
        return self.machine == this_machine()

    @property
    def is_alive(self) -> bool:
        return self.is_here and read_start_of_process(self.pid) == self.started

    @property
    def is_gone(self) -> bool:
        """Certainly ended. False where we cannot know."""
        return self.is_here and not self.is_alive


def this_process() -> ProcessName:
    pid = os.getpid()
    return ProcessName(this_machine(), pid, read_start_of_process(pid) or "unknown")


@cache
def this_machine() -> str:
    """Host, boot and (Linux) process namespace: two processes with equal machines see each other's process ids."""
    try:
        namespace = str(Path("/proc/self/ns/pid").readlink()).strip("pid:[]")
    except OSError:
        namespace = ""
    parts = (socket.gethostname().replace(" ", "-")[:80], (boot_id() or "")[:8], namespace)
    return "/".join(part for part in parts if part)


def read_start_of_process(pid: int) -> str | None:
    """When the process started, None when there is none with that id (or only its unburied remains)."""
    stat = Path(f"/proc/{pid}/stat")
    if Path("/proc/self/stat").exists():
        try:
            fields = stat.read_text().rpartition(")")[2].split()  # the name in parentheses may hold anything
        except OSError:
            return None
        return None if fields[0] in "ZX" else fields[19]
    command = ["ps", "-o", "stat=", "-o", "lstart=", "-p", str(pid)]
    state, _, started = (
        subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip().partition(" ")
    )
    return None if state.startswith("Z") else "-".join(started.split()) or None
