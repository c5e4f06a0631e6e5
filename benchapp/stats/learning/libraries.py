"""The libraries of runs task by task, read from the spine, the decisions and the manifests. No blob is loaded.

One history per run, cached until the run's record grows. Four queries for any number of runs.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields, replace
from datetime import datetime

import numpy as np
from django.db.models import Case, CharField, F, Q, Value, When
from django.db.models.functions import Length, Substr

from benchapp.models import Decision, Entry, Episode, Run, SnapshotFile
from benchapp.stats.inference.interval import Ints
from benchapp.stats.learning.computed_runs import Fact, RunCache, take_or_read
from benchapp.stats.metrics.outcomes import LEARNING, Mask, Outcomes
from runner.base.types import DecisionStatus

FILE_KINDS = ("SKILL.md", "references", "scripts", "assets", "other")


@dataclass(frozen=True, slots=True)
class LibraryContents:
    """The contents of one snapshot. `files`: FILE_KINDS -> count. `skills`: folders with a SKILL.md."""

    skills: frozenset[str] = frozenset()
    files: Mapping[str, int] = field(default_factory=lambda: dict.fromkeys(FILE_KINDS, 0))
    bytes: int = 0


EMPTY = LibraryContents()


@dataclass(frozen=True, slots=True)
class LibraryChange:
    """One decision with any outcome, or one seeded skill. `after`: the library from then on; None: as before.

    `position`: tasks of acquisition or evaluation that had ended.
    """

    position: int
    at: datetime
    status: str  # of the decision; "seeded" for a seed
    after: LibraryContents | None
    files_changed: int = 0
    lines_added: int = 0
    lines_removed: int = 0


SEEDED = "seeded"


@dataclass(frozen=True, slots=True)
class EpisodeHistory:
    """`tasks`: when each task of acquisition or evaluation entered the spine, in its order. `present`: the episode's
    current contents; None: it owns no library."""

    title: str
    tainted: bool
    tasks: tuple[datetime, ...]
    changes: tuple[LibraryChange, ...]
    present: LibraryContents | None

    @property
    def last(self) -> datetime | None:
        """When the last task or change entered the record."""
        return max((*self.tasks, *(change.at for change in self.changes)), default=None)

    def standing_at(self, moment: datetime | None) -> EpisodeHistory:
        """Cut the history at `moment`. A library without a history stays as it is."""
        if moment is None or not (self.tasks or self.changes):
            return self
        tasks = tuple(at for at in self.tasks if at <= moment)
        changes = tuple(change for change in self.changes if change.at <= moment)
        if len(changes) == len(self.changes):
            present = self.present
        else:
            present = next((change.after for change in reversed(changes) if change.after is not None), EMPTY)
        return replace(self, tasks=tasks, changes=changes, present=present)


HISTORIES: RunCache[tuple[EpisodeHistory, ...]] = RunCache(600)  # runs; some 20 kB each


def read_histories(runs: Iterable[Run], as_of: datetime | None = None) -> dict[int, tuple[EpisodeHistory, ...]]:
    """Return run pk -> its episodes in their order, as the record knew them at `as_of`."""
    found = HISTORIES.read_all(runs, _read_histories)
    return {pk: tuple(episode.standing_at(as_of) for episode in episodes) for pk, episodes in found.items()}


def _read_histories(wanted: Sequence[Run]) -> dict[int, tuple[EpisodeHistory, ...]]:
    runs = [run.pk for run in wanted]
    manifests = _manifests(runs)
    spine, seeds = _spine(runs)
    changes = _changes(runs, spine, seeds, manifests)
    found: dict[int, list[EpisodeHistory]] = {run: [] for run in runs}
    episodes = Episode.objects.filter(run__in=runs).order_by("run_id", "ordinal", "pk")
    for run, pk, title, tainted, library in episodes.values_list("run_id", "pk", "title", "is_tainted", "library_id"):
        present = None if library is None else manifests.get(library, EMPTY)
        tasks = tuple(at for _, at in spine.get(pk, ()))
        found[run].append(EpisodeHistory(title, tainted, tasks, tuple(changes.get(pk, ())), present))
    return {run: tuple(of_run) for run, of_run in found.items()}


Spine = dict[int, list[tuple[int, datetime]]]  # episode pk -> (sequence, time) of its tasks, in order
Seeds = list[tuple[int, int, datetime, int]]  # episode pk, sequence, time, snapshot pk


def _spine(runs: Sequence[int]) -> tuple[Spine, Seeds]:
    """Return the places of learning tasks and seeds. A task that was run in several samples is one place for each."""
    entries = Entry.objects.filter(episode__run__in=runs).filter(
        Q(kind=Entry.Kind.SEED) | Q(kind=Entry.Kind.TRIAL, attempt__trial__phase__in=LEARNING)
    )
    tasks: Spine = defaultdict(list)
    seeds: Seeds = []
    rows = entries.order_by("episode_id", "sequence").values_list(
        "episode_id", "sequence", "recorded_at", "seeding__snapshot_id"
    )
    for episode, sequence, at, snapshot in rows.iterator(chunk_size=5000):
        if snapshot is None:
            tasks[episode].append((sequence, at))
        else:
            seeds.append((episode, sequence, at, snapshot))
    return tasks, seeds


def _changes(
    runs: Sequence[int], spine: Spine, seeds: Seeds, manifests: Mapping[int, LibraryContents]
) -> dict[int, list[LibraryChange]]:
    """Return episode pk -> its decisions and seeds in the order of the spine."""
    placed: dict[int, list[tuple[int, LibraryChange]]] = defaultdict(list)

    def position(episode: int, sequence: int) -> int:
        return bisect_left(spine.get(episode, ()), (sequence,))

    for episode, sequence, at, snapshot in seeds:
        change = LibraryChange(position(episode, sequence), at, SEEDED, manifests.get(snapshot, EMPTY))
        placed[episode].append((sequence, change))
    decisions = Decision.objects.filter(episode__run__in=runs).order_by("episode_id", "number")
    rows = decisions.values_list(
        "episode_id",
        "entry__sequence",
        "decided_at",
        "status",
        "before_id",
        "after_id",
        "files_changed",
        "lines_added",
        "lines_removed",
    )
    for episode, sequence, at, status, before, after, *counts in rows.iterator(chunk_size=5000):
        applied = status == DecisionStatus.APPLIED and after != before
        change = LibraryChange(
            position(episode, sequence or 0), at, status, manifests.get(after, EMPTY) if applied else None, *counts
        )
        placed[episode].append((sequence or 0, change))
    return {
        episode: [change for _, change in sorted(of_episode, key=lambda pair: pair[0])]
        for episode, of_episode in placed.items()
    }


def read_rounds_given(
    runs: Iterable[Run], outcomes: Mapping[int, Outcomes], as_of: datetime | None = None
) -> dict[int, Ints]:
    """Return run pk -> rounds of learning before the library of each trial's counting attempt, [n] as in its outcomes.

    -1: other phases than acquisition and evaluation, and episodes without a spine (imports without a protocol). 0: no
    decision had changed the library yet. Decisions without a change (rejected, no-op, failed) make no round. One query
    for all runs that are not kept on disk.
    """
    wanted = list(runs)
    if as_of is not None:
        return _read_given(wanted, outcomes, as_of)
    found = take_or_read(
        wanted,
        "rounds",
        lambda missing: _read_given(missing, outcomes),
        lambda given: {"given": given.tolist()},
        lambda fact: np.array(fact["given"], dtype=np.int64),
    )
    other = [run for run in wanted if len(found[run.pk]) != len(outcomes[run.pk])]  # kept for other columns
    return found | _read_given(other, outcomes) if other else found


def _read_given(
    runs: Sequence[Run], outcomes: Mapping[int, Outcomes], as_of: datetime | None = None
) -> dict[int, Ints]:
    wanted = Q(kind=Entry.Kind.DECISION) | Q(
        kind=Entry.Kind.TRIAL, attempt__counts=True, attempt__trial__phase__in=LEARNING
    )
    entries = Entry.objects.filter(wanted, episode__run__in=[run.pk for run in runs])
    if as_of is not None:
        entries = entries.filter(recorded_at__lte=as_of)
    rows = entries.order_by("episode_id", "sequence").values_list("episode_id", "attempt__trial_id", "decision__round")
    given: dict[int, int] = {}
    rounds: dict[int, int] = {}  # episode -> rounds completed so far
    for episode, trial, completed in rows.iterator(chunk_size=5000):
        if trial is None:
            rounds[episode] = completed
        else:
            given[trial] = rounds.get(episode, 0)
    return {
        run.pk: np.array([given.get(trial, -1) for trial in outcomes[run.pk].trial.tolist()], dtype=np.int64)
        for run in runs
    }


INSIDE = Substr("path", Length("skill") + 2)  # the path inside the skill's folder
KIND = Case(
    When(inside="SKILL.md", then=Value(FILE_KINDS[0])),
    *(
        When(**{f"head{len(kind) + 1}": f"{kind}/", "then": Value(kind)})
        for kind in ("references", "scripts", "assets")
    ),
    default=Value(FILE_KINDS[-1]),
    output_field=CharField(),
)


def _read_files(wanted: Q) -> Iterator[tuple[int, str, str, int]]:
    """Yield (snapshot, skill, kind, bytes) of each file. Case matters in folder names, unlike LIKE in some databases.

    Not grouped: at ninety thousand files the database's sorting costs more than reading the rows.
    """
    heads = {f"head{length}": Substr("inside", 1, length) for length in (7, 8, 11)}
    files = SnapshotFile.objects.filter(wanted).order_by()
    typed = files.annotate(inside=INSIDE).annotate(**heads).annotate(kind=KIND)
    return typed.values_list("snapshot_id", "skill", "kind", "size").iterator(chunk_size=5000)


def _manifests(runs: Sequence[int]) -> dict[int, LibraryContents]:
    """Return snapshot pk -> its contents, for every library that an episode of these runs has or had."""
    of_runs = Decision.objects.filter(episode__run__in=runs, status=DecisionStatus.APPLIED).exclude(after=F("before"))
    seeded = Entry.objects.filter(episode__run__in=runs, kind=Entry.Kind.SEED)
    present = Episode.objects.filter(run__in=runs, library__isnull=False)
    wanted = (
        Q(snapshot__in=of_runs.order_by().values("after"))
        | Q(snapshot__in=seeded.order_by().values("seeding__snapshot"))
        | Q(snapshot__in=present.order_by().values("library"))
    )
    skills: dict[int, set[str]] = defaultdict(set)
    files: dict[int, dict[str, int]] = defaultdict(lambda: dict.fromkeys(FILE_KINDS, 0))
    sizes: dict[int, int] = defaultdict(int)
    for snapshot, skill, kind, size in _read_files(wanted):
        files[snapshot][kind] += 1
        sizes[snapshot] += size
        if kind == FILE_KINDS[0]:
            skills[snapshot].add(skill)
    return {pk: LibraryContents(frozenset(skills.get(pk, ())), files[pk], sizes[pk]) for pk in files}


@dataclass(frozen=True, slots=True)
class LibrarySize:
    """The contents of an episode's library. `files`: FILE_KINDS -> count. `bytes`: of all files, uncompressed."""

    title: str
    tainted: bool
    skills: int
    files: Mapping[str, int]
    bytes: int

    @property
    def files_total(self) -> int:
        return sum(self.files.values())


@dataclass(frozen=True, slots=True, eq=False)
class Growth:
    """Contents after `position` learning tasks, as the next task received them.

    [n] each, one place per episode and position 0, 1, ... of its tasks of acquisition or evaluation. `ever`: skills it
    held at any time up to here, seeded ones included.
    """

    tainted: Mask
    position: Ints
    skills: Ints
    files: Ints
    ever: Ints

    @classmethod
    def of(cls, tainted: Sequence[bool], *counts: Sequence[int]) -> Growth:
        return cls(np.array(tainted, dtype=bool), *(np.array(each, dtype=np.int64) for each in counts))


@dataclass(frozen=True, slots=True)
class Churn:
    """Sums over the episodes of one run, without tainted ones. `decisions`: status -> count.

    `ever` skills = `seeded` (given before an author touched them) + `found` (present without a change that brought
    them, as in imports) + `created`; `retained` are in the final library, `deleted` are not. Lines and files are those
    of applied decisions. `recorded`: episodes with a recorded history of their library.
    """

    episodes: int = 0
    recorded: int = 0
    decisions: Mapping[str, int] = field(default_factory=dict)
    files_changed: int = 0
    lines_added: int = 0
    lines_removed: int = 0
    ever: int = 0
    seeded: int = 0
    found: int = 0
    retained: int = 0

    @property
    def created(self) -> int:
        return self.ever - self.seeded - self.found

    @property
    def deleted(self) -> int:
        return self.ever - self.retained


@dataclass(frozen=True, slots=True)
class LibraryNumbers:
    """One run. `sizes`: of each of its libraries, sealed or current. `growth`: without episodes whose tasks have no
    order (imports without a protocol). `last`: when its last task or change entered the record."""

    sizes: tuple[LibrarySize, ...]
    churn: Churn
    growth: Growth
    last: datetime | None

    @classmethod
    def of(cls, episodes: Sequence[EpisodeHistory]) -> LibraryNumbers:
        last = max((each.last for each in episodes if each.last), default=None)
        sizes = tuple(
            LibrarySize(each.title, each.tainted, len(held.skills), held.files, held.bytes)
            for each in episodes
            if (held := each.present) is not None
        )
        return cls(sizes, _churn(episodes), _grow(episodes), last)

    def pack(self) -> dict[str, object]:
        return {
            "sizes": [asdict(size) for size in self.sizes],
            "churn": asdict(self.churn),
            "growth": [getattr(self.growth, field.name).tolist() for field in fields(Growth)],
            "last": self.last.isoformat() if self.last else None,
        }

    @classmethod
    def restore(cls, fact: Fact) -> LibraryNumbers:
        sizes = tuple(LibrarySize(**size) for size in fact["sizes"])
        last = datetime.fromisoformat(fact["last"]) if fact["last"] else None
        return cls(sizes, Churn(**fact["churn"]), Growth.of(*fact["growth"]), last)


NUMBERS: RunCache[LibraryNumbers] = RunCache(600)  # runs; some 10 kB each


def read_library_numbers(runs: Iterable[Run], as_of: datetime | None = None) -> dict[int, LibraryNumbers]:
    """Return run pk -> its numbers as the record knew them at `as_of`. Numbers of ended runs are kept on disk; four
    queries for all others, and for those whose library changed after that moment."""
    wanted = list(runs)
    found = NUMBERS.read_all(
        wanted, lambda missing: take_or_read(missing, "libraries", _count, LibraryNumbers.pack, LibraryNumbers.restore)
    )
    changed = [run for run in wanted if as_of is not None and (last := found[run.pk].last) and last > as_of]
    return found | _count(changed, as_of) if changed else found


def _count(runs: Iterable[Run], as_of: datetime | None = None) -> dict[int, LibraryNumbers]:
    return {run: LibraryNumbers.of(episodes) for run, episodes in read_histories(runs, as_of).items()}


def _grow(episodes: Iterable[EpisodeHistory]) -> Growth:
    rows = []
    for episode in episodes:
        library, ever, due = EMPTY, set[str](), list(reversed(episode.changes))
        for position in range(len(episode.tasks) + 1) if episode.tasks else ():
            while due and due[-1].position <= position:
                library = due.pop().after or library
                ever |= library.skills
            rows.append((episode.tainted, position, len(library.skills), sum(library.files.values()), len(ever)))
    return Growth.of(*zip(*rows, strict=True)) if rows else Growth.of(*[()] * len(fields(Growth)))


def _churn(episodes: Iterable[EpisodeHistory]) -> Churn:
    counts: Counter[str] = Counter()
    statuses: Counter[str] = Counter()
    for episode in episodes:
        if episode.tainted:
            continue
        counts.update(_skills(episode))
        for change in episode.changes:
            if change.status != SEEDED:
                statuses[change.status] += 1
            if change.status == DecisionStatus.APPLIED:
                counts.update(
                    {name: getattr(change, name) for name in ("files_changed", "lines_added", "lines_removed")}
                )
    decisions = {status.value: statuses[status.value] for status in DecisionStatus}
    return Churn(decisions=decisions, **counts)


def _skills(episode: EpisodeHistory) -> dict[str, int]:
    """Count the skills seeded, found, ever held and retained; by the fields of `Churn`."""
    seeded: set[str] = set()
    ever: set[str] = set()
    for change in episode.changes:
        held = change.after.skills if change.after is not None else frozenset()
        if change.status == SEEDED:
            seeded |= held - ever
        ever |= held
    present = (episode.present or EMPTY).skills
    return {
        "episodes": 1,
        "recorded": int(bool(episode.tasks or episode.changes)),
        "seeded": len(seeded),
        "found": len(present - ever),
        "ever": len(ever | present),
        "retained": len(present),
    }
