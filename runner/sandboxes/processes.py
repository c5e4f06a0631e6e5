"""Naming processes uniquely, and finding and ending those of a local sandbox.

A process id alone is reused; with the machine and the time it started it names one process (`ProcessName`).

On Linux a process belongs to a sandbox if its environment carries the sandbox's mark or its working directory is
inside the private folder. So one that left its process group with setsid is found too. A process that wiped its
environment *and* moved elsewhere *and* left its group escapes. On other systems (macOS) only the process groups that a
living sandbox started are known: what an interrupted attempt left there is not found again.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import socket
import subprocess
import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from runner.base.errors import SandboxError

MARK_VARIABLE = "SKILLGLASS_SANDBOX"
PROC = Path("/proc")
PR_SET_DUMPABLE = 4  # linux/prctl.h


def boot_id() -> str | None:
    """Return the name of this boot of the machine, None if unknown. Processes do not outlive it."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text().strip()
    except OSError:
        return None


def hide_environment() -> bool:
    """Keep other processes of this user from reading this one's environment and memory. Return True if it worked.

    Linux only, and not a barrier: root can still read, and a parent or shell with the same variables has to hide
    itself. It lasts until the process starts another program: a sandbox's processes are not hidden from us. If /proc is
    mounted with `hidepid`, a hidden process would vanish from it and look dead to its own siblings, so nothing is done.
    """
    try:
        mounts = Path("/proc/self/mounts").read_text()
        if any(line.split()[1] == str(PROC) and "hidepid=" in line for line in mounts.splitlines()):
            return False
        return bool(ctypes.CDLL(None).prctl(PR_SET_DUMPABLE, 0, 0, 0, 0) == 0)
    except (OSError, AttributeError, IndexError):
        return False


def find_marked_processes(mark: str, folder: Path) -> set[int]:
    """Process ids that belong to the sandbox with this mark and folder; empty without /proc."""
    marked = f"\0{MARK_VARIABLE}={mark}\0".encode()
    numbers = [int(place.name) for place in os.scandir(PROC) if place.name.isdigit()] if PROC.is_dir() else []
    return {pid for pid in numbers if pid != os.getpid() and _belongs(pid, marked, str(folder))}


def _belongs(pid: int, marked: bytes, folder: str) -> bool:
    """Plain calls of the system: this reads every process of the machine, several times a trial. What is dead and waits
    for its parent to notice has neither an environment nor a folder."""
    with contextlib.suppress(OSError):  # ended since then, or somebody else's
        descriptor = os.open(f"{PROC}/{pid}/environ", os.O_RDONLY)
        try:
            variables = b"".join(iter(lambda: os.read(descriptor, 1 << 20), b""))
        finally:
            os.close(descriptor)
        if marked in b"\0" + variables:
            return True
        place = os.readlink(f"{PROC}/{pid}/cwd")  # noqa: PTH115
        return place == folder or place.startswith(f"{folder}/")
    return False


def wait_for_process(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Does a child end within `seconds`? Wakes as it ends: `Popen.wait` sleeps up to 50 ms longer, for each command."""
    with contextlib.suppress(AttributeError, OSError):  # no Linux, or no such call here: only the wait below
        handle = os.pidfd_open(process.pid)
        try:
            ends = select.poll()
            ends.register(handle, select.POLLIN)
            seconds = 1.0 if ends.poll(1000 * seconds) else 0.0
        finally:
            os.close(handle)
    try:
        process.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        return False
    return True


def group_alive(group: int) -> bool:
    try:
        os.killpg(group, 0)
    except (ProcessLookupError, PermissionError):
        return False
    return True


def end_group(group: int) -> None:
    with contextlib.suppress(ProcessLookupError, PermissionError):  # its processes are gone
        os.killpg(group, signal.SIGKILL)


def end_sandbox(mark: str, folder: Path, groups: Iterable[int] = ()) -> None:
    """Kill all of them, repeatedly until none is left (they may fork in between). SandboxError if some survive."""
    for group in groups:
        end_group(group)
    for round_ in range(40):
        found = find_marked_processes(mark, folder)
        if not found:
            return
        for pid in found:
            try:
                os.kill(pid, signal.SIGKILL)
            except ProcessLookupError:
                continue
        time.sleep(0.005 * (round_ + 1))
    raise SandboxError(f"{len(found)} processes of the sandbox {folder} cannot be ended: {sorted(found)[:5]}")


@dataclass(frozen=True, slots=True)
class ProcessName:
    """A process of one machine and boot. Unlike a process id it is never reused."""

    machine: str
    pid: int
    started: str  # as the system reports it; compared, never parsed

    def __str__(self) -> str:
        return f"{self.machine} {self.pid} {self.started}"

    @classmethod
    def parse(cls, text: str) -> ProcessName | None:
        machine, _, rest = text.partition(" ")
        pid, _, started = rest.partition(" ")
        return cls(machine, int(pid), started) if pid.isdigit() and started else None

    @property
    def is_here(self) -> bool:
        """Does or did it run where we can see it?"""
        return self.machine == this_machine()

    @property
    def is_alive(self) -> bool:
        return self.is_here and read_start_of_process(self.pid) == self.started

    @property
    def is_gone(self) -> bool:
        """Did it certainly end? False if we cannot know."""
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
    """Return when the process started, None if there is none with that id (or only a zombie)."""
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
