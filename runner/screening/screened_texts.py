"""The files of a task, by who sees them, read with limits: the text of short ones, only a digest of others."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NamedTuple

from runner.base.constants import Constant, find_constants
from runner.base.errors import SuiteError
from runner.base.file_digests import hash_file, is_plain, walk
from runner.base.text import replace_unprintable
from runner.base.types import ACQUISITION_ROLES, DEPLOYMENT_ROLES, Environment, Task

MAX_TEXT_BYTES = 512 * 1024  # of one file
MAX_TASK_BYTES = 2 * 1024 * 1024  # of all texts of a task
MAX_TASK_FILES = 2_000
NEAR = 300  # characters on either side of a place
MAX_EXPECTED = 5_000  # values of one task
TINY = 64  # bytes; a shorter file says too little to be an answer
CODE = frozenset("py sh bash js ts mjs go rs rb java c cc cpp h hpp r jl pl php bats sql ipynb".split())
# Describes how an environment is built, never what is asked: such files are alike in any environment.
_BUILD = re.compile(
    r"(?:docker-?file|.*\.dockerfile|(?:docker-)?compose.*\.ya?ml|requirements.*\.txt|package(?:-lock)?\.json|\.?[a-z]*ignore"
    r"|pyproject\.toml|setup\.(?:py|cfg)|licen[cs]e.*|conftest\.py|__init__\.py|makefile|entrypoint\.sh|.*\.lock)$",
    re.IGNORECASE,
)
NAMES_ANSWER = re.compile(r"expect|answer|gold|truth|oracle|solution|correct", re.IGNORECASE)
_NUMBER, _THOUSANDS = re.compile(r"\d+(?:\.\d+)?"), re.compile(r"\d{1,3}(?:,\d{3})+(?:\.\d+)?")
_COMPARES = re.compile(
    r"assert|==|!=|expect|approx|isclose|allclose|answer|\btruth\b|\bgold\b|\[[^\]\n]{0,200}=|-eq\b|\bgrep\b",
    re.IGNORECASE,
)


@dataclass(frozen=True, slots=True)
class ScreenedFile:
    """A file of a task. `text` is None if it is binary or too long. `path` begins with the part it belongs to."""

    task: str
    path: str
    size: int
    digest: str
    text: str | None

    @property
    def name(self) -> str:
        """The path below the part."""
        return self.path.partition("/")[2]

    @property
    def ending(self) -> str:
        return Path(self.path).suffix.lower().lstrip(".")

    @property
    def is_code(self) -> bool:
        return self.ending in CODE

    @property
    def is_build(self) -> bool:
        return _BUILD.match(Path(self.path).name) is not None


class ExpectedPlace(NamedTuple):
    """The place of an expected value in the tests, in characters."""

    file: ScreenedFile
    start: int
    end: int


@dataclass(frozen=True)
class ScreenedTask:
    """`given`: what an agent can find besides the instruction; `hidden`: tests; `solution`: the task's own."""

    task: Task
    given: tuple[ScreenedFile, ...]
    hidden: tuple[ScreenedFile, ...]
    solution: tuple[ScreenedFile, ...]

    @property
    def key(self) -> str:
        return self.task.key

    def is_given(self, constant: Constant) -> bool:
        """Does an input hold it? Numbers with and without a comma between thousands; others at any place."""
        if constant.kind == "number":
            return constant.text in self._given_numbers
        return any(constant.text in file.text for file in self.given if file.text)

    @cached_property
    def _given_numbers(self) -> frozenset[str]:
        texts = [file.text for file in self.given if file.text]
        plain = {number for text in texts for number in _NUMBER.findall(text)}
        return frozenset(plain | {number.replace(",", "") for text in texts for number in _THOUSANDS.findall(text)})

    @cached_property
    def given_digests(self) -> frozenset[str]:
        return frozenset(file.digest for file in self.given)

    @cached_property
    def expected(self) -> dict[Constant, ExpectedPlace]:
        """Numbers, dates and ids in files of expected values, and in lines of code that compare. A file that is also
        an input is skipped: it is a copy for comparisons."""
        found: dict[Constant, ExpectedPlace] = {}
        for file in (*self.hidden, *(each for each in self.solution if NAMES_ANSWER.search(each.name))):
            if not file.text or file.is_build or file.digest in self.given_digests:
                continue
            for constant, start, end in find_constants(file.text):
                if constant.kind == "path" or constant in found or len(found) >= MAX_EXPECTED:
                    continue
                if not file.is_code or _COMPARES.search(line_at(file.text, start)):
                    found[constant] = ExpectedPlace(file, start, end)
        return found

    @cached_property
    def compared_numbers(self) -> dict[str, ExpectedPlace]:
        """Any number in these places, even a plain one."""
        found: dict[str, ExpectedPlace] = {}
        for file in self.hidden:
            if not file.text or file.is_build or file.digest in self.given_digests:
                continue
            for match in _NUMBER.finditer(file.text):
                if match[0] not in found and (not file.is_code or _COMPARES.search(line_at(file.text, match.start()))):
                    found[match[0]] = ExpectedPlace(file, match.start(), match.end())
        return found

    @cached_property
    def answers(self) -> dict[Constant, ExpectedPlace]:
        """Expected values that neither the instruction nor an input holds, so that they have to be worked out."""
        stated = {place.constant for place in find_constants(self.task.instruction)}
        return {
            constant: place
            for constant, place in self.expected.items()
            if constant not in stated and not self.is_given(constant)
        }


@dataclass(slots=True)
class Skipped:
    """Counts of files that were only compared as a whole, by reason."""

    counts: dict[str, list[str]] = field(default_factory=dict)

    def add(self, why: str, path: str) -> None:
        self.counts.setdefault(why, []).append(path)

    def sentences(self) -> tuple[str, ...]:
        return tuple(
            replace_unprintable(f"{len(paths):,} file{'s' if len(paths) > 1 else ''} {why}, such as {paths[0]}")
            for why, paths in self.counts.items()
        )


def read_screened(task: Task, skipped: Skipped) -> ScreenedTask:
    """Read the files of a task, without those that are unreadable or change in the meantime."""
    left = [MAX_TASK_BYTES]
    blank = tuple(f"{folder}/" for folder in task.machine.blank_folders)
    hidden = [each for each in _files(task, "tests", left, skipped) if "public" not in each.path.lower()]
    for path in task.shared_tests:
        hidden += _read(task, path, f"tests/{path.name}", left, skipped)
    given = [
        each
        for each in _files(task, "environment", left, skipped)
        if not each.path.removeprefix("environment/").startswith(blank or ("\0",))
    ]
    return ScreenedTask(task, tuple(given), tuple(hidden), tuple(_files(task, "solution", left, skipped)))


def list_digests(task: Task) -> frozenset[str]:
    """Digests of every file that an agent, a verifier or the oracle is given."""
    skipped, found = Skipped(), set()
    for part in ("environment", "tests", "solution"):
        found |= {file.digest for file in _files(task, part, [0], skipped) if file.size >= TINY}
    return frozenset(found)


def _files(task: Task, part: str, left: list[int], skipped: Skipped) -> list[ScreenedFile]:
    found: list[ScreenedFile] = []
    if (task.folder / part).is_dir():
        with suppress(OSError, SuiteError):
            for name, status, entry in walk(task.folder / part):
                if len(found) >= MAX_TASK_FILES:
                    skipped.add(f"beyond the first {MAX_TASK_FILES:,} of a folder", f"{task.key}/{part}/{name}")
                    break
                if is_plain(status) and not entry.is_symlink():
                    found += _read(task, Path(entry.path), f"{part}/{name}", left, skipped)
    return found


def _read(task: Task, place: Path, path: str, left: list[int], skipped: Skipped) -> list[ScreenedFile]:
    try:
        size, digest = place.stat().st_size, hash_file(str(place))
        text = None
        if size > min(MAX_TEXT_BYTES, left[0]):
            skipped.add("too long to be read", f"{task.key}/{path}")
        else:
            text = _decode(place.read_bytes())
            left[0] -= size if text is not None else 0
            if text is None:
                skipped.add("not text in UTF-8", f"{task.key}/{path}")
    except (OSError, SuiteError):
        skipped.add("not readable", f"{task.key}/{path}")
        return []
    return [ScreenedFile(task.key, path, size, digest, text)]


def _decode(content: bytes) -> str | None:
    if b"\0" in content:
        return None
    try:
        return content.decode("utf-8-sig")
    except UnicodeDecodeError:
        return None


def line_at(text: str, place: int) -> str:
    """The line around a place. A long line is cut to its surroundings, so that no one-line file is searched whole."""
    begin, end = max(0, place - NEAR), min(len(text), place + NEAR)
    stop = text.find("\n", place, end)
    return text[max(begin, text.rfind("\n", begin, place) + 1) : stop if stop >= 0 else end]


def taught_pairs(
    environment: Environment, tasks: Sequence[ScreenedTask]
) -> Iterator[tuple[ScreenedTask, ScreenedTask]]:
    """(a task that skills are learned from, one that is tried with them), by roles, by practice, else by the order
    of the family: each earlier task comes before each later one."""
    has_practice = any(each.task.practice for each in tasks)
    for first in tasks:
        for second in tasks:
            if first is not second and _teaches(first.task, second.task, has_practice=has_practice):
                yield first, second


def _teaches(first: Task, second: Task, *, has_practice: bool) -> bool:
    if first.role is not None and second.role is not None:
        return first.role in ACQUISITION_ROLES and second.role in DEPLOYMENT_ROLES
    if has_practice:
        return first.practice and not second.practice
    return first.family == second.family and first.ordinal < second.ordinal
