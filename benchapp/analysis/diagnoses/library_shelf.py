"""A library as rules read it: texts by path, skills parsed once, places turned into lines. Also what a rule gets
besides a library, and what it returns."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property
from typing import Literal

from benchapp.record.textual_change import has_nul
from runner.authoring.contract.skill_file import SKILL_FILE, SkillFile, SkillFileError, parse_skill
from runner.base.constants import Constant
from runner.base.types import Files

MAX_TEXT = 400_000  # characters of one file that rules read; longer ones are cut and reported
MAX_FILES = 2_000


def read_text(content: bytes) -> str:
    """Return the text that rules read and count offsets in."""
    return content[: 4 * MAX_TEXT].decode("utf-8", "replace").replace("\r\n", "\n")[:MAX_TEXT]


@dataclass(frozen=True)
class ShelfText:
    """One file's text; a path begins with the skill's folder."""

    path: str
    text: str

    def line(self, place: int) -> int:
        """Return the line, from 1, of the character."""
        return self.text.count("\n", 0, place) + 1

    def line_span(self, line: int) -> tuple[int, int]:
        """Return the span of that line, or of the last one for a number beyond it."""
        lines = self.text.split("\n")
        start = sum(len(each) + 1 for each in lines[: min(line, len(lines)) - 1])
        end = self.text.find("\n", start)
        return start, len(self.text) if end < 0 else end

    @property
    def skill(self) -> str:
        return self.path.partition("/")[0]

    @property
    def inner(self) -> str:
        """Return the path below the skill's folder."""
        return self.path.partition("/")[2]


@dataclass(frozen=True)
class Shelf:
    """`omitted`: files that belong to the library but were not imported with it. They cannot be read or searched."""

    files: Files
    omitted: frozenset[str] = frozenset()

    @cached_property
    def texts(self) -> Mapping[str, ShelfText]:
        """Return every text file by path."""
        found = {}
        for path, file in list(self.files.items())[:MAX_FILES]:
            if not has_nul(file.content):
                found[path] = ShelfText(path, read_text(file.content))
        return found

    @cached_property
    def skills(self) -> tuple[str, ...]:
        """Return the folders with a SKILL.md."""
        return tuple(sorted({text.skill for text in self.texts.values() if text.inner == SKILL_FILE}))

    def of(self, skill: str) -> Iterator[ShelfText]:
        return (text for text in self.texts.values() if text.skill == skill)

    def head(self, skill: str) -> ShelfText:
        return self.texts[f"{skill}/{SKILL_FILE}"]

    @cached_property
    def parsed(self) -> Mapping[str, SkillFile]:
        """Return the skills whose SKILL.md parses; the others break a rule of their own."""
        found = {}
        for skill in self.skills:
            try:
                found[skill] = parse_skill(self.head(skill).text)
            except SkillFileError:
                continue
        return found


@dataclass(frozen=True, slots=True)
class Sighting:
    """A constant occurred here. `own`: in a trial of this episode before the constant was written into the library;
    otherwise in a trial of the same task elsewhere in the experiment."""

    task: str
    trial: str
    step: int
    field: str
    own: bool
    siblings: int = 0  # other tasks of its family that were searched as well


@dataclass(frozen=True, slots=True)
class Spoken:
    """A text that a library should not repeat: its source, in words, and the trial where it can be read. `is_printed`:
    output of a verifier, which may repeat what the agent had written."""

    text: str
    who: str
    trial: str = ""
    is_printed: bool = False


@dataclass(frozen=True, slots=True)
class Sources:
    """`sightings`: constant -> the first sighting in each task. `tasks_seen`: tasks whose trials were searched.
    `trials_left_out`: trials beyond the limit of a search."""

    sightings: Mapping[Constant, tuple[Sighting, ...]] = field(default_factory=dict)
    tasks_seen: int = 0
    trials_read: int = 0
    trials_left_out: int = 0
    omitted: frozenset[str] = frozenset()  # files of the library that were missing at the import
    public_texts: tuple[str, ...] = ()  # what the tasks' agents see in any case
    verifier_texts: tuple[Spoken, ...] = ()
    hidden_checks: tuple[Spoken, ...] = ()
    references: tuple[Spoken, ...] = ()


Severity = Literal["alarm", "warning", "note"]
GROUPS = {
    "leak": "Leaks",
    "contract": "Contract",
    "description": "Description",
    "environment": "Environment",
    "grounding": "Grounding",
    "procedure": "Procedure",
    "constraints": "Constraints",
    "safety": "Safety",
    "files": "Files",
    "duplicates": "Near-duplicates",
}
SEVERITIES: tuple[Severity, ...] = ("alarm", "warning", "note")


@dataclass(frozen=True, slots=True)
class LibraryHit:
    """start and end count characters of the file's text; equal for the whole file. `trial` is the public id of the
    trial where the text was seen, `step` and `field` the place there."""

    path: str
    start: int
    end: int
    says: str
    trial: str = ""
    step: int | None = None
    field: str = ""
    severity: Severity | None = None  # where this case weighs less than the rule


@dataclass(frozen=True, slots=True)
class LibraryRule:
    """`says` is one sentence for documents and pages, `help` what to do about a hit;
    `is_heuristic` separates a guess from a fact."""

    id: str
    group: str  # one of GROUPS
    severity: Severity
    says: str
    help: str
    find: Callable[[Shelf, Sources], Iterator[LibraryHit]] = field(repr=False)
    is_heuristic: bool = True


@dataclass(frozen=True, slots=True)
class LocatedHit:
    """A hit with its rule; `line` from 1, 0 for the whole file; `quote`: the words of its place."""

    rule: LibraryRule
    hit: LibraryHit
    line: int
    quote: str

    @property
    def severity(self) -> Severity:
        return self.hit.severity or self.rule.severity
