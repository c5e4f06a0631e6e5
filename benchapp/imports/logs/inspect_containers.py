"""How Inspect stores a log: a zip of a header and one JSON file per sample and epoch (.eval), or one JSON document.

Both give a header and samples that can be opened repeatedly. A zip is not unpacked: entries are read in place, if their
declared sizes are plausible. Inspect packs them with Zstandard since 2025, before with deflate. The samples of a JSON
document are copied, one after the other, into a nameless temporary file.
"""

from __future__ import annotations

import io
import json
import tempfile
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import partial
from typing import IO, Any, BinaryIO

import zstandard

from benchapp.imports.reading.documents import MAX_JSON_BYTES, Document
from benchapp.imports.reading.walking import FolderEntry, Root
from runner.base.text import storable_value
from runner.base.types import JsonValue
from runner.trajectories.problems import Problems
from runner.trajectories.readers.line_streams import walk

HEADERS = ("header.json", "_journal/start.json")
MAX_ENTRIES = 200_000
MAX_READ = 32 * 1024 * 1024  # at once: Python reads the list of entries whole, each a few hundred bytes in memory
MAX_SAMPLE_BYTES = 1024 * 1024 * 1024
MAX_ALL_BYTES = 64 * 1024 * 1024 * 1024
MAX_DOCUMENT_BYTES = 4 * 1024 * 1024 * 1024
ZSTANDARD = 93  # the zip's number for it
MAX_RATIO = 1_200  # of deflate, whose limit is about 1,030
MAX_RATIO_ZSTANDARD = 33_000  # a block of 128 KiB that repeats one byte takes four
MAX_WINDOW = 128 * 1024 * 1024
BROKEN = (zipfile.BadZipFile, zlib.error, zstandard.ZstdError, NotImplementedError, RuntimeError, EOFError)
_HEADER_KEYS = ("version", "status", "eval", "stats", "error")
_LEFT_OUT = frozenset({"events", "events_data", "store"})  # of a sample: they repeat its messages, or are not read


@dataclass(frozen=True, slots=True)
class Stored:
    """A sample's JSON: samples/<id>_epoch_<n>.json, its size in bytes, and a way to read its bytes repeatedly."""

    name: str
    size: int
    open: Callable[[], BinaryIO]


@dataclass(frozen=True, slots=True)
class Container:
    header: Document
    samples: list[Stored] = field(default_factory=list)


# --- zip ------------------------------------------------------------------------------------------------------------


def is_zip(stream: BinaryIO) -> bool:
    return stream.read(4) == b"PK\x03\x04"


def open_zip(root: Root, entry: FolderEntry) -> Container | None:
    """Open a zip. Return None, with a report, if it is not a log. Raise OSError or one of BROKEN if it is damaged."""
    archive = zipfile.ZipFile(_Bounded(root.open(entry.path)))
    members = archive.infolist()
    total = sum(member.file_size for member in members)
    if len(members) > MAX_ENTRIES or total > MAX_ALL_BYTES:
        expected = f"at most {MAX_ENTRIES:,} entries of {MAX_ALL_BYTES:,} bytes together"
        root.report(entry.path, "", expected, f"{len(members):,} of {total:,}; it was not read")
        return None
    by_name = {member.filename: member for member in reversed(members)}
    named = next((name for name in HEADERS if name in by_name), None)
    value: JsonValue = None
    if named is not None and _is_believable(by_name[named]) and by_name[named].file_size <= MAX_JSON_BYTES:
        with _open_member(archive, by_name[named]) as stream:
            text = stream.read(MAX_JSON_BYTES).decode("utf-8", "replace")
        with suppress(ValueError, RecursionError):
            value = storable_value(json.loads(text, parse_constant=lambda _: None))
    if not isinstance(value, dict) or not isinstance(value.get("eval"), dict):
        root.report(entry.path, named or HEADERS[0], "the header of an Inspect log", "there is none; not read")
        return None
    header = Document(root, entry.path, value, named or "")
    return Container(header, list(_members(root, entry, archive, members)))


def _members(
    root: Root, entry: FolderEntry, archive: zipfile.ZipFile, members: list[zipfile.ZipInfo]
) -> Iterator[Stored]:
    for member in members:
        if not member.filename.startswith("samples/") or not member.filename.endswith(".json"):
            continue
        if member.flag_bits & 0x1 or not _is_believable(member) or member.file_size > MAX_SAMPLE_BYTES:
            told = f"{member.file_size:,} bytes from {member.compress_size:,}"
            expected = f"a sample of at most {MAX_SAMPLE_BYTES:,} bytes, packed as its method can, not encrypted"
            root.report(entry.path, member.filename[:300], expected, f"{told}; left out")
            continue
        yield Stored(member.filename, member.file_size, partial(_open_member, archive, member))


def _is_believable(member: zipfile.ZipInfo) -> bool:
    ratio = MAX_RATIO_ZSTANDARD if member.compress_type == ZSTANDARD else MAX_RATIO
    return member.file_size <= ratio * max(member.compress_size, 1) + 1024


def _open_member(archive: zipfile.ZipFile, member: zipfile.ZipInfo) -> BinaryIO:
    """Return an entry's bytes, up to its declared size. Python's zipfile cannot read Zstandard before 3.14."""
    if member.compress_type != ZSTANDARD:
        return io.BufferedReader(_Entry(archive.open(member).read, member.file_size))
    stream = archive.fp
    if stream is None:
        raise EOFError("the zip is closed")
    stream.seek(member.header_offset)
    local = stream.read(30)
    if len(local) < 30:
        raise EOFError("an entry that begins behind the end of the file")
    start = member.header_offset + 30 + int.from_bytes(local[26:28], "little") + int.from_bytes(local[28:30], "little")
    packed = _open_slice(stream, start, member.compress_size)
    unpacked = zstandard.ZstdDecompressor(max_window_size=MAX_WINDOW).stream_reader(packed, read_across_frames=True)
    return io.BufferedReader(_CheckedEntry(unpacked.read, member.file_size, member.CRC))


def name_log(root: Root, entry: FolderEntry) -> Mapping[str, JsonValue]:
    """Return the log's `eval` header, read without its samples. Return {} if it cannot be read: that is reported on
    opening."""
    quiet = root.mute()
    try:
        if entry.path.suffix == ".eval":
            container = open_zip(quiet, entry)
            return {} if container is None else container.header.object("eval").raw
        with quiet.open(entry.path) as stream:
            items = walk(stream, Problems(), streamed=frozenset({"samples"}))
            told = next((value for key, value in items if key in ("eval", "samples")), None)
            found: dict[str, JsonValue] = storable_value(told) if isinstance(told, dict) and "task" in told else {}
            return found
    except (OSError, *BROKEN):
        return {}


# --- one JSON document ----------------------------------------------------------------------------------------------


def is_document(stream: BinaryIO) -> bool:
    """Is this a JSON object that names its evaluation before its samples?"""
    start = stream.read(4096)
    if not start.lstrip(b"\xef\xbb\xbf \r\n\t").startswith(b"{") or b'"eval"' not in start:
        return False
    stream.seek(0)
    for key, value in walk(stream, Problems(), streamed=frozenset({"samples"})):
        if key == "eval":
            return isinstance(value, Mapping) and "task" in value and bool({"run_id", "eval_id"} & value.keys())
        if key == "samples":
            return False
    return False


def open_document(root: Root, entry: FolderEntry) -> Container | None:
    """Open a JSON log. Return None, with a report, if it is too large. A broken one gives the samples before that."""
    if entry.size > MAX_DOCUMENT_BYTES:
        expected = f"a log of at most {MAX_DOCUMENT_BYTES:,} bytes"
        root.report(entry.path, "", expected, f"{entry.size:,}; it was not read")
        return None
    problems, told = Problems(), dict[str, JsonValue]()
    samples: list[Stored] = []
    spool = tempfile.TemporaryFile()  # noqa: SIM115 - the samples read it
    with root.open(entry.path) as stream:
        for key, value in walk(stream, problems, streamed=frozenset({"samples", "reductions"})):
            if key in _HEADER_KEYS:
                told[key] = storable_value(value)
            elif key == "samples" and isinstance(value, Mapping):
                content = json.dumps({name: part for name, part in value.items() if name not in _LEFT_OUT}).encode()
                start = spool.seek(0, io.SEEK_END)
                spool.write(content)
                name = f"samples/{value.get('id')}_epoch_{value.get('epoch', 1)}.json"
                samples.append(Stored(name, len(content), partial(_open_slice, spool, start, len(content))))
    for problem in problems:
        root.report(entry.path, problem.place, problem.expected, problem.message)
    return Container(Document(root, entry.path, told), samples)


# --- streams --------------------------------------------------------------------------------------------------------


def _open_slice(stream: IO[bytes], start: int, length: int) -> BinaryIO:
    """Return `length` bytes from `start`, to be read in sequence even if others read the stream in between."""
    at = start

    def read(size: int) -> bytes:
        nonlocal at
        stream.seek(at)
        piece = stream.read(size)
        at += len(piece)
        return piece

    return io.BufferedReader(_Limited(read, length))


class _Limited(io.RawIOBase):
    """The first `size` bytes that `read` gives."""

    def __init__(self, read: Callable[[int], bytes], size: int) -> None:
        self._read, self._left = read, size

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        piece = self._read(min(len(buffer), self._left))
        self._left -= len(piece)
        buffer[: len(piece)] = piece
        return len(piece)


class _Entry(_Limited):
    """An entry of the zip, with its faults raised as those of an unreadable file."""

    def readinto(self, buffer: Any) -> int:
        try:
            return super().readinto(buffer)
        except BROKEN as error:
            raise OSError(f"broken entry of the zip: {error}") from error


class _CheckedEntry(_Entry):
    """The same, but reading fails at the end if bytes are missing or the checksum differs."""

    def __init__(self, read: Callable[[int], bytes], size: int, crc: int) -> None:
        super().__init__(read, size)
        self._expected, self._crc = crc, 0

    def readinto(self, buffer: Any) -> int:
        length = super().readinto(buffer)
        self._crc = zlib.crc32(buffer[:length], self._crc)
        if length == 0 and len(buffer) and (self._left or self._crc != self._expected):
            raise OSError("corrupt zip entry: its checksum does not match")
        return length


class _Bounded:
    """The zip itself. A member list too large for memory is not read, even if the file declares a small one."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def read(self, size: int = -1) -> bytes:
        if size > MAX_READ:
            raise OSError(f"{size:,} bytes to be read at once, at most {MAX_READ:,} are")
        return self._stream.read(size)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
