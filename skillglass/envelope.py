"""The outside of an archive: plain tar members of regular files in a zstd or gzip stream, read forwards, never
unpacked.

Python's own reader of tar follows links and reads extension headers of any size into memory; ours knows one kind of
header and refuses every other.
"""

from __future__ import annotations

import gzip
import io
import tarfile
import zlib
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import IO, BinaryIO

import zstandard

Stream = IO[bytes] | gzip.GzipFile
BLOCK = tarfile.BLOCKSIZE
PIECE = 1024 * 1024
LEVEL = 3  # there are many contents, each written once
MAX_WINDOW = 128 * 1024 * 1024  # bytes a zstd stream may make its reader hold
MAX_MEMBER = 8 * 1024**3  # the limit of a plain header
FORMAT = "skillglass-archive/1"
MANIFEST = "manifest.json"
SHARED = "shared.jsonl"
MAX_LINE = 64 * 1024 * 1024  # bytes
_MAGIC = {b"\x28\xb5\x2f\xfd": "zstd", b"\x1f\x8b": "gzip"}


class ArchiveError(Exception):
    """The file cannot be accepted, or the experiment cannot be written. Nothing was changed.

    place: member of the archive, with the line if there is one. expected: what should have been there.
    """

    def __init__(self, place: str, expected: str, message: str) -> None:
        super().__init__(f"{place}: expected {expected}; {message}" if place else f"expected {expected}; {message}")
        self.place, self.expected, self.message = place, expected, message


# --- writing ----------------------------------------------------------------------------------------------------


class Writer:
    """Members one after another. The same members give the same bytes: no times, no owners."""

    def __init__(self, tar: tarfile.TarFile) -> None:
        self._tar = tar

    def add(self, name: str, content: BinaryIO, size: int) -> None:
        info = tarfile.TarInfo(name)
        info.size, info.mode = size, 0o644
        self._tar.addfile(info, content)

    def add_bytes(self, name: str, content: bytes) -> None:
        self.add(name, io.BytesIO(content), len(content))


@contextmanager
def open_writer(target: BinaryIO, *, zipped: bool) -> Iterator[Writer]:
    """zipped: gzip, for readers without zstd."""
    stream: Stream = (
        gzip.GzipFile(filename="", fileobj=target, mode="wb", compresslevel=6, mtime=0)
        if zipped
        else zstandard.ZstdCompressor(level=LEVEL).stream_writer(target, closefd=False)
    )
    with stream, tarfile.open(fileobj=stream, mode="w|", format=tarfile.USTAR_FORMAT) as tar:
        yield Writer(tar)


# --- reading ----------------------------------------------------------------------------------------------------


@dataclass(slots=True)
class Member:
    """One file of the archive. Read it before asking for the next one: there is no way back."""

    name: str
    size: int
    _stream: Stream
    _left: int

    def read(self, most: int = PIECE) -> bytes:
        """The next at most `most` bytes; nothing at its end."""
        piece = _exactly(self._stream, min(most, self._left), self.name)
        self._left -= len(piece)
        return piece

    def whole(self, limit: int) -> bytes:
        if self.size > limit:
            raise ArchiveError(self.name, f"at most {limit:,} bytes", f"it has {self.size:,}")
        return self.read(self.size)

    def lines(self, limit: int) -> Iterator[bytes]:
        """Yield lines without their ends. ArchiveError for one over `limit` bytes, or a last one that does not end."""
        rest = b""
        while piece := self.read():
            *lines, rest = (rest + piece).split(b"\n")
            yield from lines
            if len(rest) > limit:
                raise ArchiveError(self.name, f"lines of at most {limit:,} bytes", "a longer one")
        if rest:
            raise ArchiveError(self.name, "lines that end", "the last one does not")


@contextmanager
def open_members(path: Path) -> Iterator[Iterator[Member]]:
    """Yield the members in their order. ArchiveError for anything but a valid archive."""
    try:
        with path.open("rb") as file, _decompress(file) as stream:
            yield _members(stream)
    except EOFError as error:
        raise ArchiveError("", "a whole archive", "it ends too early") from error
    except (gzip.BadGzipFile, zlib.error, zstandard.ZstdError) as error:
        raise ArchiveError("", "an undamaged archive", f"it does not unpack: {error}") from error
    except OSError as error:
        raise ArchiveError("", "a file that can be read", error.strerror or str(error)) from error


def _decompress(file: BinaryIO) -> Stream:
    magic = file.read(4)
    file.seek(0)
    kind = next((kind for start, kind in _MAGIC.items() if magic.startswith(start)), None)
    if kind == "zstd":
        reader = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW)
        return reader.stream_reader(file, closefd=False)
    if kind == "gzip":
        return gzip.GzipFile(fileobj=file)
    raise ArchiveError("", "a tar in zstd or gzip", "the file is neither" if magic else "the file is empty")


def _members(stream: Stream) -> Iterator[Member]:
    while True:
        head = _exactly(stream, BLOCK, "the next header")
        if not any(head):
            return
        member = _member(head, stream)
        yield member
        while member.read():
            pass
        _exactly(stream, -member.size % BLOCK, member.name)


def _member(head: bytes, stream: Stream) -> Member:
    try:
        info = tarfile.TarInfo.frombuf(head, "ascii", "strict")
    except (tarfile.HeaderError, UnicodeError) as error:
        raise ArchiveError("", "a tar header", str(error)) from error
    if info.type != tarfile.REGTYPE:
        raise ArchiveError(ascii(info.name)[:120], "regular files only", "a link, folder, device or extension")
    if not 0 <= info.size <= MAX_MEMBER:
        raise ArchiveError(ascii(info.name)[:120], f"at most {MAX_MEMBER:,} bytes", f"{info.size:,}")
    return Member(info.name, info.size, stream, info.size)


def _exactly(stream: Stream, size: int, place: str) -> bytes:
    """Read exactly `size` bytes: zstd's and gzip's readers may return less before their end."""
    pieces, left = [], size
    while left:
        piece = stream.read(min(left, PIECE))
        if not piece:
            raise ArchiveError(place, "a whole archive", "it ends too early")
        pieces.append(piece)
        left -= len(piece)
    return b"".join(pieces)
