"""Start several processes, keep them alive, and end every one of them.

Each child leads a session of its own, so that Ctrl-C reaches only the supervisor, which then ends the children in
order. What it started is kept in a file: after a `kill -9` of the supervisor the next one ends what was left.
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import logging
import os
import signal
import subprocess
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runner.sandboxes.processes import ProcessName, read_start_of_process, this_machine

log = logging.getLogger(__name__)

LONGEST_PAUSE_SECONDS = 30.0
STEADY_SECONDS = 10.0  # a child that lived this long is restarted without a pause


class AlreadyRunning(Exception):
    """Another supervisor holds this folder."""


@dataclass(slots=True)
class Child:
    """A process that is restarted whenever it ends, with growing pauses when it ends early."""

    name: str
    command: Sequence[str]
    environment: Mapping[str, str]
    log_path: Path
    patience_seconds: float = 10.0  # between the request to end and SIGKILL
    process: subprocess.Popen[bytes] | None = None
    started: float = 0.0
    early_ends: int = 0
    not_before: float = 0.0
    was_asked: bool = False  # to end; a second request would mean "at once" to a worker

    def start(self) -> None:
        self.log_path.parent.mkdir(parents=True, exist_ok=True)
        with self.log_path.open("ab") as output:
            self.process = subprocess.Popen(
                list(self.command),
                env=dict(self.environment),
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        self.started = time.monotonic()

    @property
    def is_running(self) -> bool:
        return self.process is not None and self.process.poll() is None

    def keep_alive(self) -> bool:
        """Restart it if it ended. Return True if it did."""
        if self.is_running:
            return False
        now = time.monotonic()
        if self.process is not None:
            log.warning("%s ended with status %s; see %s", self.name, self.process.returncode, self.log_path)
            self.early_ends = 0 if now - self.started > STEADY_SECONDS else self.early_ends + 1
            self.not_before = now + (
                min(2.0 ** (self.early_ends - 5), LONGEST_PAUSE_SECONDS) if self.early_ends > 3 else 0.0
            )
            self.process = None
        if now < self.not_before:
            return False
        self.start()
        return True

    def ask_to_end(self) -> None:
        if self.is_running and self.process is not None and not self.was_asked:
            self.was_asked = True
            with contextlib.suppress(ProcessLookupError):
                self.process.terminate()

    def end(self) -> None:
        """Wait for the requested end, then kill the whole session."""
        if self.process is None:
            return
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(self.patience_seconds)
        end_group(self.process.pid)
        self.process.wait()
        self.process = None


@dataclass(slots=True)
class Supervisor:
    """The holder of `folder` (one supervisor at a time) and of what it started there."""

    folder: Path
    children: list[Child] = field(default_factory=list)
    sessions: set[int] = field(default_factory=set)  # of all children so far, including killed ones
    _lock: int | None = None

    @property
    def _register(self) -> Path:
        return self.folder / "children.json"

    def hold(self) -> None:
        """Take the folder and end what an earlier, killed supervisor left. Raise AlreadyRunning when it is held."""
        self.folder.mkdir(parents=True, exist_ok=True)
        self._lock = os.open(self.folder / "lock", os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            raise AlreadyRunning(str(self.folder)) from error
        self._end_leftovers()

    def add(self, child: Child) -> None:
        child.start()
        self.children.append(child)
        self._remember()

    def end_orphans(self, pids: Iterable[int]) -> None:
        """End those of these processes that descend from a child of ours: they share its session, not its group."""
        for pid in pids:
            with contextlib.suppress(ProcessLookupError, PermissionError):
                if os.getsid(pid) in self.sessions:
                    end_group(os.getpgid(pid))

    def keep_alive(self) -> None:
        restarted = [child for child in self.children if child.keep_alive()]
        if restarted:
            self._remember()

    def end(self, end_orphans: Callable[[], None]) -> None:
        """End the children, last started first: what others need (the broker) goes last. Then end what they left."""
        for child in reversed(self.children[1:]):
            child.ask_to_end()
        for child in reversed(self.children):
            child.ask_to_end()
            child.end()
        end_orphans()
        self.children.clear()
        self._register.unlink(missing_ok=True)

    def _remember(self) -> None:
        """Write to a temporary file and move it into place, so that a kill never leaves half a file."""
        pids = [child.process.pid for child in self.children if child.process is not None]
        self.sessions.update(pids)
        names = [str(ProcessName(this_machine(), pid, read_start_of_process(pid) or "unknown")) for pid in pids]
        draft = self._register.with_suffix(".new")
        draft.write_text(json.dumps({"children": names, "sessions": sorted(self.sessions), "machine": this_machine()}))
        draft.replace(self._register)

    def _end_leftovers(self) -> None:
        try:
            left = json.loads(self._register.read_text())
        except (OSError, ValueError):
            return
        for name in filter(None, map(ProcessName.parse, left["children"])):
            if name.is_alive:
                log.warning("ending process %d, left by an earlier start", name.pid)
                end_group(name.pid)
        if left["machine"] == this_machine():
            self.sessions.update(left["sessions"])
        self._register.unlink(missing_ok=True)


def end_group(leader: int) -> None:
    """Kill a process group and wait (briefly) until its leader is gone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(leader, signal.SIGKILL)
    until = time.monotonic() + 2
    while read_start_of_process(leader) is not None and time.monotonic() < until:
        time.sleep(0.02)
