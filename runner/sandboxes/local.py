"""A private folder on this machine, for trusted suites only.

Commands run as the caller's own user with a reduced environment and limits on time, output and size. That separates and
limits a well-meaning agent's work, but is not a barrier: a command can read what the user can read and use the network.
The environment of the process that opens it is hidden from it if the system can do that (`hide_environment`).
The caller checks whether a suite is trusted before a sandbox is opened.

Limits per process come from `ulimit` in the shell that starts the command (file size, address space, no core dumps).
The number of processes is not limited: that limit counts everything the user runs. On macOS the address space
cannot be limited, and a process that leaves its process group is not found again (see `processes`).
"""

from __future__ import annotations

import json
import os
import secrets
import shutil
import socket
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, TypeVar

from runner.base.errors import SandboxError, SetupError
from runner.base.text import join_ends
from runner.base.trees import (
    Tree,
    check_relative,
    links_below,
    make_real_folder,
    measure,
    read_link,
    read_tree,
    remove_tree,
    write_tree,
)
from runner.base.types import Files, Task
from runner.sandboxes import (
    AT_TIME_LIMIT,
    LOGS,
    NOT_CLEARED,
    SKILLS,
    SOLUTION,
    TESTS,
    WORKSPACE,
    Completed,
    Sandbox,
    sandbox_kind,
)
from runner.sandboxes.gateway.gateway import Gateway
from runner.sandboxes.links import find_links_into, word_removed_links
from runner.sandboxes.needs import NOTHING, Needs
from runner.sandboxes.processes import (
    MARK_VARIABLE,
    ProcessName,
    boot_id,
    end_group,
    end_sandbox,
    group_alive,
    hide_environment,
    this_process,
    wait_for_process,
)

SKILLS_PATH = f"../{SKILLS}"
_MADE_AT_START = (WORKSPACE, SKILLS, TESTS, LOGS)
FOLDERS = (*_MADE_AT_START, SOLUTION)
SCRATCH = "tmp"
PREFIX = "skillglass-"


@dataclass(frozen=True, slots=True)
class SandboxLimits:
    """What the commands in one local sandbox may use."""

    output_characters: int = 1_000_000  # of one command
    file_bytes: int = 64 * 1024 * 1024  # of any file a command writes, its output included
    memory_kib: int = 8 * 1024 * 1024
    total_bytes: int = 512 * 1024 * 1024  # of everything in the private folder
    total_files: int = 20_000
    free_bytes: int = 1024 * 1024  # of the disk: with less it counts as full
    command_bytes: int = 100_000  # below the 128 KiB that Linux allows one argument


LIMITS = SandboxLimits()

# $1 is the command. A limit that the shell cannot set (macOS: -v) is skipped.
_LIMITED = 'ulimit -c 0; ulimit -f {blocks}; ulimit -v {memory} 2>/dev/null; exec /bin/sh -c "$1"'

NOT_PERMITTED = "this installation does not permit it (SKILLGLASS_LOCAL_SANDBOX is off): use 'docker'"


def is_permitted() -> bool:
    """May commands of agents run here, as the worker's user? Not if that user can do more than the agent may."""
    return os.environ.get("SKILLGLASS_LOCAL_SANDBOX", "").strip().lower() not in ("0", "false", "no", "off")


Made = TypeVar("Made", bound="LocalSandbox")


def open_sandbox(task: Task, *, name: str, needs: Needs = NOTHING) -> LocalSandbox:
    """A fresh private folder (mode 0700) below $SKILLGLASS_SANDBOXES or the system's folder for temporary files.

    The caller has made sure that the task's suite is trusted. SandboxError if the folder cannot be made; SetupError if
    the task has an image of its own or the agent is a program: both need a container.
    """
    if not is_permitted():
        raise SetupError(NOT_PERMITTED)
    if task.machine.brings_files or needs.program:
        wanted = f"{task.key} has an image of its own" if task.machine.brings_files else "the agent is a program"
        raise SetupError(f"{wanted}: it needs a sandbox in a container, not 'local'")
    return make_sandbox(LocalSandbox, name=name, task=task.key)


def make_sandbox(kind: Callable[..., Made], *, name: str, task: str) -> Made:
    """Make a sandbox in a private folder of its own. SandboxError if that fails."""
    hide_environment()
    base = sandboxes_folder()
    mark = secrets.token_hex(16)
    folder = base.absolute() / f"{PREFIX}{mark}"
    try:
        base.mkdir(parents=True, exist_ok=True)
        folder.mkdir(mode=0o700)
        sandbox = kind(folder.resolve(), mark, name=name, task=task)
        (sandbox.folder / LABEL).write_text(json.dumps({**sandbox.handle, "owner": str(this_process())}))
        sandbox.make_folders()
    except OSError as error:
        raise SandboxError(f"{folder}: the sandbox cannot be made: {error}") from error
    return sandbox


def engine() -> str:
    return socket.gethostname()


def sandboxes_folder() -> Path:
    return Path(os.environ.get("SKILLGLASS_SANDBOXES") or tempfile.gettempdir())


def end_processes(handle: dict[str, object], kind: str = "local") -> None:
    """End what an interrupted attempt left on this machine and remove its folder. Elsewhere it does nothing."""
    mark, folder = str(handle.get("mark", "")), Path(str(handle.get("folder", "")))
    if handle.get("kind") != kind or handle.get("host") != socket.gethostname():
        return
    if len(mark) != 32 or folder.name != PREFIX + mark or not folder.is_absolute():
        raise SandboxError(f"{folder}: not the folder of a local sandbox with the mark {mark!r}")
    if handle.get("boot") == boot_id():
        end_sandbox(mark, folder)
    remove_tree(folder)


def end_named(name: str) -> None:
    for label in read_labels(sandboxes_folder()):
        if label.get("name") == name:
            sandbox_kind(str(label.get("kind"))).end_processes(label)


def end_ownerless() -> int:
    """End the sandboxes of processes of this machine that have ended. Return how many."""
    orphans = [
        label
        for label in read_labels(sandboxes_folder())
        if (owner := ProcessName.parse(str(label.get("owner", "")))) and owner.is_gone
    ]
    for label in orphans:
        sandbox_kind(str(label.get("kind"))).end_processes(label)
    return len(orphans)


class LocalSandbox:
    """See `runner.sandboxes.Sandbox`. Outputs show the private folder as "/": paths read /workspace/..., /skills/..."""

    kind = "local"
    provider_url: str | None = None
    gateway: Gateway | None = None
    has_own_user: bool = False

    def __init__(self, folder: Path, mark: str, *, name: str, task: str) -> None:
        self.folder = folder
        self.mark = mark
        self.limits = LIMITS
        self.groups: set[int] = set()  # groups that outlived the command that started them
        self.handle: dict[str, object] = {
            "kind": self.kind,
            "host": socket.gethostname(),
            "boot": boot_id(),
            "mark": mark,
            "folder": str(folder),
            "name": name,
            "task": task,
        }

    def path(self, folder: str) -> str:
        return f"../{folder}"

    def make_folders(self) -> None:
        """Make the private folders real ones, replacing anything a command put in their place."""
        make_real_folder(self.folder)
        for name in (*_MADE_AT_START, SCRATCH):
            make_real_folder(self.folder / name)

    def put(self, folder: str, files: Files) -> None:
        try:
            write_tree(self._inside(folder), files)
        except (OSError, ValueError) as error:
            raise SandboxError(f"{folder}: files cannot be put in: {error}") from error

    def files(self, folder: str) -> Files:
        return self.tree(folder).files

    def tree(self, folder: str, below: str = "", names: frozenset[str] | None = None) -> Tree:
        """Like `files`, with what was left out and why. A link on the way below is not followed: it counts as empty."""
        root = self._inside(folder)
        try:
            for part in check_relative(below).parts if below else ():
                root = root / part
                if root.is_symlink():
                    return Tree(left_out=[f"{below}: a link"])
            return read_tree(root, names=names)
        except OSError as error:
            raise SandboxError(f"{folder}: cannot be read: {error}") from error

    def execute(
        self, command: str, *, timeout_seconds: float, environment: Mapping[str, str] | None = None
    ) -> Completed:
        """See `Sandbox.execute`. A background process may outlive its command; `end_processes` ends it.

        SandboxError if the disk is full before, during or after the command: what it then did or said is not an
        answer of the agent's.
        """
        complaint = self._complaint(command)
        if complaint:
            return Completed(exit_code=126, output=complaint)
        self._check_disk()
        started = time.monotonic()
        with tempfile.TemporaryFile() as output:
            process = self._start(command, environment or {}, output)
            ended = self._wait(process, started + timeout_seconds)
            if group_alive(process.pid):  # checked at once: later the number may belong to a group of someone else
                self.groups.add(process.pid)
            duration = time.monotonic() - started
            text, truncated = self._text(output)
        self._check_disk()
        note = ended or self._overfull()
        if note:
            text += f"\n[{note}]\n"
        exit_code = None if ended else process.returncode
        return Completed(exit_code, text, ended == AT_TIME_LIMIT, truncated, duration)

    def end_processes(self) -> None:
        groups = {group for group in self.groups if group_alive(group)}
        end_sandbox(self.mark, self.folder, groups)
        self.groups.clear()

    def remove_links(self, first: str) -> list[str]:
        cleared = self.execute(first, timeout_seconds=60)
        if cleared.exit_code != 0:
            raise SandboxError(NOT_CLEARED.format(cleared.output[-500:].strip()))
        folders = [str(self.folder / folder) for folder in (TESTS, LOGS, SOLUTION)]
        try:
            astray = find_links_into(folders, links_below(self.folder), read_link)
            for path, _ in astray:
                Path(path).unlink()
        except OSError as error:
            raise SandboxError(f"{self.folder}: links cannot be removed: {error}") from error
        return [line.replace(str(self.folder), "") for line in word_removed_links(astray)]

    def copy_to(self, other: Sandbox, path: str) -> None:
        raise SetupError("a verifier in a place of its own needs a sandbox in a container, not 'local'")

    def resume(self) -> None:
        try:
            for folder in (TESTS, LOGS, SOLUTION):
                remove_tree(self.folder / folder)
            self.make_folders()
        except OSError as error:
            raise SandboxError(f"{self.folder}: the sandbox cannot be used again: {error}") from error

    def close(self) -> None:
        self.end_processes()
        try:
            remove_tree(self.folder)
        except OSError as error:
            raise SandboxError(f"{self.folder}: the sandbox cannot be removed: {error}") from error

    def _inside(self, folder: str) -> Path:
        if folder not in FOLDERS:
            raise SandboxError(f"unknown folder {folder!r}; a sandbox has {', '.join(FOLDERS)}")
        return self.folder / folder

    def _complaint(self, command: str) -> str:
        size = len(command.encode("utf-8", "replace"))
        if size > self.limits.command_bytes:
            return f"sh: the command has {size:,} bytes, at most {self.limits.command_bytes:,} are possible\n"
        return "sh: the command holds a NUL byte\n" if "\0" in command else ""

    def _start(self, command: str, environment: Mapping[str, str], output: IO[bytes]) -> subprocess.Popen[bytes]:
        limited = _LIMITED.format(blocks=self.limits.file_bytes // 512, memory=self.limits.memory_kib)
        # An allow-list keeps the caller's secrets out. Python's settings keep output whole and equal.
        variables = {
            "PATH": os.environ.get("PATH", os.defpath),
            "HOME": str(self.folder / WORKSPACE),
            "TMPDIR": str(self.folder / SCRATCH),
            "LANG": "C.UTF-8",
            "TZ": "UTC",
            "PYTHONUNBUFFERED": "1",
            "PYTHONHASHSEED": "0",
            "PYTHONDONTWRITEBYTECODE": "1",
            **environment,
            MARK_VARIABLE: self.mark,
        }
        try:
            self.make_folders()
            return subprocess.Popen(
                ["/bin/sh", "-c", limited, "sh", command.encode("utf-8", "replace")],
                cwd=self.folder / WORKSPACE,
                env=variables,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
        except OSError as error:
            raise SandboxError(f"{self.folder}: a command cannot be started: {error}") from error

    def _wait(self, process: subprocess.Popen[bytes], deadline: float) -> str | None:
        """Wait until the process ends. Return why it was ended early, or None."""
        while True:
            remaining = deadline - time.monotonic()
            if wait_for_process(process, max(0.0, min(1.0, remaining))):
                return None
            if reason := AT_TIME_LIMIT if remaining <= 1.0 else self._overfull():
                end_group(process.pid)
                process.wait()
                return reason
            self._check_disk()

    def _check_disk(self) -> None:
        """Ours may be elsewhere than the output of commands. After a SandboxError the caller closes the sandbox, which
        ends a command under way."""
        for place in (self.folder, tempfile.gettempdir()):
            if shutil.disk_usage(place).free < self.limits.free_bytes:
                raise SandboxError(f"{place}: no space left on the disk")

    def _overfull(self) -> str | None:
        size, count = measure(self.folder, self.limits.total_bytes, self.limits.total_files)
        if size > self.limits.total_bytes:
            return f"the sandbox holds more than {self.limits.total_bytes:,} bytes"
        if count > self.limits.total_files:
            return f"the sandbox holds more than {self.limits.total_files:,} files"
        return None

    def _text(self, output: IO[bytes]) -> tuple[str, bool]:
        """Return the output as text without the private folder's path, its middle cut out if it is too long."""
        limit = self.limits.output_characters
        size = output.seek(0, os.SEEK_END)
        output.seek(0)
        if size <= 4 * limit:
            head, tail, unread = self._normalise(output.read()), "", 0
        else:
            head = self._normalise(output.read(2 * limit))
            output.seek(size - 2 * limit)
            tail, unread = self._normalise(output.read()), size - 4 * limit
        return join_ends(head, tail, unread, limit)

    def _normalise(self, content: bytes) -> str:
        text = content.decode("utf-8", "replace")
        return text.replace(str(self.folder), "").replace(self.mark, "local")


LABEL = "label.json"
MAX_BYTES = 10_000


def read_labels(base: Path) -> Iterator[dict[str, object]]:
    """Read the labels of the sandboxes below `base`. Mark and folder come from the folder's own name: hostile
    commands could have changed a label, and it must not lead elsewhere."""
    for folder in sorted(base.absolute().glob(f"{PREFIX}*")) if base.is_dir() else ():
        try:
            text = (folder / LABEL).read_bytes()[:MAX_BYTES] if not folder.is_symlink() else b""
            label = json.loads(text)
        except (OSError, ValueError):
            continue  # somebody else's, or removed since then
        if isinstance(label, dict):
            yield {**label, "mark": folder.name.removeprefix(PREFIX), "folder": str(folder.resolve())}
