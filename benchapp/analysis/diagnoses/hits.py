"""What a rule gets besides a library, and what it returns: a place in a file, a sentence, and where else the text
occurred."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal

from benchapp.analysis.diagnoses.library_shelf import Shelf
from runner.base.constants import Constant


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
Group = Literal[
    "leak",
    "contract",
    "description",
    "environment",
    "grounding",
    "procedure",
    "constraints",
    "safety",
    "files",
    "duplicates",
]

GROUPS: dict[Group, str] = {
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
    """`says` is one sentence for documents and pages; `is_heuristic` separates a guess from a fact."""

    id: str
    group: Group
    severity: Severity
    says: str
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
