"""An episode's library over time: its states, who wrote each line, and who worked with them.

A line keeps its origin through edits of its file, and through moves of the file or its whole skill within one
decision (`line_matching`). A line that was removed and later restored belongs to the change that restored it; a line
copied into another surviving file belongs to the change that copied it. Tracing is pure; `read_lineage` reads once per
run and caches until a number of the run changes: five queries, including those for the files' contents.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from uuid import UUID

from benchapp.analysis.lineage.library_states import LibraryState
from benchapp.models import Blob, Entry, Episode, Run, SkillUse, SnapshotFile, Trial
from benchapp.record.textual_change import Move, match_files, match_lines, split_bare_lines
from benchapp.stats.learning.computed_runs import RunCache
from runner.base.types import UseKind

Manifest = Mapping[str, str]  # path -> digest
Contents = Mapping[str, bytes]  # digest -> content
Written = tuple[int, ...]  # for each line of a file its number among all lines that were ever written


@dataclass(frozen=True, slots=True)
class TracedLine:
    """The life of one line. `born`, `last`: the first and the last state that hold it."""

    born: int
    last: int


@dataclass(frozen=True, slots=True)
class Blame:
    """`states[i][path]`: the lines of that file in the i-th state; `lines`: the history of each.

    `moves[i]`: new path -> the move in the i-th state.
    """

    states: tuple[Mapping[str, Written], ...]
    lines: tuple[TracedLine, ...]
    moves: tuple[Mapping[str, Move], ...]

    def origins(self, state: int, path: str) -> list[int]:
        """Return, for each line of the file, the state it was written in."""
        return [self.lines[number].born for number in self.states[state][path]]

    def paths(self, state: int, path: str) -> dict[int, str]:
        """Return state -> path of this file, from its first state to its last. Follows moves both ways."""
        found = {state: path}
        at, where = state, path
        while at and (earlier := self._before(at, where)) is not None:
            at, where = at - 1, earlier
            found[at] = where
        at, where = state, path
        while at + 1 < len(self.states) and (later := self._after(at, where)) is not None:
            at, where = at + 1, later
            found[at] = where
        return dict(sorted(found.items()))

    def _before(self, state: int, path: str) -> str | None:
        if move := self.moves[state].get(path):
            return move.old
        return path if path in self.states[state - 1] else None

    def _after(self, state: int, path: str) -> str | None:
        if path in self.states[state + 1]:
            return path
        return next((move.new for move in self.moves[state + 1].values() if move.old == path), None)

    def holding(self) -> list[dict[int, frozenset[str]]]:
        """Return, for each state, the state a line was written in -> the skills that hold such lines."""
        known: dict[int, frozenset[int]] = {}  # files that nobody touched share their lines
        found = []
        for files in self.states:
            skills: dict[int, set[str]] = {}
            for path, written in files.items():
                if id(written) not in known:
                    known[id(written)] = frozenset(self.lines[number].born for number in written)
                for born in known[id(written)]:
                    skills.setdefault(born, set()).add(path.partition("/")[0])
            found.append({born: frozenset(names) for born, names in skills.items()})
        return found


def trace_lines(manifests: Sequence[Manifest], contents: Contents) -> Blame:
    """Trace the lines. `contents` holds every digest that the manifests name; a missing one counts as an empty file."""
    born: list[int] = []
    last: list[int] = []
    states: list[dict[str, Written]] = []
    moves: list[dict[str, Move]] = []

    def write(count: int, state: int) -> range:
        first = len(born)
        born.extend([state] * count)
        last.extend([len(manifests) - 1] * count)
        return range(first, first + count)

    for state, manifest in enumerate(manifests):
        before = manifests[state - 1] if state else {}
        moved = match_files(before, manifest, contents)
        files = {}
        for path, digest in manifest.items():
            source = moved[path].old if path in moved else path if path in before else None
            if source is None:
                files[path] = tuple(write(len(split_bare_lines(contents.get(digest, b""))), state))
                continue
            written = states[-1][source]
            if before[source] == digest:
                files[path] = written
                continue
            kept = match_lines(
                split_bare_lines(contents.get(before[source], b"")), split_bare_lines(contents.get(digest, b""))
            )
            fresh = iter(write(kept.count(None), state))
            files[path] = tuple(next(fresh) if place is None else written[place] for place in kept)
        if state:
            _end(last, states[-1], files, state - 1)
        states.append(files)
        moves.append(moved)
    lines = tuple(TracedLine(*ends) for ends in zip(born, last, strict=True))
    return Blame(tuple(states), lines, tuple(moves))


def _end(last: list[int], before: Mapping[str, Written], after: Mapping[str, Written], state: int) -> None:
    """End, with `state`, the lines that existed before and no longer do. Untouched files are skipped."""
    untouched = {id(written) for written in after.values()}
    changed = [written for written in before.values() if id(written) not in untouched]
    surviving = {number for written in after.values() for number in written} if changed else set()
    for written in changed:
        for number in written:
            if number not in surviving:
                last[number] = state


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
    states_of: dict[int, list[int]] = defaultdict(list)
    for place, state in enumerate(states):
        if state.snapshot is not None:
            states_of[state.snapshot.pk].append(place)
    tried = Entry.objects.filter(episode=episode, kind=Entry.Kind.TRIAL).order_by("sequence")
    places = dict(tried.values_list("attempt__trial", "sequence"))
    trials = Trial.objects.filter(episode=episode, is_done=True, snapshot__in=list(states_of))
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
            _find_state_at(states, states_of[row[0] or 0], places.get(row[2])),
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
