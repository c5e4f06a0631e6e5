"""The small texts of a suite (TOML, YAML, JSON, Markdown), read with a cap, fields taken from them by type, and what is
found wrong with them: what was set aside and why, problems of the whole, and notes for people.

A release is worth loading without the tasks that cannot run here. An item with problems is set aside by its name, with
all of them; reading continues with the rest.
"""

from __future__ import annotations

import json
import math
import tomllib
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Self, TypeVar

import yaml

from runner.base.errors import SuiteError, SuiteProblems
from runner.base.file_digests import GIT_LFS
from runner.base.text import escape_unprintable, list_first

Read = TypeVar("Read")
MAX_SHOWN = 120
NAMED = 3  # tasks named in one note
NOT_DOWNLOADED = "it is a Git LFS pointer; its content was not downloaded"
MAX_BYTES = 1024 * 1024
MAX_NESTING = 100  # levels of lists and tables in YAML
# The C loader if PyYAML has it: the same result, several times faster.
LOADER = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


@dataclass(slots=True)
class Findings:
    """Collected while reading, so that a single read shows everything."""

    problems: list[SuiteError] = field(default_factory=list)  # of the current item
    set_aside: dict[str, list[SuiteError]] = field(default_factory=dict)  # "task a" -> its problems
    tasks: dict[Path, list[SuiteError]] = field(default_factory=dict)  # folder of a task that was read -> its problems
    families: dict[Path, list[SuiteError]] = field(default_factory=dict)  # likewise, without those of its tasks
    members: dict[Path, list[SuiteError]] = field(default_factory=dict)  # folder of a task -> problems of its family
    _notes: dict[str, list[str]] = field(default_factory=dict)  # text -> where

    def problem(self, source: Path, place: str, expected: str, message: str) -> None:
        self.problems.append(SuiteError(str(source), place, expected, message))

    def note(self, text: str, where: str) -> None:
        self._notes.setdefault(text, []).append(where)

    @contextmanager
    def keep_errors(self) -> Iterator[None]:
        """Keep a SuiteError raised inside as a problem, and continue reading after the block."""
        try:
            yield
        except SuiteProblems as error:
            self.problems.extend(error.problems)
        except SuiteError as error:
            self.problems.append(error)

    def apart(
        self,
        what: str,
        read: Callable[[], Read | None],
        *,
        task: Path | None = None,
        family: Path | None = None,
        members: Collection[Path] = (),
    ) -> Read | None:
        """Return the result of `read`. After a problem, set `what`, such as "task a", aside and return None. `task`,
        `family`: the folder of either. `members`: tasks of a family without its own folder; `read` may add to it."""
        before, value = len(self.problems), None
        try:
            with self.keep_errors():
                value = read()
        except (TypeError, AttributeError, ValueError, LookupError) as error:  # a shape that the reader did not expect
            expected = "files that the reader knows how to read"
            self.problems.append(SuiteError(what, "reading", expected, f"{type(error).__name__}: {error}"))
        mine = self.problems[before:]
        for place, known in ((task, self.tasks), (family, self.families)):
            if place is not None:
                known.setdefault(place, []).extend(mine)
        if not mine:
            return value
        for member in members:
            self.members.setdefault(member, []).extend(mine)
        del self.problems[before:]
        self.set_aside.setdefault(what, []).extend(mine)
        return None

    def all_problems(self) -> list[SuiteError]:
        return [*(problem for mine in self.set_aside.values() for problem in mine), *self.problems]

    def notes(self) -> tuple[str, ...]:
        """Return one sentence per finding, with the first places where it occurred."""
        return tuple(escape_unprintable(f"{text}: {list_first(where, NAMED)}") for text, where in self._notes.items())


def shorten_suite_value(value: object) -> str:
    """Show a value from a suite in a message: short, and without the content of nested values."""
    if isinstance(value, str | int | float | bool | None):
        text = (
            repr(value[: MAX_SHOWN + 1] if isinstance(value, str) else value) if not _huge(value) else "a huge number"
        )
        return text if len(text) <= MAX_SHOWN else text[:MAX_SHOWN] + "..."
    return {"dict": "a mapping", "list": "a list"}.get(type(value).__name__, type(value).__name__)


def _huge(value: object) -> bool:
    # Python refuses to print an integer of several thousand digits.
    return isinstance(value, int) and value.bit_length() > 1_000


def read_text(source: Path) -> str:
    """Read a plain file in UTF-8 without a byte order mark. NUL is refused: no database or prompt can hold it."""
    try:
        if source.is_symlink() or not source.is_file():
            raise SuiteError(str(source), "file", "a plain file", "it is a link" if source.is_symlink() else "none")
        with source.open("rb") as file:
            content = file.read(MAX_BYTES + 1)
    except OSError as error:
        raise SuiteError(str(source), "file", "a readable file", str(error.strerror)) from error
    return decode_text(content, source)


def decode_text(content: bytes, source: Path) -> str:
    """Do the same for bytes from another source. `source` is the name in errors."""
    if content.startswith(GIT_LFS):
        raise SuiteError(str(source), "file", "the content itself", NOT_DOWNLOADED)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        raise SuiteError(str(source), f"byte {error.start}", "UTF-8", error.reason) from error
    if len(content) > MAX_BYTES:
        raise SuiteError(str(source), "size", f"at most {MAX_BYTES:,} bytes", "it has more")
    if "\0" in text:
        raise SuiteError(str(source), f"line {text[: text.index(chr(0))].count(chr(10)) + 1}", "text", "found a NUL")
    return text


def read_toml(source: Path) -> dict[str, object]:
    """Read TOML with line ends of any system: the TOML reader does not accept a lone carriage return."""
    text = read_text(source).replace("\r\n", "\n").replace("\r", "\n")
    try:
        return tomllib.loads(text)
    except (ValueError, RecursionError) as error:  # invalid, or an integer of more digits than Python reads
        raise SuiteError(str(source), "file", "readable TOML", _reason(error)) from error


def read_yaml(source: Path) -> dict[str, object]:
    return parse_yaml(read_text(source), source)


def parse_yaml(text: str, source: Path, *, aliases: bool = True) -> dict[str, object]:
    """`aliases`: may a value be named and used again (*)? A few lines of them unfold to gigabytes when all of it is
    walked."""
    try:
        _check_events(text, source, aliases=aliases)
        value = yaml.load(text, Loader=LOADER)  # a safe loader
    except (yaml.YAMLError, RecursionError, ValueError) as error:
        raise SuiteError(str(source), "file", "readable YAML", _reason(error)) from error
    if not isinstance(value, dict) or not all(isinstance(key, str) for key in value):
        raise SuiteError(str(source), "file", "a mapping of names", f"found {shorten_suite_value(value)}")
    return value


def _check_events(text: str, source: Path, *, aliases: bool) -> None:
    """Check before anything is built: the C loader ends the whole process if brackets are nested too deeply."""
    depth = 0
    for event in yaml.parse(text, Loader=LOADER):
        depth += isinstance(event, yaml.CollectionStartEvent) - isinstance(event, yaml.CollectionEndEvent)
        line = event.start_mark.line + 1 if event.start_mark else 1
        if depth > MAX_NESTING:
            raise SuiteError(str(source), f"line {line}", f"at most {MAX_NESTING} levels", "nested too deeply")
        if isinstance(event, yaml.AliasEvent) and not aliases:
            raise SuiteError(str(source), f"line {line}", "no alias (*)", "found one")


def read_json(source: Path) -> object:
    text = read_text(source)
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise SuiteError(str(source), "file", "readable JSON", _reason(error)) from error


def _reason(error: Exception) -> str:
    return "nested too deeply" if isinstance(error, RecursionError) else str(error).replace("\n", " ")[:300]


def _is_text(value: str) -> bool:
    """Can a database hold it and a page show it? Escapes can spell other characters."""
    return all(letter.isprintable() or letter in "\t\r\n" for letter in value)


class FieldTable:
    """A mapping whose fields are read by type. A wrong value becomes a problem, and the default is returned."""

    def __init__(self, values: Mapping[str, object], source: Path, findings: Findings, place: str = "") -> None:
        self.values, self.source, self.findings, self.place = values, source, findings, place
        self._asked: set[str] = set()

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def raw(self, name: str) -> object:
        self._asked.add(name)
        return self.values.get(name)

    def problem(self, name: str, expected: str, message: str = "") -> None:
        found = message or (
            f"found {shorten_suite_value(self.values[name])}" if name in self.values else "there is none"
        )
        self.findings.problem(self.source, self.at(name), expected, found)

    def at(self, name: str) -> str:
        return f"{self.place}.{name}" if self.place else name

    def text(self, name: str, default: str | None = None, longest: int = 200) -> str:
        """Return a non-blank text, without control characters but tab and line ends. Optional if it has a default."""
        value = self.raw(name)
        if value is None and default is not None:
            return default
        if isinstance(value, str) and value.strip() and len(value) <= longest and _is_text(value):
            return value.strip()
        self.problem(name, f"a printable text of at most {longest:,} characters")
        return default or ""

    def number(self, name: str, default: float, least: float, most: float) -> float:
        value = self.raw(name)
        if value is None:
            return default
        # Compared before it is converted: an integer may be too large for a float.
        if isinstance(value, int | float) and not isinstance(value, bool) and least <= value <= most:
            return float(value)
        shown_most = f"{most:,.0f}" if math.isfinite(most) else "any"
        self.problem(name, f"a number from {least:g} to {shown_most}")
        return default

    def flag(self, name: str) -> bool | None:
        value = self.raw(name)
        if value is None or isinstance(value, bool):
            return value
        self.problem(name, "true or false")
        return None

    def texts(self, name: str) -> tuple[str, ...]:
        value = self.raw(name)
        if value is None:
            return ()
        if isinstance(value, list) and all(isinstance(each, str) for each in value):
            return tuple(value)
        self.problem(name, "a list of texts")
        return ()

    def variables(self, name: str) -> dict[str, str]:
        """Name -> value of environment variables. Numbers are kept as written."""
        found: dict[str, str] = {}
        for key, value in self.table(name).values.items():
            if not key or "=" in key or "\0" in key or not isinstance(value, str | int | float):
                self.findings.problem(
                    self.source, f"{self.at(name)}.{key[:100]}", "a variable", f"found {shorten_suite_value(value)}"
                )
            else:
                found[key] = str(value).lower() if isinstance(value, bool) else str(value)
        return found

    def table(self, name: str) -> Self:
        """Return the table of that name, or an empty one."""
        value = self.raw(name)
        is_table = isinstance(value, dict) and all(isinstance(key, str) for key in value)
        if value is not None and not is_table:
            self.problem(name, "a table")
        values = value if isinstance(value, dict) and is_table else {}
        return type(self)(values, self.source, self.findings, self.at(name))

    def list_unasked(self) -> list[str]:
        """Names of the fields that were never read."""
        return [name for name in self.values if name not in self._asked]

    def label(self, name: str) -> str:
        """Return the text, cut to the length of a title, or "". A problem is noted if it cannot be shown."""
        value = self.raw(name)
        if isinstance(value, str) and _is_text(value):
            return " ".join(value.split())[:200]
        if value is not None:
            self.findings.note(f"{self.source.name}: {self.at(name)} is not printable text", self.source.parent.name)
        return ""
