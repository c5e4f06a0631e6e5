"""What a library's text is held against: what the episode's trials showed, what verifiers said, reference skills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from benchapp.analysis.diagnoses.constants import Constant


@dataclass(frozen=True, slots=True)
class Sighting:
    """A constant stood here. `own`: in a trial of this episode before the constant was written into the library;
    otherwise in a trial of the same task elsewhere in the experiment."""

    task: str
    trial: str
    step: int
    field: str
    own: bool
    siblings: int = 0  # other tasks of its family that were looked through as well


@dataclass(frozen=True, slots=True)
class Spoken:
    """A text that a library should not repeat: who said it, in words, and the trial where it can be read. `is_printed`: all
    that a verifier printed, so that some of it may be what the agent had written."""

    text: str
    who: str
    trial: str = ""
    is_printed: bool = False


@dataclass(frozen=True, slots=True)
class Sources:
    """`sightings`: constant -> the first sighting in each task. `tasks_seen`: tasks whose trials were looked through.
    `trials_left_out` were more than are looked through at once."""

    sightings: Mapping[Constant, tuple[Sighting, ...]] = field(default_factory=dict)
    tasks_seen: int = 0
    trials_read: int = 0
    trials_left_out: int = 0
    omitted: frozenset[str] = frozenset()  # files of the library that the import says it was not given
    public_texts: tuple[str, ...] = ()  # what the tasks' agents are told anyway
    verifier_texts: tuple[Spoken, ...] = ()
    hidden_checks: tuple[Spoken, ...] = ()
    references: tuple[Spoken, ...] = ()
