"""An episode's library as it went: its states in the order of the spine, who wrote their lines, and who worked with them.

Read once per run and kept until a number of the run changes: five queries, the contents of the library's files among them.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from benchapp.lineage.blame import Blame, blame
from benchapp.metrics.keeping import RunCache
from benchapp.models import Blob, Entry, Episode, Run, SkillUse, SnapshotFile, Trial
from runner.types import DecisionStatus, UseKind

MAX_BYTES = 16 * 1024 * 1024  # of all texts that a library ever held; beyond it no line is traced


@dataclass(frozen=True, slots=True)
class State:
    """One state of a library. `sequence`: the place on the spine from which on it stood. `decision`, `seeding`: what
    made it; both None for the start."""

    snapshot: int | None
    sequence: int = 0
    decision: int | None = None
    seeding: int | None = None


@dataclass(frozen=True, slots=True)
class Worked:
    """A finished trial that was given a state of the library. `read`: skills it read, invoked or executed; None where
    no trajectory tells."""

    pk: int
    public_id: UUID
    state: int
    task: int
    task_title: str
    revision: int | None
    family: int | None
    role: str
    phase: str
    status: str
    success: bool | None
    read: frozenset[str] | None


@dataclass(frozen=True, slots=True)
class Lineage:
    """`holding[state][born]`: the skills in which lines stand that were written in the state `born`.

    `too_big`: bytes of a library that is not traced; 0 where it is.
    """

    states: tuple[State, ...]
    blame: Blame
    holding: tuple[Mapping[int, frozenset[str]], ...]
    trials: tuple[Worked, ...]
    too_big: int = 0

    def made_by(self, decision: int) -> int | None:
        """The state that a decision left behind; None where it changed nothing."""
        return next((place for place, state in enumerate(self.states) if state.decision == decision), None)


KEPT: RunCache[dict[int, Lineage]] = RunCache(40)  # runs; a library of sixty rounds takes about 1 MB


def lineage_of(run: Run, episode: Episode, entries: Sequence[Entry]) -> Lineage:
    """`entries`: the episode's spine as `Entry.objects.of_library` gives it; the states are those of exactly this spine."""
    states = _states(entries, episode.library_id)
    kept = KEPT.get(run) or {}
    if episode.pk not in kept or len(kept[episode.pk].states) != len(states):
        kept = {**kept, episode.pk: _read(episode, states)}
        KEPT.put(run, kept)
    return kept[episode.pk]


def _read(episode: Episode, states: Sequence[State]) -> Lineage:
    snapshots = {state.snapshot for state in states if state.snapshot is not None}
    files: dict[int, dict[str, str]] = defaultdict(dict)
    sizes: dict[str, int] = {}
    rows = SnapshotFile.objects.filter(snapshot__in=snapshots).order_by("path")
    for snapshot, path, digest, size in rows.values_list("snapshot_id", "path", "blob_id", "size"):
        files[snapshot][path] = digest
        sizes[digest] = size
    manifests = [files.get(state.snapshot, {}) if state.snapshot else {} for state in states]
    too_big = sum(sizes.values()) if sum(sizes.values()) > MAX_BYTES else 0
    contents = Blob.objects.read_many(list(sizes)) if sizes and not too_big else {}
    found = blame([{}] * len(states) if too_big else manifests, contents)
    return Lineage(tuple(states), found, tuple(found.holding()), tuple(_worked(episode, states)), too_big)


def _states(entries: Iterable[Entry], library: int | None) -> list[State]:
    """The states in order: the same as the time machine's rail."""
    entries = list(entries)
    states = [State(_first(entries, library))]
    for entry in entries:
        decision = entry.decision
        if decision and decision.status == DecisionStatus.APPLIED and decision.after_id != states[-1].snapshot:
            states.append(State(decision.after_id, entry.sequence, decision=decision.pk))
        elif entry.seeding:
            states.append(State(entry.seeding.snapshot_id, entry.sequence, seeding=entry.seeding.pk))
    return states


def _first(entries: Iterable[Entry], library: int | None) -> int | None:
    """What the library held before the first thing that could change it."""
    for entry in entries:
        if entry.decision:
            return entry.decision.before_id
        if entry.seeding or entry.seal:
            return entry.seal.snapshot_id if entry.seal else None
    return library


def _worked(episode: Episode, states: Sequence[State]) -> list[Worked]:
    standing: dict[int, list[int]] = defaultdict(list)
    for place, state in enumerate(states):
        if state.snapshot is not None:
            standing[state.snapshot].append(place)
    tried = Entry.objects.filter(episode=episode, kind=Entry.Kind.TRIAL).order_by("sequence")
    places = dict(tried.values_list("attempt__trial", "sequence"))
    trials = Trial.objects.filter(episode=episode, is_done=True, snapshot__in=list(standing))
    read: dict[int, set[str]] = defaultdict(set)
    uses = SkillUse.objects.filter(attempt__counts=True, attempt__trial__in=trials).exclude(kind=UseKind.MOUNTED)
    for trial, skill in uses.order_by().values_list("attempt__trial_id", "skill"):
        read[trial].add(skill)
    rows = trials.order_by("finished_at", "id").values_list(
        "pk",
        "public_id",
        "snapshot_id",
        "task_id",
        "task__title",
        "task_revision_id",
        "task__family_id",
        "task__role",
        "phase",
        "status",
        "success",
        "skills_read",
    )
    return [
        Worked(
            pk,
            public_id,
            _state_at(states, standing[snapshot], places.get(pk)),
            *rest,
            frozenset(read[pk]) if known is not None or pk in read else None,
        )
        for pk, public_id, snapshot, *rest, known in rows
    ]


def _state_at(states: Sequence[State], same: Sequence[int], sequence: int | None) -> int:
    """Which of the states with the same files a trial met: the latest before its place on the spine; the last of them
    where it has none."""
    if sequence is None:
        return same[-1]
    return max((place for place in same if states[place].sequence < sequence), default=same[0])
