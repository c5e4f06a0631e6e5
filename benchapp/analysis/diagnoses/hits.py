"""What a rule says: a place in a file, a sentence, and where the same text was seen elsewhere."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Literal

from benchapp.analysis.diagnoses.held_against import Sources
from benchapp.analysis.diagnoses.library_shelf import Shelf

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
    """start and end count characters of the file's text; equal where the whole file is meant. `trial` is the public id
    of the trial that the text was seen in, `step` and `field` the place there."""

    path: str
    start: int
    end: int
    says: str
    trial: str = ""
    step: int | None = None
    field: str = ""
    severity: Severity | None = None  # where the case at hand weighs less than the rule


@dataclass(frozen=True, slots=True)
class LibraryRule:
    """`says` is one sentence for documents and pages; `is_heuristic` tells a guess from a fact."""

    id: str
    group: Group
    severity: Severity
    says: str
    find: Callable[[Shelf, Sources], Iterator[LibraryHit]] = field(repr=False)
    is_heuristic: bool = True


@dataclass(frozen=True, slots=True)
class LocatedHit:
    """A hit with its rule; `line` from 1, 0 for the whole file."""

    rule: LibraryRule
    severity: Severity
    path: str
    start: int
    end: int
    line: int
    quote: str
    says: str
    trial: str
    step: int | None
    field: str
