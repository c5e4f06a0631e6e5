"""Reading JSON of any size from hostile files in bounded memory.

Two shapes: one big value (`walk`: top-level keys, and the items of named lists, one at a time) and one value a line
(`json_lines`). In both, invalid UTF-8 is replaced and reported once with its offset. A string literal over
MAX_STRING_BYTES is cut with a visible mark, and nesting and size of one value are bounded. NaN, Infinity and integers
that no database holds, which Python writes, are replaced one by one. `in_utf8` removes byte order marks.
"""

from __future__ import annotations

import codecs
import io
import re
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import TYPE_CHECKING, Any, BinaryIO

import ijson
import orjson

from runner.base.text import MAX_DEPTH, TOO_DEEP, mark_left_out, storable_value
from runner.base.types import JsonValue
from runner.trajectories.problems import Problems
from runner.trajectories.readers.plain_json import (
    FINITE,
    MAX_DIGITS,
    MAX_OPENINGS,
    NO_HALF,
    NO_NUL,
    ONCE,
    ORDINARY,
    SMALL_BYTES,
    TWICE,
    has_long_number,
    is_deeper,
    list_oddities,
    plain_object,
    read_lenient,
)

if TYPE_CHECKING:
    from _typeshed import WriteableBuffer

MAX_STRING_BYTES = 8 * 1024 * 1024
MAX_LINE_BYTES = 32 * 1024 * 1024
MAX_FILE_BYTES = 1024 * 1024 * 1024  # of a trajectory
MAX_VALUE_NODES = 1_000_000
MAX_VALUE_CHARS = 64 * 1024 * 1024
MAX_NAMES = 10_000  # at the top of a document, checked for repeats
MAX_NUMBER_BYTES = 4_096  # a longer one is not completed
CHUNK = 64 * 1024
UTF8_MARK = codecs.BOM_UTF8
UTF16_MARKS = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)

_ODD_NUMBER = re.compile(rb"-?(?:NaN|Infinity)|(?<![\d.+eE-])-?\d{%d,}(?![\d.eE])" % (MAX_DIGITS + 1))
_HIGH_HALF = re.compile(rb"\\u[dD][89abAB][0-9a-fA-F]{2}")
_ESCAPE = re.compile(  # a whole pair; half of one; any other escape
    rb"(\\u[dD][89abAB][0-9a-fA-F]{2}\\u[dD][c-fC-F][0-9a-fA-F]{2})|(\\u[dD][89a-fA-F][0-9a-fA-F]{2})|\\.", re.DOTALL
)
_IN_NUMBERS = b"+-.0123456789EINaefintyd"
_OPENING, _CLOSING = ("start_map", "start_array"), ("end_map", "end_array")
_Events = Iterator[tuple[str, Any]]  # as ijson gives them: the value of an event is of any type


class StringCap:
    """Passes JSON bytes through, cutting string literals that run over `limit` bytes.
    Costs a few C searches a chunk."""

    def __init__(self, problems: Problems, place: str, limit: int = MAX_STRING_BYTES) -> None:
        self._problems, self._place, self._limit = problems, place, limit
        self._in_string = False
        self._run = 0  # bytes since the last quote that opened or closed a string
        self._dropping, self._dropped = False, 0
        self._pending = b""  # an incomplete escape or character at a chunk's end

    def feed(self, chunk: bytes) -> bytes:
        chunk = self._pending + chunk
        whole = len(chunk) - _count_unfinished(chunk)
        chunk, self._pending = chunk[:whole], chunk[whole:]
        if self._dropping:
            return self._drop(chunk)
        masked = _mask(chunk)
        quotes = masked.count(b'"')
        self._run = len(chunk) - masked.rfind(b'"') if quotes else self._run + len(chunk)
        self._in_string ^= quotes % 2 == 1
        self._dropping = self._in_string and self._run > self._limit
        return chunk

    def _drop(self, chunk: bytes) -> bytes:
        end = _mask(chunk).find(b'"')
        if end < 0:
            self._dropped += len(chunk)
            return b""
        mark = mark_left_out(self._dropped + end).replace("characters", "bytes")
        self._problems.add(self._place, f"a text of at most {self._limit:,} bytes", f"cut: {mark}")
        rest, self._pending = chunk[end + 1 :] + self._pending, b""
        self._dropped = self._run = 0
        self._dropping = self._in_string = False
        return mark.encode() + b'"' + self.feed(rest)


def _mask(chunk: bytes) -> bytes:
    """Replace escaped quotes by other bytes. Works because a chunk never begins inside an escape."""
    if b"\\" not in chunk:
        return chunk
    return chunk.replace(b"\\\\", b"..").replace(b'\\"', b"..")


def _count_unfinished(chunk: bytes) -> int:
    """Bytes at the end that belong to an unfinished escape (a backslash, "\\u20") or UTF-8 character."""
    at = chunk.rfind(b"\\", max(0, len(chunk) - 5))
    if at >= 0 and (at + 1 - len(chunk[: at + 1].rstrip(b"\\"))) % 2:
        tail = chunk[at + 1 :]
        return len(tail) + 1 if not tail or (tail.startswith(b"u") and len(tail) < 5) else 0
    for back in range(1, min(4, len(chunk)) + 1):
        byte = chunk[-back]
        if byte >= 0xC0:
            width = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return back if width > back else 0
        if byte < 0x80:
            return 0
    return 0


class Utf8:
    """Passes bytes through, replacing what is not UTF-8 and reporting the first such offset once."""

    def __init__(self, problems: Problems) -> None:
        self._problems, self._reported, self._offset, self._rest = problems, False, 0, b""

    def feed(self, chunk: bytes, final: bool = False) -> bytes:
        data = self._rest + chunk
        try:
            _, used = codecs.utf_8_decode(data, "strict", final)
            clean = data[:used]
        except UnicodeDecodeError as error:
            if not self._reported:
                self._reported = True
                self._problems.add(
                    f"byte {self._offset + error.start:,}", "valid UTF-8", "invalid bytes, shown as \ufffd"
                )
            text, used = codecs.utf_8_decode(data, "replace", final)
            clean = text.encode()
        self._rest = data[used:]
        self._offset += used
        return clean


class Numbers:
    """Passes JSON bytes through with null for NaN and Infinity, and with integers of more than MAX_DIGITS as texts: the
    parser ends at either. Reports the first of each kind."""

    def __init__(self, problems: Problems) -> None:
        self._problems, self._in_string, self._pending = problems, False, b""
        self._reported: set[bool] = set()

    def feed(self, chunk: bytes, final: bool = False) -> bytes:
        chunk = self._pending + chunk
        whole = len(chunk) if final else len(chunk) - (_count_unfinished(chunk) or _open_number(chunk))
        chunk, self._pending = chunk[:whole], chunk[whole:]
        masked = _mask(chunk)
        if b"NaN" in chunk or b"Infinity" in chunk or has_long_number(chunk):
            return self._mend(chunk, masked)
        self._in_string ^= masked.count(b'"') % 2 == 1
        return chunk

    def _mend(self, chunk: bytes, masked: bytes) -> bytes:
        parts, at = [], 0
        for piece in masked.split(b'"'):
            own = chunk[at : at + len(piece)]
            parts.append(own if self._in_string else _ODD_NUMBER.sub(self._replace, own))
            at += len(piece) + 1
            self._in_string = not self._in_string
        self._in_string = not self._in_string  # the last piece ended no string and began none
        return b'"'.join(parts)

    def _replace(self, match: re.Match[bytes]) -> bytes:
        found = match[0]
        is_whole = found[-1:].isdigit()
        if is_whole not in self._reported:
            self._reported.add(is_whole)
            expected, done = (ORDINARY, "kept as text") if is_whole else (FINITE, "read as null")
            self._problems.add("whole file", expected, f"found {found[:40].decode()}: {done}")
        return b'"' + found + b'"' if is_whole else b"null"


class Halves:
    """Passes JSON bytes through with U+FFFD for halves of surrogate pairs, and reports them: the parser replaces them
    silently. Expects chunks that end outside of an escape, as from StringCap."""

    def __init__(self, problems: Problems) -> None:
        self._problems, self._pending = problems, b""

    def feed(self, chunk: bytes, final: bool = False) -> bytes:
        chunk, self._pending = self._pending + chunk, b""
        if b"\\ud" not in chunk and b"\\uD" not in chunk:
            return chunk
        slashes = len(chunk[:-5]) - len(chunk[:-5].rstrip(b"\\"))
        if (
            not final and slashes % 2 and _HIGH_HALF.fullmatch(chunk[-6:])
        ):  # the other half may come with the next chunk
            chunk, self._pending = chunk[:-6], chunk[-6:]
        return _ESCAPE.sub(self._replace, chunk)

    def _replace(self, match: re.Match[bytes]) -> bytes:
        if match[2] is None:
            return match[0]
        self._problems.count("whole file", NO_HALF, "found, shown as \ufffd")
        return b"\\ufffd"


def _open_number(chunk: bytes) -> int:
    """Count bytes at the end that may belong to an incomplete number or constant."""
    end = chunk[-MAX_NUMBER_BYTES:]
    length = len(end) - len(end.rstrip(_IN_NUMBERS))
    return length if length < MAX_NUMBER_BYTES else 0


# --- streams over streams ---------------------------------------------------------------------------------------


class _Filter(io.RawIOBase):
    """A stream that reads its bytes from another one."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def _take(self, size: int) -> bytes:
        """The next bytes, `size` at most; none at the end."""
        raise NotImplementedError

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: WriteableBuffer) -> int:
        view = memoryview(buffer)
        piece = self._take(len(view))
        view[: len(piece)] = piece
        return len(piece)

    def close(self) -> None:
        self._stream.close()
        super().close()


def in_utf8(open_binary: Callable[[], BinaryIO], start: bytes) -> Callable[[], BinaryIO]:
    """Reopen the file, which begins with `start`, as UTF-8 without a byte order mark. UTF-16 is recognised by its mark:
    PowerShell writes it when a program's output is redirected to a file."""
    if not start.startswith((UTF8_MARK, *UTF16_MARKS)):
        return open_binary
    return lambda: io.BufferedReader(_Utf8File(open_binary()), CHUNK)


class _Utf8File(_Filter):
    def __init__(self, stream: BinaryIO) -> None:
        super().__init__(stream)
        start = stream.read(len(UTF8_MARK))
        name = "utf-16" if start.startswith(UTF16_MARKS) else ""
        self._decoder = codecs.getincrementaldecoder(name)("replace") if name else None
        self._done, self._ready = False, self._encode(start if name else start.removeprefix(UTF8_MARK))

    def _encode(self, content: bytes) -> bytes:
        return self._decoder.decode(content, not content).encode("utf-8", "replace") if self._decoder else content

    def _take(self, size: int) -> bytes:
        while not self._ready and not self._done:
            content = self._stream.read(CHUNK)
            self._done = not content
            self._ready = self._encode(content)
        piece, self._ready = self._ready[:size], self._ready[size:]
        return piece


def cap_stream(stream: BinaryIO, problems: Problems) -> BinaryIO:
    """Cut the stream after MAX_FILE_BYTES, with a report: a sparse or growing file may never end."""
    return io.BufferedReader(_Capped(stream, problems), CHUNK)


class _Capped(_Filter):
    def __init__(self, stream: BinaryIO, problems: Problems) -> None:
        super().__init__(stream)
        self._problems, self._left = problems, MAX_FILE_BYTES

    def _take(self, size: int) -> bytes:
        if not self._left and self._stream.read(1):
            self._problems.add("whole file", f"at most {MAX_FILE_BYTES:,} bytes", "more; the rest was not read")
        piece = self._stream.read(min(size, self._left))
        self._left -= len(piece)
        return piece


# --- one big value ----------------------------------------------------------------------------------------------


class _BoundedStream:
    """The file object ijson reads from: `start`, which was read already, then the rest of the stream."""

    def __init__(self, start: bytes, rest: BinaryIO, problems: Problems) -> None:
        self._start, self._rest, self._done, self._problems = start, rest, False, problems
        self._utf8, self._cap, self._numbers = Utf8(problems), StringCap(problems, "whole file"), Numbers(problems)
        self._halves = Halves(problems)

    def read(self, size: int = CHUNK) -> bytes:
        while not self._done and size != 0:
            chunk = self._start[:CHUNK] or self._rest.read(CHUNK)
            self._start = self._start[CHUNK:]
            self._done = not chunk
            if b"\\u0000" in chunk or b"\0" in chunk:
                self._problems.count("whole file", NO_NUL, "found, shown as \u2400")
            text = self._utf8.feed(chunk.replace(b"\0", b"\xe2\x90\x80"), final=self._done)
            whole = self._halves.feed(self._cap.feed(text), final=self._done)
            clean = self._numbers.feed(whole, final=self._done)
            if clean:
                return clean
        return b""


def _parse(start: bytes, rest: BinaryIO, problems: Problems) -> _Events:
    return iter(ijson.basic_parse(_BoundedStream(start, rest, problems), use_float=True, buf_size=CHUNK))


def walk(
    stream: BinaryIO,
    problems: Problems,
    *,
    streamed: frozenset[str] = frozenset(),
    nested: frozenset[str] = frozenset(),
    inside: tuple[tuple[str, int], ...] = (),
) -> Iterator[tuple[str, object]]:
    """(key, value) of a top-level object in the file's order, or ("", item) for each item of a top-level list.

    Lists named in `streamed` are yielded item by item. Lists in `nested` only yield each item's index, to be walked
    later by giving (key, index) in `inside`. A broken file gives what was readable and a problem.
    """
    start = stream.read(SMALL_BYTES + 1).removeprefix(UTF8_MARK)
    if len(start) <= SMALL_BYTES and not inside:
        pairs = plain_object(start)
        if pairs is not None:
            for oddity in list_oddities(start, dict(pairs)):
                problems.count(*oddity)
            yield from _parts(pairs, streamed, nested)
            return
    try:
        events = _parse(start, stream, problems)
        for key, index in inside:
            if not _descend(events, key, index):
                return
        yield from _walk_value(events, problems, streamed, nested)
        for _ in () if inside else events:  # the parser looks for an end only when it is asked for more
            pass
    except (ijson.JSONError, ValueError, OverflowError) as error:
        problems.add("end of what could be read", "one whole JSON value", _first_line(error))


def read_value(stream: BinaryIO, problems: Problems, *, without: frozenset[str] = frozenset()) -> object:
    """Read the one value in the file, bounded as a whole, without anything below keys in `without`. None, with a
    problem, if the file is broken."""
    try:
        events = _parse(b"", stream, problems)
        event, value = next(events)
        whole = _build(events, event, value, problems, without)
        for _ in events:  # the parser looks for an end only when it is asked for more
            pass
        return whole
    except (ijson.JSONError, ValueError, OverflowError, StopIteration) as error:
        problems.add("end of what could be read", "one whole JSON value", _first_line(error))
        return None


def _parts(
    pairs: list[tuple[str, JsonValue]], streamed: frozenset[str], nested: frozenset[str]
) -> Iterator[tuple[str, object]]:
    for key, value in pairs:
        if isinstance(value, list) and key in nested:
            yield from ((key, index) for index in range(len(value)))
        elif isinstance(value, list) and key in streamed:
            yield from ((key, item) for item in value)
        else:
            yield key, value


def _walk_value(
    events: _Events, problems: Problems, streamed: frozenset[str], nested: frozenset[str]
) -> Iterator[tuple[str, object]]:
    event, value = next(events)
    if event == "start_array":
        for event, value in _items(events):
            yield "", _build(events, event, value, problems)
        return
    if event != "start_map":
        yield "", value
        return
    seen = set[str]()
    for event, key in events:
        if event == "end_map":
            return
        if key in seen:
            problems.count(key[:100], ONCE, TWICE)
        elif len(seen) < MAX_NAMES:
            seen.add(key)
        event, value = next(events)
        if event == "start_array" and (key in streamed or key in nested):
            for index, (event, value) in enumerate(_items(events)):
                if key in nested:
                    _skip(events, event)
                    yield key, index
                else:
                    yield key, _build(events, event, value, problems)
        else:
            yield key, _build(events, event, value, problems)


def _items(events: _Events) -> _Events:
    """The first event of each item of the open list. The consumer of one also reads the item's other events."""
    for event, value in events:
        if event == "end_array":
            return
        yield event, value


def _descend(events: _Events, wanted: str, index: int) -> bool:
    """Move to just before item `index` of the list below key `wanted`."""
    event, _ = next(events)
    if event != "start_map":
        return False
    for event, key in events:
        if event == "end_map":
            return False
        event, _ = next(events)
        if key == wanted and event == "start_array":
            for _ in range(index):
                event, _ = next(events)
                _skip(events, event)
            return True
        _skip(events, event)
    return False


def _skip(events: _Events, event: str, depth: int = 0) -> None:
    """Skip to the end of the value that starts with this event, and of `depth` open values around it."""
    depth += event in _OPENING
    while depth:
        event, _ = next(events)
        depth += (event in _OPENING) - (event in _CLOSING)


def _build(
    events: _Events, event: str, value: object, problems: Problems, without: frozenset[str] = frozenset()
) -> object:
    """Build the value that starts with this event, without anything below keys in `without`. What is too deep or too
    much is replaced by a mark, and reported."""
    if event not in _OPENING:
        return value
    root: dict[str, object] | list[object] = {} if event == "start_map" else []
    stack, keys = [root], [""]
    nodes = chars = 0
    for event, value in events:
        if event == "map_key":
            keys[-1] = str(value)
            if value in without:
                event, _ = next(events)
                _skip(events, event)
            continue
        if event in _CLOSING:
            stack.pop()
            keys.pop()
            if not stack:
                return root
            continue
        nodes += 1
        chars += len(value) if isinstance(value, str) else 0
        if nodes > MAX_VALUE_NODES or chars > MAX_VALUE_CHARS:
            _skip(events, event, len(stack))
            expected = f"one value of at most {MAX_VALUE_NODES:,} values and {MAX_VALUE_CHARS:,} characters"
            problems.add("whole file", expected, "the rest of it is left out")
            return root
        top, item = stack[-1], value
        if event in _OPENING and len(stack) >= MAX_DEPTH:
            _skip(events, event)
            problems.add("whole file", f"values nested at most {MAX_DEPTH} deep", "the rest is left out")
            item = TOO_DEEP
        elif event in _OPENING:
            inner: dict[str, object] | list[object] = {} if event == "start_map" else []
            item = inner
            stack.append(inner)
        if isinstance(top, dict):
            if keys[-1] in top:
                problems.count(keys[-1][:100], ONCE, TWICE)
            top[keys[-1]] = item
        else:
            top.append(item)
        keys += [""] * (len(stack) - len(keys))
    return root


# --- one value a line -------------------------------------------------------------------------------------------


def json_lines(stream: BinaryIO, problems: Problems) -> Iterator[tuple[int, dict[str, object]]]:
    """(line number, object) of every line that holds one; other lines are reported. Lines end at "\\n" only."""
    utf8_reported = False
    for number, offset, line in raw_lines(stream, problems):
        if not line.strip():
            continue
        value: object = _UNREADABLE
        if not has_long_number(line):  # orjson reads a long integer as a float, without an error
            with suppress(orjson.JSONDecodeError):
                value = orjson.loads(line)
        if value is _UNREADABLE:
            value, utf8_reported = _lenient(line, number, offset, problems, utf8_reported)
        if isinstance(value, dict):
            for _, expected, message in list_oddities(line, value):
                problems.count(f"line {number}", expected, message)
            yield number, _shallow(value, line, number, problems)
        elif value is not _UNREADABLE:
            problems.add(f"line {number}", "one JSON object on each line", f"found {line[:80]!r}")


_UNREADABLE = object()


def _shallow(value: dict[str, object], line: bytes, number: int, problems: Problems) -> dict[str, object]:
    if line.count(b"[") + line.count(b"{") <= MAX_OPENINGS or not is_deeper(value, MAX_DEPTH):
        return value
    problems.add(f"line {number}", f"values nested at most {MAX_DEPTH} deep", "the rest is left out")
    bounded: dict[str, object] = storable_value(value)
    return bounded


def _lenient(line: bytes, number: int, offset: int, problems: Problems, utf8_reported: bool) -> tuple[object, bool]:
    """(value or _UNREADABLE, was invalid UTF-8 reported). Accepts it, odd numbers and raw control characters."""
    try:
        text = line.decode()
    except UnicodeDecodeError as error:
        if not utf8_reported:
            problems.add(f"byte {offset + error.start:,}", "valid UTF-8", "invalid bytes, shown as \ufffd")
        utf8_reported = True
        text = line.decode(errors="replace")
    try:
        place = f"line {number}"
        return read_lenient(text, lambda expected, message: problems.count(place, expected, message)), utf8_reported
    except RecursionError:
        problems.add(f"line {number}", f"values nested at most {MAX_DEPTH} deep", "the line is left out")
    except ValueError as error:
        problems.add(f"line {number}", "one JSON object on each line", f"{_first_line(error)}; found {text[:80]!r}")
    return _UNREADABLE, utf8_reported


def raw_lines(stream: BinaryIO, problems: Problems) -> Iterator[tuple[int, int, bytes]]:
    """(number, byte offset, line without its end). In a line over MAX_STRING_BYTES long strings are cut. If that is not
    enough for MAX_LINE_BYTES, the line is left out and reported."""
    number = offset = 0
    while line := stream.readline(MAX_STRING_BYTES):
        number += 1
        start, offset = offset, offset + len(line)
        if len(line) < MAX_STRING_BYTES or line.endswith(b"\n"):
            yield number, start, line.rstrip(b"\r\n")
            continue
        cap = StringCap(problems, f"line {number}")
        kept, too_long = bytearray(), False
        while line:
            ended = line.endswith(b"\n")
            for at in range(0, len(line), CHUNK):
                piece = cap.feed(line[at : at + CHUNK])
                too_long = too_long or len(kept) + len(piece) > MAX_LINE_BYTES
                if not too_long:
                    kept += piece
            line = b"" if ended else stream.readline(MAX_STRING_BYTES)
            offset += len(line)
        if too_long:
            problems.add(f"line {number}", f"a line of at most {MAX_LINE_BYTES:,} bytes", "the line is left out")
        else:
            yield number, start, bytes(kept).rstrip(b"\r\n")


def _first_line(error: BaseException) -> str:
    return (str(error) or type(error).__name__).strip().splitlines()[0][:300]
