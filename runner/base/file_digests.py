"""Digests of files that are read repeatedly: hashed once, then recognised by their file system metadata.

A suite is read by every job, and its build contexts may hold gigabytes. A digest is remembered by path, size, times of
change and inode. A file that changed less than two seconds before it was hashed is hashed again the next time, as git
does: a second change within the same tick of the clock would leave no trace.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from runner.base.errors import SuiteError

IGNORED = {"__pycache__", ".DS_Store"}  # not part of a task
FORMAT = "file-digests/1"
RACY_NS = 2_000_000_000
GIT_LFS = (
    b"version https://git-lfs"  # begins a pointer of Git LFS, which takes the place of a file until that is downloaded
)
LONGEST_POINTER = 1_024  # bytes, by its specification

# size, modified (ns), inode changed (ns), inode, mode
Look = tuple[int, int, int, int, int]


@dataclass(slots=True)
class FileDigests:
    """Digests of the files below one folder. `store` keeps them for later processes; None: nowhere."""

    store: Path | None = None
    known: dict[str, tuple[Look, str]] = field(default_factory=dict)
    changed: bool = False

    def digest(self, path: str, look: Look) -> str:
        found = self.known.get(path)
        if found is not None and found[0] == look:
            return found[1]
        began = time.time_ns()
        digest = hash_file(path)
        if is_settled(look, began):
            self.known[path], self.changed = (look, digest), True
        return digest

    def load(self) -> None:
        """Load what an earlier process left. An unreadable store is ignored."""
        with suppress(OSError, ValueError, TypeError, KeyError, RecursionError):
            if self.store is not None:
                value = json.loads(self.store.read_bytes())
                if value["format"] == FORMAT:
                    self.known = {path: (_look(look), str(digest)) for path, (look, digest) in value["files"].items()}

    def save(self) -> None:
        """Best effort: a full disk or a read-only home costs only time."""
        if self.store is None or not self.changed:
            return
        with suppress(OSError):
            self.store.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            content = json.dumps({"format": FORMAT, "files": self.known})
            with tempfile.NamedTemporaryFile("w", dir=self.store.parent, delete=False) as file:
                file.write(content)
            Path(file.name).replace(self.store)
            self.changed = False


def store_for(root: Path) -> Path:
    """Return one file per suite folder, below $SKILLGLASS_CACHE or the user's cache folder."""
    base = os.environ.get("SKILLGLASS_CACHE") or os.path.expanduser("~/.cache/skillglass")  # noqa: PTH111
    name = hashlib.sha256(os.fsencode(root)).hexdigest()[:32]
    return Path(base) / "suites" / f"{name}.json"


def is_settled(look: Look, at_ns: int) -> bool:
    return max(look[1], look[2]) < at_ns - RACY_NS


def look_at(status: os.stat_result) -> Look:
    return status.st_size, status.st_mtime_ns, status.st_ctime_ns, status.st_ino, status.st_mode


def hash_file(path: str) -> str:
    """SHA-256, read in pieces."""
    try:
        with open(path, "rb") as file:  # noqa: PTH123 - a Path for each of thousands of files takes longer than reading
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError as error:
        raise SuiteError(path, "file", "a readable file", str(error.strerror)) from error


def is_lfs_pointer(path: str, status: os.stat_result) -> bool:
    """Is the file a pointer of Git LFS?"""
    if not len(GIT_LFS) < status.st_size < LONGEST_POINTER:
        return False
    with open(path, "rb") as file:  # noqa: PTH123 - as in hash_file
        return file.read(len(GIT_LFS)) == GIT_LFS


def walk(folder: Path) -> Iterator[tuple[str, os.stat_result, os.DirEntry[str]]]:
    """Everything below `folder` except folders, as (POSIX path below it, its own status, entry), in order of names.

    Links are reported, never followed, so that a cycle cannot be entered. Compiled Python and the like are left out.
    """
    waiting = [("", os.fspath(folder))]
    while waiting:
        prefix, place = waiting.pop()
        try:
            with os.scandir(place) as entries:
                found = sorted(entries, key=lambda entry: entry.name)
        except OSError as error:
            raise SuiteError(place, "folder", "a readable folder", str(error.strerror)) from error
        for entry in found:
            if entry.name in IGNORED:
                continue
            if entry.is_dir(follow_symlinks=False):
                waiting.append((f"{prefix}{entry.name}/", entry.path))
            else:
                yield f"{prefix}{entry.name}", entry.stat(follow_symlinks=False), entry


def is_plain(status: os.stat_result) -> bool:
    return stat.S_ISREG(status.st_mode)


def _look(value: list[int]) -> Look:
    size, modified, changed, inode, mode = map(int, value)
    return size, modified, changed, inode, mode
