"""The size of what a container writes, watched from outside, as few file systems support the engine's own limit."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import socket
import stat
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import chain
from pathlib import Path
from typing import Any

from docker import APIClient

from runner.base.errors import SandboxError
from runner.sandboxes.docker.docker_engine import FAILURES, connect, engine_errors
from runner.sandboxes.processes import PROC

_SHORTEST_PAUSE = 0.5
_LONGEST_PAUSE = 2.0  # however long the last look took: what is written in between is the overshoot
_PAUSE_WITHOUT_ANSWER = 2.0
_COST = 4  # below the longest pause, measuring takes at most 1/4 of the time
_ROOM_PAUSE = 0.25  # between two checks of the room left on the disk, which cost next to nothing
_SUDDEN = 4  # if 1/4 of the limit is gone from the disk since the last check, look at once
_LONGEST_LOOK = 30.0
_LONGEST_STOP = 5.0  # the engine may be slow to answer an abandoned look
_BLOCK = 512
_ENTRIES_PER_QUESTION = 1_000  # of a look, between two checks whether to continue


class DiskWatch:
    """Measures in a thread of its own until `stop`. Over the limit it sets `breach` and calls `end` once.

    folders: what to measure on this machine (the container's own layer, its volumes). If one is unreadable, the engine
    is asked, which costs it more and counts only the layer. The room left on their disk has a second thread, so that no
    slow look delays it. lenient: ignore what cannot be measured.
    """

    def __init__(
        self,
        container: str,
        folders: list[Path],
        *,
        limit: int,
        files: int,
        free: int,
        end: Callable[[], None],
        lenient: bool = False,
    ) -> None:
        self.container, self.folders, self.lenient = container, folders, lenient
        self.limit, self.files, self.free, self.end = limit, files, free, end
        self.breach: str | None = None
        self._client: APIClient | None = None
        self._stopped = False
        self._due = threading.Event()  # the next look, or the end
        self._over = threading.Event()  # stopped, or ended
        self._looking, self._ending = threading.Lock(), threading.Lock()
        self._room_at_look = 0
        watching = [self._measure, self._guard_room] if folders else [self._measure]
        self._threads = [threading.Thread(target=each, name=f"disk-{container[:12]}", daemon=True) for each in watching]

    def start(self) -> None:
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Stop. A look in progress is given up."""
        self._stopped = True
        self._over.set()
        self._due.set()
        for thread in self._threads:
            if thread.is_alive() and thread is not threading.current_thread():
                thread.join(_LONGEST_STOP)

    def look(self) -> None:
        """Measure now: what was written in one burst is seen when its command ends, at the latest."""
        with contextlib.suppress(*FAILURES, SandboxError):
            self._look()

    def _measure(self) -> None:
        pause = _SHORTEST_PAUSE
        while not self._over.is_set():
            self._due.wait(pause)
            self._due.clear()
            began = time.monotonic()
            try:
                self._look()
            except (*FAILURES, SandboxError):
                pause = _PAUSE_WITHOUT_ANSWER  # it may come back; any user of the container notices, too
                continue
            pause = min(_LONGEST_PAUSE, max(_SHORTEST_PAUSE, _COST * (time.monotonic() - began)))
        with self._looking:
            if self._client is not None:
                self._client.close()

    def _look(self) -> None:
        with self._looking:
            if self._over.is_set():
                return
            if self.folders:
                self._room_at_look = self._room()
                found = measure_folders(self.folders, self.limit, self.files, self._over.is_set, self.container)
            else:
                self._client = self._client or connect()
                found = ask_engine(self._client, self.container)
        if not self._stopped and (why := self._too_much(found)):
            self._end(why)

    def _too_much(self, usage: DiskUse) -> str | None:
        """Return why it must end, or None. What cannot be measured counts as too much."""
        if usage.bytes > self.limit:
            return f"ended: it wrote more than {self.limit // 2**20:,} MiB"
        if usage.count > self.files:
            return f"ended: it made more than {self.files:,} files"
        return f"ended: {usage.problem}" if usage.problem and not self.lenient else None

    def _guard_room(self) -> None:
        while not self._over.wait(_ROOM_PAUSE):
            with contextlib.suppress(OSError):
                room = self._room()
                if room < self.free:
                    self._end(f"ended: less than {self.free // 2**20:,} MiB are left on the engine's disk")
                elif room < self._room_at_look - self.limit // _SUDDEN:
                    self._due.set()

    def _room(self) -> int:
        return min(shutil.disk_usage(folder).free for folder in self.folders)

    def _end(self, why: str) -> None:
        with self._ending:
            if self.breach is not None or self._stopped:
                return
            self.breach = why
        self._over.set()
        self._due.set()
        self.end()


@dataclass(slots=True)
class DiskUse:
    """bytes: disk space, so holes do not count. problem: why not everything could be measured."""

    bytes: int = 0
    count: int = 0
    problem: str = ""
    _linked: set[tuple[int, int]] = field(default_factory=set)

    def add(self, entry: os.DirEntry[str] | _Held) -> None:
        self.count += 1
        try:
            status = entry.stat(follow_symlinks=False)
        except OSError as error:  # of this entry alone: a vanishing file must not hide those listed after it
            self.note(error)
            return
        if status.st_nlink != 1 and not stat.S_ISDIR(status.st_mode):
            if (status.st_dev, status.st_ino) in self._linked:
                return
            self._linked.add((status.st_dev, status.st_ino))
        self.bytes += status.st_blocks * _BLOCK

    def note(self, error: OSError) -> None:
        """Raise if the error says nothing about the container."""
        if error.errno == errno.ENAMETOOLONG:
            self.problem = "its folders are nested too deeply to be measured"
        elif error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ESTALE):
            raise error


def measure_folders(
    folders: list[Path],
    stop_at_bytes: int = 2**62,
    stop_at_count: int = 2**62,
    given_up: Callable[[], bool] = lambda: False,
    container: str = "",
) -> DiskUse:
    """Count what is below the folders and what the container holds open. Stops when either limit is passed, it took
    too long or it is given up. Files that vanish in between are not counted."""
    found, until = DiskUse(), time.monotonic() + _LONGEST_LOOK
    held: Iterator[_Held | None] = iter(())
    if container:
        held = _iterate_held_open(container, {folder.stat().st_dev for folder in folders})
    everything: Iterator[os.DirEntry[str] | _Held | None] = chain(_entries(folders, found), held)
    for number, entry in enumerate(everything):
        if entry is not None:
            found.add(entry)
        if found.bytes > stop_at_bytes or found.count > stop_at_count:
            break
        if number % _ENTRIES_PER_QUESTION:
            continue
        if given_up():
            break
        if time.monotonic() > until:
            found.problem = f"its files take more than {_LONGEST_LOOK:.0f} s to be measured"
            break
    return found


def _entries(folders: list[Path], usage: DiskUse) -> Iterator[os.DirEntry[str]]:
    pending = [str(folder) for folder in folders]
    while pending:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    yield entry
        except OSError as error:
            usage.note(error)


@dataclass(frozen=True, slots=True)
class _Held:
    status: os.stat_result

    def stat(self, *, follow_symlinks: bool) -> os.stat_result:
        return self.status


def _iterate_held_open(container: str, devices: set[int]) -> Iterator[_Held | None]:
    """Files of the container that were removed and take space until the last process closes them: no folder shows them.
    None if the engine's processes are not visible from here."""
    for process in PROC.iterdir():
        with contextlib.suppress(OSError):
            if process.name.isdigit() and container.encode() in (process / "cgroup").read_bytes():
                yield from _iterate_removed_files(process, {*devices, (process / "root").stat().st_dev})


def _iterate_removed_files(process: Path, devices: set[int]) -> Iterator[_Held | None]:
    """Only files on these devices: others are in memory. Each thread may have files of its own. None is yielded for
    any other open file: a thousand threads that share a million of them must not hold up the look unnoticed."""
    for place in (process / "map_files", *(process / "task").glob("*/fd")):
        with contextlib.suppress(OSError), os.scandir(place) as entries:
            for entry in entries:
                yield _read_removed_file(entry, devices)


def _read_removed_file(entry: os.DirEntry[str], devices: set[int]) -> _Held | None:
    try:
        status = entry.stat()
    except OSError:
        return None
    is_removed = status.st_nlink == 0 and stat.S_ISREG(status.st_mode) and status.st_dev in devices
    return _Held(status) if is_removed else None


def ask_engine(client: APIClient, container: str) -> DiskUse:
    """What the container wrote, according to the engine."""
    rows = client.containers(all=True, size=True, filters={"id": container})
    return DiskUse(int(rows[0].get("SizeRw") or 0) if rows else 0)


def engine_folder(client: APIClient) -> Path | None:
    """Where the engine keeps its images, if readable from here. That folder may be another engine's: the file with the
    engine's name in it decides, or the machine's name if the engine is too old to write one."""
    with engine_errors("asking the engine for its folder"):
        info = client.info()
    folder = Path(str(info.get("DockerRootDir") or "/nowhere"))
    if not os.access(folder, os.R_OK | os.X_OK):
        return None
    try:
        is_its_own = (folder / "engine-id").read_text().strip() == info.get("ID")
    except OSError:
        is_its_own = info.get("Name") == socket.gethostname()
    return folder if is_its_own else None


def folders_of(container: Mapping[str, Any]) -> list[Path]:
    """Where the engine keeps what the container writes: its layer, its writable volumes, and the folder of the files
    that the engine mounts into each container (/etc/hosts), which root in it can fill.

    `container` is the engine's answer about it. Empty if one of them cannot be read from here, or if the engine
    names no folder of the layer (containerd's image store, vfs): a part must not be measured as the whole.
    """
    layer = ((container.get("GraphDriver") or {}).get("Data") or {}).get("UpperDir")
    volumes = [row["Source"] for row in container.get("Mounts") or () if row.get("RW")]
    own = [Path(container["HostsPath"]).parent] if container.get("HostsPath") else []
    found = [*map(Path, dict.fromkeys(filter(None, (layer, *volumes)))), *own]
    return found if layer and all(os.access(folder, os.R_OK | os.X_OK) for folder in found) else []
