"""An episode's state, rebuilt from its history. Nothing else holds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from runner.base.digests import EMPTY_LIBRARY
from runner.base.errors import FrozenLibrary, RunnerError
from runner.base.trees import slugs
from runner.base.types import DecisionStatus, Files, TrialSlot
from runner.protocols.recorder import Decided, Frozen, History, Seeded, Skipped, TrialDone

# One chance for the author to work: a family, and the trial it follows (None: before the first).
Occasion = tuple[str, TrialSlot | None]


@dataclass(frozen=True, slots=True)
class EpisodeState:
    """The state of an episode after some prefix of its history."""

    snapshot: str = EMPTY_LIBRARY
    rounds: int = 0  # decisions that changed the library
    decisions: int = 0  # answers of the author, with any outcome
    trials: Mapping[TrialSlot, TrialDone] = field(default_factory=dict)
    skipped: frozenset[TrialSlot] = frozenset()
    answers: Mapping[Occasion, tuple[Decided, ...]] = field(default_factory=dict)
    equipped: frozenset[str] = frozenset()  # families that ever had a skill of their own
    left_by: Mapping[str, str] = field(default_factory=dict)  # family -> the library after its latest seed or decision
    frozen: Frozen | None = None

    def is_closed(self, slot: TrialSlot) -> bool:
        return slot in self.trials or slot in self.skipped

    def require_open_library(self, what: str) -> None:
        """Raise FrozenLibrary after the freeze. Checked by the engine before work, by recorders before writing."""
        if self.frozen is not None:
            raise FrozenLibrary(f"the library is frozen: {what} was not taken")


def fold(history: History) -> EpisodeState:
    """Rebuild the state. RunnerError if the sequence has a gap or repeats."""
    trials: dict[TrialSlot, TrialDone] = {}
    answers: dict[Occasion, tuple[Decided, ...]] = {}
    equipped: set[str] = set()
    skipped: set[TrialSlot] = set()
    left_by: dict[str, str] = {}
    snapshot, rounds, decisions, frozen = EMPTY_LIBRARY, 0, 0, None
    for place, entry in enumerate(history, start=1):
        if entry.sequence != place:
            raise RunnerError(f"history: entry {place} carries sequence {entry.sequence} (expected {place})")
        match entry.event:
            case Seeded() as event:
                snapshot = left_by[event.family] = event.snapshot
                equipped.add(event.family)
            case TrialDone() as event:
                trials[event.slot] = event
            case Decided() as event:
                occasion = (event.family, event.after_trial)
                answers[occasion] = (*answers.get(occasion, ()), event)
                snapshot, rounds, decisions = event.snapshot, event.round, event.number
                left_by[event.family] = event.snapshot
                if event.status is DecisionStatus.APPLIED:
                    equipped.add(event.family)
            case Frozen() as event:
                frozen = event
            case Skipped() as event:
                skipped.add(event.slot)  # and a refusal changes nothing
    return EpisodeState(
        snapshot=snapshot,
        rounds=rounds,
        decisions=decisions,
        trials=trials,
        skipped=frozenset(skipped),
        answers=answers,
        equipped=frozenset(equipped),
        left_by=left_by,
        frozen=frozen,
    )


def family_skills(history: History, library: Callable[[str], Files]) -> dict[str, tuple[str, ...]]:
    """family -> slugs of its skills, after the history.

    A skill belongs to the family whose seed or decision brought it into the library, until it is deleted.
    `library` gives the files of a snapshot; snapshots are content digests, so this stays a function of the history.
    """
    owner: dict[str, str] = {}
    for entry in history:
        event = entry.event
        if isinstance(event, Seeded) or (isinstance(event, Decided) and event.status is DecisionStatus.APPLIED):
            present = slugs(library(event.snapshot))
            owner = {slug: owner.get(slug, event.family) for slug in present}
    owned: dict[str, list[str]] = {}
    for slug, family in owner.items():
        owned.setdefault(family, []).append(slug)
    return {family: tuple(sorted(names)) for family, names in owned.items()}
