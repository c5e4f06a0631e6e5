"""An episode's library over time: its states, who wrote their lines, and who worked with them.

Read once per run and cached until a number of the run changes: five queries, including those for the files' contents.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from benchapp.analysis.lineage.blame import Blame, trace_lines
from benchapp.analysis.lineage.library_states import LibraryState
from benchapp.models import Blob, Entry, Episode, Run, SkillUse, SnapshotFile, Trial
from benchapp.stats.learning.computed_runs import RunCache
from runner.base.types import UseKind

MAX_BYTES = 16 * 1024 * 1024  # of all texts that a library ever held; beyond it no line is traced


@dataclass(frozen=True, slots=True)
class WorkedTrial:
    """A finished trial that was given a state of the library. `read`: skills it read, invoked or executed; None where
    no trajectory shows it."""

    state: int
    read: frozenset[str] | None
    pk: int
    public_id: UUID
    task: int
    task_title: str
    revision: int | None
    family: int | None
    role: str
    phase: str
    status: str
    success: bool | None


@dataclass(frozen=True, slots=True)
class Lineage:
    """`snapshots[state]`: the library's key in each state, None if empty. `holding[state][born]`: the skills that still
    have lines of the state `born`. `too_big`: bytes of a library that is too large to trace, else 0."""

    snapshots: tuple[int | None, ...]
    blame: Blame
    holding: tuple[Mapping[int, frozenset[str]], ...]
    trials: tuple[WorkedTrial, ...]
    too_big: int = 0


KEPT: RunCache[dict[int, Lineage]] = RunCache(40)  # runs; a library of sixty rounds takes about 1 MB


def read_lineage(run: Run, episode: Episode, states: Sequence[LibraryState]) -> Lineage:
    """Read the lineage. `states`: the episode's, as returned by `read_history`."""
    kept = KEPT.get(run) or {}
    if episode.pk not in kept or len(kept[episode.pk].snapshots) != len(states):
        kept = {**kept, episode.pk: _read(episode, states)}
        KEPT.put(run, kept)
    return kept[episode.pk]


def _read(episode: Episode, states: Sequence[LibraryState]) -> Lineage:
    snapshots = tuple(state.snapshot.pk if state.snapshot else None for state in states)
    files: dict[int, dict[str, str]] = defaultdict(dict)
    sizes: dict[str, int] = {}
    rows = SnapshotFile.objects.filter(snapshot__in={pk for pk in snapshots if pk is not None}).order_by("path")
    for snapshot, path, digest, size in rows.values_list("snapshot_id", "path", "blob_id", "size"):
        files[snapshot][path] = digest
        sizes[digest] = size
    manifests = [files.get(pk, {}) if pk else {} for pk in snapshots]
    too_big = sum(sizes.values()) if sum(sizes.values()) > MAX_BYTES else 0
    contents = Blob.objects.read_many(list(sizes)) if sizes and not too_big else {}
    found = trace_lines([{}] * len(states) if too_big else manifests, contents)
    return Lineage(snapshots, found, tuple(found.holding()), tuple(_read_trials(episode, states)), too_big)


def _read_trials(episode: Episode, states: Sequence[LibraryState]) -> list[WorkedTrial]:
    standing: dict[int, list[int]] = defaultdict(list)
    for place, state in enumerate(states):
        if state.snapshot is not None:
            standing[state.snapshot.pk].append(place)
    tried = Entry.objects.filter(episode=episode, kind=Entry.Kind.TRIAL).order_by("sequence")
    places = dict(tried.values_list("attempt__trial", "sequence"))
    trials = Trial.objects.filter(episode=episode, is_done=True, snapshot__in=list(standing))
    read: dict[int, set[str]] = defaultdict(set)
    uses = SkillUse.objects.filter(attempt__counts=True, attempt__trial__in=trials).exclude(kind=UseKind.MOUNTED)
    for trial, skill in uses.order_by().values_list("attempt__trial_id", "skill"):
        read[trial].add(skill)
    rows = trials.order_by("finished_at", "id").values_list(
        "snapshot_id",
        "skills_read",
        "pk",
        "public_id",
        "task_id",
        "task__title",
        "task_revision_id",
        "task__family_id",
        "task__role",
        "phase",
        "status",
        "success",
    )
    return [
        WorkedTrial(
            _find_state_at(states, standing[row[0] or 0], places.get(row[2])),
            frozenset(read[row[2]]) if row[1] is not None or row[2] in read else None,
            *row[2:],
        )
        for row in rows
    ]


def _find_state_at(states: Sequence[LibraryState], same: Sequence[int], sequence: int | None) -> int:
    """Return which of the states with the same files a trial met: the latest before its place on the spine, or the last
    of all if it has no place."""
    if sequence is None:
        return same[-1]
    return max((place for place in same if states[place].sequence < sequence), default=same[0])
