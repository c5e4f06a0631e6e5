"""The size of what a container writes, watched from outside: the engine's own limit needs a file system that few have."""

from __future__ import annotations

import errno
import os
import shutil
import stat
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runner.errors import SandboxError
from runner.sandboxes.docker_engine import FAILURES, connect

_SHORTEST_PAUSE = 0.5
_PAUSE_WITHOUT_ANSWER = 2.0
_COST = 10  # measuring takes at most one part in so many of the time
_BLOCK = 512


class DiskWatch:
    """Measures in a thread of its own until `stop`. Once over the limit it sets `breach` and calls `end` once.

    folders: what to measure on this machine (the container's own layer, its volumes); where one cannot be read the
    engine is asked, which costs it more and counts only the layer. deep: paths too long to be measured are let pass.
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
        deep: bool = False,
    ) -> None:
        self.container, self.folders, self.deep = container, folders, deep
        self.limit, self.files, self.free, self.end = limit, files, free, end
        self.breach: str | None = None
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._watch, name=f"disk-{container[:12]}", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stop.set()
        if self._thread.is_alive() and self._thread is not threading.current_thread():
            self._thread.join()

    def _watch(self) -> None:
        client = None
        try:
            pause = _SHORTEST_PAUSE
            while not self._stop.wait(pause):
                began = time.monotonic()
                try:
                    if client is None and not self.folders:
                        client = connect()
                    self.breach = self._over(client)
                except (*FAILURES, SandboxError):
                    pause = _PAUSE_WITHOUT_ANSWER  # it may come back; whoever works with the container finds out, too
                    continue
                if self.breach is not None:
                    self.end()
                    return
                pause = max(_SHORTEST_PAUSE, _COST * (time.monotonic() - began))
        finally:
            if client is not None:
                client.close()

    def _over(self, client: Any) -> str | None:
        """Why it must end, or None. What cannot be measured counts as too much."""
        found = measured(self.folders, self.limit, self.files) if self.folders else asked(client, self.container)
        if found.too_deep and not self.deep:
            return "ended: its folders are nested too deeply to be measured"
        if found.bytes > self.limit:
            return f"ended: it wrote more than {self.limit // 2**20:,} MiB"
        if found.count > self.files:
            return f"ended: it made more than {self.files:,} files"
        free = min((shutil.disk_usage(folder).free for folder in self.folders), default=self.free)
        return (
            f"ended: less than {self.free // 2**20:,} MiB are left on the engine's disk" if free < self.free else None
        )


@dataclass(slots=True)
class Measured:
    """bytes: what takes room, holes do not. too_deep: some paths are too long to be looked into."""

    bytes: int = 0
    count: int = 0
    too_deep: bool = False
    _linked: set[tuple[int, int]] = field(default_factory=set)

    def add(self, entry: os.DirEntry[str]) -> None:
        self.count += 1
        status = entry.stat(follow_symlinks=False)
        if status.st_nlink > 1 and not stat.S_ISDIR(status.st_mode):
            if (status.st_dev, status.st_ino) in self._linked:
                return
            self._linked.add((status.st_dev, status.st_ino))
        self.bytes += status.st_blocks * _BLOCK


def measured(folders: list[Path], stop_at_bytes: int = 2**62, stop_at_count: int = 2**62) -> Measured:
    """What lies below the folders, counted until either limit is passed. What vanishes meanwhile is not counted."""
    found = Measured()
    pending = [str(folder) for folder in folders]
    while pending and found.bytes <= stop_at_bytes and found.count <= stop_at_count:
        try:
            with os.scandir(pending.pop()) as entries:
                for entry in entries:
                    if entry.is_dir(follow_symlinks=False):
                        pending.append(entry.path)
                    found.add(entry)
        except OSError as error:
            if error.errno == errno.ENAMETOOLONG:
                found.too_deep = True
            elif error.errno not in (errno.ENOENT, errno.ENOTDIR, errno.ESTALE):
                raise
    return found


def asked(client: Any, container: str) -> Measured:
    """What the engine says the container wrote."""
    rows = client.containers(all=True, size=True, filters={"id": container})
    return Measured(int(rows[0].get("SizeRw") or 0) if rows else 0)


def folders_of(container: Mapping[str, Any], volume: str) -> list[Path]:
    """Where the engine keeps what the container writes: its layer and, where it is mounted, the volume of that name.

    `container` is the engine's answer about it. Empty where one of them cannot be read from here, or where the engine
    names no folder of the layer (containerd's image store, vfs): what is measured must not be a part taken for all.
    """
    layer = ((container.get("GraphDriver") or {}).get("Data") or {}).get("UpperDir")
    volumes = [row["Source"] for row in container.get("Mounts") or () if row.get("Name") == volume][:1]
    found = [Path(folder) for folder in (layer, *volumes) if folder]
    return found if layer and all(os.access(folder, os.R_OK | os.X_OK) for folder in found) else []
