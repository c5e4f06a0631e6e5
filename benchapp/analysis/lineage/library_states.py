"""The states of an episode's library along its spine, and how they are named and found.

R0 is the library at the start, Rn the library after round n, Sn the library after the n-th skill added without an
author. A key names one state: our own runs count each round once; if an import repeats a round, the later state has its
place appended (R1.3). A decision makes a state only if it was applied and changed the files.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

from benchapp.models import Decision, Entry, Episode, Seeding, Snapshot
from runner.base.digests import EMPTY_LIBRARY
from runner.base.text import plural
from runner.base.types import DecisionStatus

NEVER = 2**62  # a place after every spine


@dataclass(frozen=True, slots=True)
class LibraryState:
    """A state of an episode's library: the start, or what a decision or a seeding made."""

    key: str
    snapshot: Snapshot | None  # None: empty, and never stored
    sequence: int = 0  # its place on the spine, 0 for the start
    # decision, seeding: what made it; both None for the start
    decision: Decision | None = None
    seeding: Seeding | None = None

    @property
    def digest(self) -> str:
        return self.snapshot.digest if self.snapshot else ""

    @property
    def title(self) -> str:
        count = self.snapshot.skills_total if self.snapshot else 0
        return f"Library at {self.key}: {plural(count, 'skill')}"


@dataclass(frozen=True, slots=True)
class LibraryStep:
    """One entry of the spine, and the library before and after it: the same state if it changed nothing. In an import,
    candidates may be a tree: then `before` can be an earlier state, and the step is a branch."""

    entry: Entry
    before: LibraryState
    after: LibraryState
    is_branch: bool = False


@dataclass(frozen=True, slots=True)
class LibraryHistory:
    """`states`: from the start on, in order. `steps`: every entry of the spine except trials and skips."""

    states: tuple[LibraryState, ...]
    steps: tuple[LibraryStep, ...] = ()


def read_history(episode: Episode) -> LibraryHistory:
    """Read with one query; a second one for the library of an episode without a spine, unless it was loaded with it."""
    return read_histories([episode])[episode.pk]


def read_histories(episodes: Sequence[Episode]) -> dict[int, LibraryHistory]:
    """Return histories by the key of the episode. One query for all."""
    entries: dict[int, list[Entry]] = {episode.pk: [] for episode in episodes}
    for entry in Entry.objects.filter(episode__in=episodes).of_library():
        entries[entry.episode_id].append(entry)
    return {episode.pk: _build_history(entries[episode.pk], episode) for episode in episodes}


def _build_history(entries: Sequence[Entry], episode: Episode) -> LibraryHistory:
    states = [LibraryState("R0", _read_start(entries, episode))]
    steps = []
    for entry in entries:
        # Each starts from the last state, unless a decision or the seal names an earlier one.
        named = entry.decision.before_id if entry.decision else entry.seal.snapshot_id if entry.seal else None
        found = (state for state in reversed(states) if state.snapshot and state.snapshot.pk == named)
        before = next(found, states[-1])
        after = _make_state(entry, states) or before
        steps.append(LibraryStep(entry, before, after, bool(entry.decision) and before is not states[-1]))
        if after is not before:
            states.append(after)
    return LibraryHistory(tuple(states), tuple(steps))


def find_state(states: Iterable[LibraryState], name: str | None) -> LibraryState | None:
    """Find a state by its key or its library's digest."""
    return next((state for state in states if name and name in (state.key, state.digest)), None)


def find_round(states: Sequence[LibraryState], name: str) -> LibraryState | None:
    """Find a state as `find_state` does; a person may also write 3 for R3."""
    return find_state(states, name) or find_state(states, f"R{name}")


def _read_start(entries: Iterable[Entry], episode: Episode) -> Snapshot | None:
    """Return the library before the first entry that could change it; without one, the current library."""
    for entry in entries:
        if entry.decision:
            return entry.decision.before
        if entry.seeding or entry.seal:
            return entry.seal.snapshot if entry.seal else None
    return episode.library


def _make_state(entry: Entry, states: Sequence[LibraryState]) -> LibraryState | None:
    """Return the state after this entry; None if the library stays the same."""
    if seeding := entry.seeding:
        count = 1 + sum(state.seeding is not None for state in states)
        return LibraryState(f"S{count}", seeding.snapshot, entry.sequence, seeding=seeding)
    decision, current = entry.decision, states[-1].snapshot
    if decision is None or decision.status != DecisionStatus.APPLIED:
        return None
    if current is not None and decision.after_id == current.pk:
        return None
    key = f"R{decision.round}"
    if find_state(states, key):
        key = f"{key}.{len(states)}"
    return LibraryState(key, decision.after, entry.sequence, decision=decision)


# --- libraries that no change explains --------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class NamedLibrary:
    """A library and the place on the spine that first names it."""

    snapshot: Snapshot
    sequence: int


def read_named_libraries(episode: Episode) -> list[NamedLibrary]:
    """Return every library the episode is known to have had, by first appearance, except the empty one.

    An import may begin a decision, seal or end with files that no recorded change brought, so these exceed the states.
    """
    found: dict[int, NamedLibrary] = {}
    for entry in Entry.objects.filter(episode=episode).of_library():
        for snapshot in _named_by(entry):
            found.setdefault(snapshot.pk, NamedLibrary(snapshot, entry.sequence))
    if episode.library:
        found.setdefault(episode.library.pk, NamedLibrary(episode.library, 0 if found else NEVER))
    return [one for one in found.values() if one.snapshot.digest != EMPTY_LIBRARY and one.snapshot.files_total]


def _named_by(entry: Entry) -> Iterator[Snapshot]:
    if entry.decision:
        yield entry.decision.before
        if entry.decision.status == DecisionStatus.APPLIED:
            yield entry.decision.after
    if entry.seeding:
        yield entry.seeding.snapshot
    if entry.seal:
        yield entry.seal.snapshot
