"""The states of an episode's library along its spine, by the names that the time machine gives them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from benchapp.models import Decision, Entry, Episode, Snapshot
from runner.types import DecisionStatus

CHANGES = (Entry.Kind.DECISION, Entry.Kind.SEED)


@dataclass(frozen=True, slots=True)
class LibraryState:
    """`sequence`: its place on the spine, 0 for the start. snapshot None: empty. `decision`: the one that made it."""

    key: str  # R0 at the start, Rn after round n, Sn after the n-th skill that came in without an author
    sequence: int
    snapshot: Snapshot | None
    decision: Decision | None = None

    def is_called(self, name: str) -> bool:
        """R3 is round 3 to whoever types it."""
        return name in (self.key, self.key.removeprefix("R"))


def states_of(episode: Episode) -> list[LibraryState]:
    """Every state, from the empty library on. One query."""
    entries = episode.entries.filter(kind__in=CHANGES).in_order()  # type: ignore[attr-defined]
    return [LibraryState("R0", 0, None), *_changes(entries)]


def _changes(entries: Iterator[Entry]) -> Iterator[LibraryState]:
    seeds = 0
    for entry in entries:
        if entry.seeding is not None:
            seeds += 1
            yield LibraryState(f"S{seeds}", entry.sequence, entry.seeding.snapshot)
        elif entry.decision is not None and entry.decision.status == DecisionStatus.APPLIED:
            yield LibraryState(f"R{entry.decision.round}", entry.sequence, entry.decision.after, entry.decision)
