"""One JSON file of a source: parsed leniently, its fields taken by type, everything odd reported with its place."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Collection, Container, Iterable, Iterator, Mapping
from datetime import UTC, datetime
from functools import partial
from pathlib import Path
from typing import BinaryIO

from benchapp.imports.problems import render_found
from benchapp.imports.reading.walking import Root
from runner.base.encoding import is_finite
from runner.base.text import MAX_DEPTH, clean, storable_value
from runner.base.types import JsonValue
from runner.trajectories.problems import Problems
from runner.trajectories.readers.line_streams import read_value, walk
from runner.trajectories.readers.plain_json import list_oddities, read_lenient, read_plain

MAX_JSON_BYTES = 32 * 1024 * 1024
NEVER_TAKEN = frozenset({"rollout_details"})  # Harbor: every token's id and log probability, hundreds of MiB
MAX_LINES_BYTES = 256 * 1024 * 1024
MAX_LINES = 1_000_000
_BROKEN_OFF = "one whole JSON value"  # what line_streams.walk expects at a break
_TOO_MANY = re.compile(r'"(?:[^"\\]|\\.)*"|(?<=[\[:,\s])\+(?=\d)|,(?=\s*[}\]])|//[^\n]*', re.DOTALL)
MAX_NUMBER = 2**53  # above it JSON numbers lose precision, and no real count is larger


class Document:
    """A JSON object with the file it came from. `place` is the dotted path down to it."""

    __slots__ = ("path", "place", "raw", "root")

    def __init__(self, root: Root, path: Path, raw: Mapping[str, JsonValue], place: str = "") -> None:
        self.root, self.path, self.raw, self.place = root, path, raw, place

    def __bool__(self) -> bool:
        return bool(self.raw)

    def at(self, key: str) -> str:
        return f"{self.place}.{key}" if self.place else key

    def report(self, key: str, expected: str, message: str) -> None:
        self.root.report(self.path, self.at(key) if key else self.place, expected, message)

    def object(self, key: str) -> Document:
        """Return the object below `key`; an empty one if it is missing or something else."""
        value = self.raw.get(key)
        if value is not None and not isinstance(value, Mapping):
            self.report(key, "an object or null", render_found(value))
        return Document(self.root, self.path, value if isinstance(value, Mapping) else {}, self.at(key))

    def objects(self, key: str) -> Iterator[Document]:
        """Yield the objects of the list below `key`; other items are reported and left out."""
        value = self.raw.get(key)
        if value is not None and not isinstance(value, list):
            self.report(key, "a list or null", render_found(value))
            return
        for index, item in enumerate(value or ()):
            if isinstance(item, Mapping):
                yield Document(self.root, self.path, item, f"{self.at(key)}[{index}]")
            else:
                self.report(f"{key}[{index}]", "an object", render_found(item))

    def text(self, key: str, limit: int = 10_000) -> str | None:
        value = self.raw.get(key)
        if value is None:
            return None
        if not isinstance(value, str):
            self.report(key, "a text or null", render_found(value))
            return None
        return clean(value)[:limit]

    def number(self, key: str) -> float | None:
        """Return a finite number, or None."""
        value = self.raw.get(key)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not is_finite(value):
            self.report(key, "a finite number or null", render_found(value))
            return None
        return float(value)

    def count(self, key: str) -> int | None:
        """Return a whole number from 0 to 2^53, or None."""
        value = self.number(key)
        if value is None:
            return None
        if not 0 <= value <= MAX_NUMBER or value != int(value):
            self.report(key, "a whole number from 0 to 2^53", render_found(self.raw[key]))
            return None
        return int(value)

    def amount(self, key: str) -> float | None:
        """Return a finite number of at least 0, or None."""
        value = self.number(key)
        if value is not None and value < 0:
            self.report(key, "a number of 0 or more", render_found(value))
            return None
        return value

    def choice(self, key: str, known: Collection[str], otherwise: str, *, unnamed: str = "") -> str:
        """Return one of the known words, `unnamed` if there is none; for any other `otherwise`, with a report."""
        value = self.text(key, 40) or unnamed
        if value in known:
            return value
        self.report(key, f"one of {', '.join(known)}", f"found {value!r}; taken as {otherwise}")
        return otherwise

    def texts(self, key: str) -> list[str]:
        value = self.raw.get(key)
        if value is not None and not isinstance(value, list):
            self.report(key, "a list of texts or null", render_found(value))
            return []
        return [clean(item)[:1_000] for item in value or () if isinstance(item, str)]


def find_object(root: Root, path: Path) -> Document | None:
    """Return the JSON object in an optional file."""
    return read_object(root, path) if root.is_file(path) else None


def read_optional(root: Root, path: Path) -> Document:
    """Return the same, or an empty document if the file is missing or does not hold an object."""
    return find_object(root, path) or Document(root, path, {})


def read_object(root: Root, path: Path) -> Document | None:
    """Return the JSON object in a file; None, with a report, if there is none. A file over MAX_JSON_BYTES is read
    without NEVER_TAKEN, in bounded memory."""
    if root.size(path) <= MAX_JSON_BYTES:
        value = read_json(root, path)
    else:
        problems = Problems()
        try:
            with root.open(path) as stream:
                value = storable_value(read_value(stream, problems, without=NEVER_TAKEN))
        except OSError as error:
            root.report_unreadable(path, error)
            return None
        for problem in problems:
            root.report(path, problem.place, problem.expected, problem.message)
    if value is None:
        return None
    if not isinstance(value, dict):
        root.report(path, "whole file", "a JSON object", render_found(value))
        return None
    return Document(root, path, value)


def read_json(root: Root, path: Path, limit: int = MAX_JSON_BYTES) -> JsonValue:
    """Return the JSON value in a file with storable texts and bounded depth; None, with a report, if there is none."""
    content = root.read(path, limit)
    if content is None:
        return None
    plain = read_plain(content)
    if plain is not None:
        for oddity in list_oddities(content, plain):
            root.report(path, *oddity)
        return plain
    text = decode(root, path, content)
    if not text.strip():
        root.report(path, "whole file", "a JSON value", "the file is empty")
        return None
    odd: list[str] = []
    try:
        try:
            found = json.loads(text, parse_constant=odd.append)
        except json.JSONDecodeError as error:
            try:
                found = json.loads(_mend(text), parse_constant=odd.append, strict=False)
            except json.JSONDecodeError:
                raise error from None  # its place is that in the file
            root.report(path, f"line {error.lineno}, column {error.colno}", "JSON", f"{error.msg}; read all the same")
        for oddity in list_oddities(content, found):
            root.report(path, *oddity)
        value: JsonValue = storable_value(found)
    except RecursionError:
        root.report(path, "whole file", f"values nested at most {MAX_DEPTH} deep", "deeper nesting; it was not read")
        return None
    except json.JSONDecodeError as error:
        root.report(path, f"line {error.lineno}, column {error.colno}", "JSON", error.msg)
        return None
    except ValueError as error:  # a number of thousands of digits
        root.report(path, "whole file", "JSON with numbers of ordinary size", str(error))
        return None
    if odd:
        root.report(path, "whole file", "finite numbers", f"{odd[0]} was taken as null")
    return value


def _mend(text: str) -> str:
    """Take out signs and commas that are too many, and comments: models write them into JSON."""
    return _TOO_MANY.sub(lambda match: match[0] if match[0].startswith('"') else "", text)


def read_lines(root: Root, path: Path, limit: int = MAX_LINES_BYTES) -> Iterator[Document]:
    """Yield the JSON objects of a file with one a line, holding one line at a time; other lines are reported."""
    read, odd = 0, Problems()
    try:
        with root.open(path) as stream:
            for number in range(1, MAX_LINES + 2):
                line = stream.readline(MAX_JSON_BYTES + 1)
                read += len(line)
                if not line:
                    return
                if read > limit or len(line) > MAX_JSON_BYTES or number > MAX_LINES:
                    expected = f"at most {MAX_LINES:,} lines and {limit:,} bytes"
                    root.report(path, f"line {number}", expected, "more; the rest was not read")
                    return
                if line.strip() and (found := _line_object(root, path, number, line, odd)) is not None:
                    yield found
    except OSError as error:
        root.report_unreadable(path, error)
    finally:
        for problem in odd:
            root.report(path, problem.place, problem.expected, problem.message)


def read_parts(root: Root, path: Path, streamed: frozenset[str] = frozenset()) -> Iterator[tuple[str, JsonValue]]:
    """Yield the top level of a large JSON document: (key, value), and for lists in `streamed` an item at a time. The
    key of a list's own items is empty. What is wrong with the document is reported."""
    problems = Problems()
    try:
        with root.open(path) as stream:
            for key, value in walk(stream, problems, streamed=streamed):
                yield key, storable_value(value)
    except OSError as error:
        root.report_unreadable(path, error)
    finally:
        for problem in problems:
            root.report(path, problem.place, problem.expected, problem.message)


def read_rest(
    root: Root,
    path: Path,
    opener: Callable[[], BinaryIO],
    *,
    streamed: frozenset[str],
    wanted: Iterable[str],
    without: Container[str] = (),
    place: str = "",
) -> dict[str, JsonValue]:
    """Read the top level of a JSON log without its steps (`streamed`) and `without`. A document that ends before all of
    `wanted` is reported in one line; its other faults are reported by the reader of its steps."""
    problems = Problems()
    with opener() as stream:
        items = walk(stream, problems, nested=streamed)
        found = {k: storable_value(value) for k, value in items if k and k not in streamed and k not in without}
    lost = ", ".join(key for key in wanted if key not in found)
    if lost and any(problem.expected == _BROKEN_OFF for problem in problems):
        root.report(path, place, "a document with an end", f"it breaks off before {lost}: unknown")
    return found


def _line_object(root: Root, path: Path, number: int, line: bytes, odd: Problems) -> Document | None:
    try:
        found = read_lenient(line.decode("utf-8-sig", "replace"), partial(odd.count, f"line {number}"))
        value = storable_value(found)
    except (ValueError, RecursionError):
        value = None
    if isinstance(value, dict):
        for _, expected, message in list_oddities(line, found):
            odd.count(f"line {number}", expected, message)
        return Document(root, path, value, f"line {number}")
    root.report(path, f"line {number}", "one JSON object on each line", f"found {line[:80]!r}")
    return None


def decode(root: Root, path: Path, content: bytes) -> str:
    """Decode UTF-8; invalid bytes are replaced and reported once, with the offset of the first."""
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        root.report(path, f"byte {error.start:,}", "valid UTF-8", "invalid bytes, shown as \ufffd")
        return content.decode("utf-8-sig", errors="replace")


def read_time(document: Document, key: str) -> datetime | None:
    """Return the time below `key`: aware (UTC) or naive, as in the source. None, with a report, if malformed."""
    text = document.text(key, 64)
    if not text:
        return None
    try:
        value = datetime.fromisoformat(text)
        return value if value.tzinfo is None else value.astimezone(UTC)
    except (ValueError, OverflowError):
        document.report(key, "an ISO 8601 time between the years 1 and 9999", f"found {text!r}")
        return None


def aware(value: datetime | None) -> datetime | None:
    return value if value is not None and value.tzinfo is not None else None


def seconds_between(document: Document, start: datetime | None, end: datetime | None) -> float | None:
    """Return seconds from start to end if both have a zone or neither has. A negative length is reported."""
    if start is None or end is None or (start.tzinfo is None) != (end.tzinfo is None):
        return None
    seconds = (end - start).total_seconds()
    if seconds < 0:
        document.report("finished_at", "an end after its start", f"it is {-seconds:.1f} seconds before")
        return None
    return seconds


def phase_seconds(document: Document) -> float | None:
    """Return the length of an object with started_at and finished_at."""
    return seconds_between(document, read_time(document, "started_at"), read_time(document, "finished_at"))


def zoneless_text(document: Document, key: str, value: datetime | None) -> str:
    """Return the source's own text if it is not an aware time."""
    return (document.text(key, 64) or "") if aware(value) is None else ""
