"""Read a folder from an untrusted source: nothing outside it is read, and every walk ends.

Symbolic links are never followed. Devices, sockets and pipes are never read. Depth, number of entries and size of every
read are bounded; what goes over a bound is reported.
"""

from __future__ import annotations

import hashlib
import os
import stat
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from operator import attrgetter
from pathlib import Path
from typing import BinaryIO

from benchapp.imports.problems import ProblemList
from runner.base.text import list_first, mark_left_out, storable

MAX_DEPTH = 16
MAX_ENTRIES = 2_000_000  # of the whole folder given
# Path parts that distinguish files of the same name: <split>/<submission>/trajs, <project>/<session>/wire.jsonl.
TAIL = 3
NAMED = 5  # names that one line of the report lists
NOT_ENTERED = frozenset({".git", "node_modules", "site-packages", "__pycache__"})
MAX_TREE_FILES = 20_000  # of one trial, or one skill library
MAX_HASHED_BYTES = 1024 * 1024 * 1024  # a larger file is hashed by its size, time and both ends
END_BYTES = 1024 * 1024
PIECE_BYTES = 64 * 1024


def name_of(path: Path) -> str:
    """Return the last part of a path as storable text: names on disk need not be Unicode."""
    return storable(path.name)


UPLOADED = "browser/uploaded/"  # above what a browser sent; part of a key, and no folder that anybody named


def tail_of(path: Path, length: int = TAIL) -> str:
    """Return the last parts of a path as storable text: names a thing that has no name of its own,
    the same on every machine."""
    return storable("/".join([part for part in path.parts if part != path.anchor][-length:]))


def list_names(names: Sequence[str], total: int | None = None) -> str:
    """Return the first NAMED names and the number of the others; `total` if `names` holds only some of them."""
    return list_first(names, NAMED, total)


def _read_up_to(descriptor: int, limit: int) -> bytes:
    """Read the next bytes, at most `limit`, in pieces: most files are far smaller than the limit."""
    pieces = list[bytes]()
    while limit > 0 and (piece := os.read(descriptor, min(limit, PIECE_BYTES))):
        pieces.append(piece)
        limit -= len(piece)
    return b"".join(pieces)


@dataclass(frozen=True, slots=True)
class FolderEntry:
    """A regular file below a folder, with its POSIX path relative to it (storable) and its size in bytes."""

    path: Path
    name: str
    size: int


class Root:
    """One folder given to the importer. Its files are opened only through this."""

    def __init__(self, given: Path, problems: ProblemList, *, at: Path | None = None) -> None:
        """`at`: where it is on this machine, if `given` is only its displayed name."""
        self.given = given
        self.base = (at or given).resolve()
        self._inside = f"{self.base}/".replace("//", "/")  # what every path below it begins with
        self.problems = problems
        self._entries = 0
        self._links: set[Path] = set()
        self._closed: set[Path] = set()

    def label(self, path: Path) -> str:
        """Return the path as the person who started the import would write it."""
        relative = os.path.relpath(path, self.base)
        return storable(str(self.given) if relative == "." else str(self.given / relative))

    def mute(self) -> Root:
        """Return the same folder for a first look without reports: the real reading reports its problems."""
        return Root(self.given, ProblemList(), at=self.base)

    def report(self, path: Path, place: str, expected: str, message: str) -> None:
        self.problems.add(self.label(path), place, expected, message)

    def report_unreadable(self, path: Path, error: OSError) -> None:
        self.report(path, "", "a file that can be read", error.strerror or str(error))

    def is_too_deep(self, folder: Path, depth: int) -> bool:
        """Report a folder below MAX_DEPTH, which no walk enters."""
        if depth > MAX_DEPTH:
            self.report(folder, "", f"folders nested at most {MAX_DEPTH} deep", "everything below is left out")
        return depth > MAX_DEPTH

    # --- asking -------------------------------------------------------------------------------------------------

    def is_file(self, path: Path) -> bool:
        """Is it a regular file, not a link? False, with a report, if its folder is not searchable."""
        return stat.S_ISREG(self._mode(path))

    def is_dir(self, path: Path) -> bool:
        """Is it a folder, not a link? False, with a report, if its folder is not searchable."""
        return stat.S_ISDIR(self._mode(path))

    def exists(self, path: Path) -> bool:
        """Does anything of this name exist, even a broken link?"""
        return self._mode(path) != 0

    def size(self, path: Path) -> int:
        """Return the size in bytes; 0 if nothing exists or is visible."""
        try:
            return path.lstat().st_size
        except (OSError, ValueError):
            return 0

    def modified_at(self, path: Path) -> datetime:
        """Return when a file was last changed, for a source that has no times; 1970 if that is unknown."""
        try:
            return datetime.fromtimestamp(path.lstat().st_mtime, UTC)
        except (OSError, OverflowError, ValueError):
            return datetime.fromtimestamp(0, UTC)

    def _mode(self, path: Path) -> int:
        """Return the mode; 0 if nothing exists or is visible (Path.is_file() would raise)."""
        try:
            return path.lstat().st_mode
        except (FileNotFoundError, NotADirectoryError, ValueError):
            return 0
        except OSError as error:
            self._report_closed(path.parent, error)
            return 0

    def _report_closed(self, folder: Path, error: OSError) -> None:
        if folder not in self._closed:
            self._closed.add(folder)
            self.report(folder, "", "a folder that can be read", error.strerror or type(error).__name__)

    # --- listing ------------------------------------------------------------------------------------------------

    def listing(self, folder: Path) -> tuple[list[Path], list[FolderEntry]]:
        """Return (sub-folders, regular files) of one folder, sorted by name, without links and special files."""
        folders: list[Path] = []
        files: list[FolderEntry] = []
        try:
            with os.scandir(folder) as entries:
                for entry in sorted(entries, key=attrgetter("name")):
                    self._entries += 1
                    if self._entries > MAX_ENTRIES:
                        if self._entries == MAX_ENTRIES + 1:
                            self.report(
                                folder, "", f"at most {MAX_ENTRIES:,} files and folders", "the rest is left out"
                            )
                        break
                    try:
                        self._add_entry(entry, folders, files)
                    except PermissionError as error:  # the folder may be listed, but not searched
                        self._report_closed(folder, error)
                    except OSError as error:  # deleted since the listing
                        self.report_unreadable(Path(entry.path), error)
        except OSError as error:
            self._report_closed(folder, error)
        return folders, files

    def _add_entry(self, entry: os.DirEntry[str], folders: list[Path], files: list[FolderEntry]) -> None:
        path = Path(entry.path)
        if entry.is_symlink():
            self._report_outside_link(path)
        elif entry.is_dir(follow_symlinks=False):
            folders.append(path)
        elif entry.is_file(follow_symlinks=False):
            files.append(FolderEntry(path, storable(entry.name), entry.stat(follow_symlinks=False).st_size))
        else:
            self.report(path, "", "a regular file", "a device, socket or pipe; it was not opened")

    def _report_outside_link(self, path: Path) -> None:
        """Report a link that leads outside, once.
        A link to something inside needs no report: its target is read anyway."""
        if path in self._links:
            return
        self._links.add(path)
        try:
            target = path.resolve()
        except (OSError, RuntimeError):
            self.report(path, "", "a link that leads somewhere", "a loop of symbolic links; it was not followed")
            return
        if not target.is_relative_to(self.base):
            self.report(path, "", "a file inside the folder given", "a symbolic link that leads out; not followed")

    def tree(self, folder: Path, *, skip: frozenset[str] = frozenset()) -> list[FolderEntry]:
        """Return every regular file below a folder, sorted by path; folders named in `skip` are not entered."""
        found: list[FolderEntry] = []
        for entry in self._walk(folder, "", skip, 0):
            if len(found) == MAX_TREE_FILES:
                self.report(folder, "", f"at most {MAX_TREE_FILES:,} files", "the rest is left out")
                break
            found.append(entry)
        return sorted(found, key=lambda entry: entry.name)

    def _walk(self, folder: Path, prefix: str, skip: frozenset[str], depth: int) -> Iterator[FolderEntry]:
        if self.is_too_deep(folder, depth):
            return
        folders, files = self.listing(folder)
        for file in files:
            yield FolderEntry(file.path, prefix + file.name, file.size) if prefix else file
        for sub in folders:
            if sub.name not in skip:
                yield from self._walk(sub, f"{prefix}{name_of(sub)}/", skip, depth + 1)

    # --- opening ------------------------------------------------------------------------------------------------

    def open(self, path: Path) -> BinaryIO:
        """Open a regular file for reading. Raise OSError for anything else, or for a file outside the folder."""
        return os.fdopen(self._open(path), "rb")

    def _open(self, path: Path) -> int:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise OSError("not a regular file")
            try:  # resolve what was really opened: the descriptor on Linux, the path elsewhere
                place = os.readlink(f"/proc/self/fd/{descriptor}")  # noqa: PTH115 - a Path takes longer
            except OSError:
                place = os.path.realpath(path)
            if not f"{place}/".startswith(self._inside):
                raise OSError("is outside the given folder")
        except BaseException:
            os.close(descriptor)
            raise
        return descriptor

    def sha256(self, path: Path, whole: int = MAX_HASHED_BYTES) -> str:
        """Return the hex SHA-256 of a file's bytes. Over `whole` bytes, hash size, modification time, first and last
        bytes instead: any file takes bounded time. Raise OSError if it cannot be read."""
        descriptor = self._open(path)
        try:
            status = os.fstat(descriptor)
            digest, left = hashlib.sha256(), status.st_size  # bytes appended while we read are for the next import
            if left > whole:
                digest.update(f"ends\0{status.st_size}\0{status.st_mtime_ns}\0".encode())
                digest.update(_read_up_to(descriptor, END_BYTES))
                os.lseek(descriptor, max(0, status.st_size - END_BYTES), os.SEEK_SET)
                left = END_BYTES
            while left > 0 and (piece := os.read(descriptor, min(left, END_BYTES))):
                digest.update(piece)
                left -= len(piece)
        finally:
            os.close(descriptor)
        return digest.hexdigest()

    def read_ends(self, path: Path, limit: int) -> bytes | None:
        """Return the file's bytes; over `limit`, its first and last limit/2 around a mark, which is reported."""
        size = self.size(path)
        if size <= limit:
            return self.read(path, limit)
        try:
            with self.open(path) as stream:
                start = stream.read(limit // 2)
                stream.seek(size - limit // 2)
                end = stream.read(limit // 2)
        except OSError as error:
            self.report_unreadable(path, error)
            return None
        mark = mark_left_out(size - len(start) - len(end)).replace("characters", "bytes")
        self.report(path, "", f"a file of at most {limit:,} bytes", f"a larger one; cut: {mark}")
        return start + mark.encode() + end

    def read(self, path: Path, limit: int) -> bytes | None:
        """Return the file's bytes; None, with a report, if it cannot be read or is over `limit`."""
        try:
            descriptor = self._open(path)
            try:
                content = _read_up_to(descriptor, limit + 1)
            finally:
                os.close(descriptor)
        except OSError as error:
            self.report_unreadable(path, error)
            return None
        if len(content) > limit:
            self.report(path, "", f"a file of at most {limit:,} bytes", "a larger one; it was not read")
            return None
        return content
