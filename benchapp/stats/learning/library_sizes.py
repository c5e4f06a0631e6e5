"""Libraries in numbers: their size and growth, what changed in them, and who used them.

A skill is a folder with a SKILL.md, identified by its folder's name within one episode: skills of the same name in two
episodes count as two. Counts follow SkillFlow (#skills, section 2.5 and Table 1) and SkillEvolBench Figure 5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, fields
from datetime import datetime

import numpy as np

from benchapp.models import Run
from benchapp.stats.learning.computed_runs import RunCache
from benchapp.stats.learning.kept_files import Fact, take_or_read
from benchapp.stats.learning.library_history import EMPTY, SEEDED, EpisodeHistory, read_histories
from benchapp.stats.metrics.outcomes import Ints, Mask
from runner.base.types import DecisionStatus


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
        return cls(tuple(_sizes(episodes)), _churn(episodes), _grow(episodes), last)

    def pack(self) -> dict[str, object]:
        return {
            "sizes": [asdict(size) for size in self.sizes],
            "churn": asdict(self.churn),
            "growth": {name.name: getattr(self.growth, name.name).tolist() for name in fields(Growth)},
            "last": self.last.isoformat() if self.last else None,
        }

    @classmethod
    def restore(cls, fact: Fact) -> LibraryNumbers:
        sizes = tuple(LibrarySize(**size) for size in fact["sizes"])
        last = datetime.fromisoformat(fact["last"]) if fact["last"] else None
        return cls(sizes, Churn(**fact["churn"]), _growth_from(fact["growth"]), last)


KEPT: RunCache[LibraryNumbers] = RunCache(600)  # runs; some 10 kB each


def read_library_numbers(runs: Iterable[Run], as_of: datetime | None = None) -> dict[int, LibraryNumbers]:
    """Return run pk -> its numbers as the record knew them at `as_of`. Numbers of ended runs are kept on disk; four
    queries for all others, and for those whose library changed after that moment."""
    wanted = list(runs)
    found = KEPT.read_all(wanted, _take_or_count)
    changed = [run for run in wanted if as_of is not None and (last := found[run.pk].last) and last > as_of]
    return found | _count(changed, as_of) if changed else found


def _take_or_count(runs: list[Run]) -> dict[int, LibraryNumbers]:
    return take_or_read(runs, "libraries", _count, LibraryNumbers.pack, LibraryNumbers.restore)


def _count(runs: Iterable[Run], as_of: datetime | None = None) -> dict[int, LibraryNumbers]:
    return {run: LibraryNumbers.of(episodes) for run, episodes in read_histories(runs, as_of).items()}


def _sizes(episodes: Iterable[EpisodeHistory]) -> Iterator[LibrarySize]:
    for each in episodes:
        if (held := each.present) is not None:
            yield LibrarySize(each.title, each.tainted, len(held.skills), held.files, held.bytes)


def _grow(episodes: Iterable[EpisodeHistory]) -> Growth:
    rows = [row for episode in episodes if episode.tasks for row in _steps(episode)]
    names = [field.name for field in fields(Growth)]
    return _growth_from(dict(zip(names, zip(*rows, strict=True), strict=True)) if rows else dict.fromkeys(names, ()))


def _growth_from(columns: Mapping[str, Sequence[int]]) -> Growth:
    tainted, *counts = (columns[field.name] for field in fields(Growth))
    return Growth(np.array(tainted, dtype=bool), *(np.array(each, dtype=np.int64) for each in counts))


def _steps(episode: EpisodeHistory) -> Iterator[tuple[bool, int, int, int, int]]:
    """Yield the rows of an episode, as the fields of Growth."""
    library, ever, due = EMPTY, set[str](), list(reversed(episode.changes))
    for position in range(len(episode.tasks) + 1):
        while due and due[-1].position <= position:
            library = due.pop().after or library
            ever |= library.skills
        yield episode.tainted, position, len(library.skills), sum(library.files.values()), len(ever)


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
                    files_changed=change.files_changed,
                    lines_added=change.lines_added,
                    lines_removed=change.lines_removed,
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
