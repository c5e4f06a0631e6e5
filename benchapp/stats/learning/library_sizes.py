"""Libraries in numbers: how large they are, how they grew, what changed in them, and who used them.

A skill is a folder with a SKILL.md, identified by its folder's name within one episode: skills of the same name in two
episodes count as two. Counts follow SkillFlow (#skills, section 2.5 and Table 1) and SkillEvolBench Figure 5.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from benchapp.models import Run
from benchapp.stats.learning.library_history import (
    EMPTY,
    SEEDED,
    EpisodeHistory,
    read_final_histories,
    read_histories,
)
from runner.base.types import DecisionStatus


@dataclass(frozen=True, slots=True)
class LibrarySize:
    """What an episode's library holds. `files`: FILE_KINDS -> count. `bytes`: of all files, uncompressed."""

    episode: int
    title: str
    tainted: bool
    skills: int
    files: Mapping[str, int]
    bytes: int

    @property
    def files_total(self) -> int:
        return sum(self.files.values())


@dataclass(frozen=True, slots=True)
class Growth:
    """What the library held after `position` tasks of acquisition or evaluation, which is what the next task was given.

    `ever`: skills it held at any time up to here, seeded ones included.
    """

    episode: int
    title: str
    tainted: bool
    position: int
    skills: int
    files: Mapping[str, int]
    bytes: int
    ever: int


@dataclass(frozen=True, slots=True)
class Churn:
    """Sums over the episodes of one run, tainted ones left out. `decisions`: status -> count.

    `ever` skills = `seeded` (given before an author touched them) + `found` (there without a change that brought them,
    as in imports) + `created`; `retained` are in the final library, `deleted` are not. Lines and files are those of
    applied decisions. `recorded`: episodes with a recorded history of their library.
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


def read_final_libraries(runs: Iterable[Run], as_of: datetime | None = None) -> dict[int, list[LibrarySize]]:
    """run pk -> the library of each of its episodes that owns one: the sealed one, or where it stands so far."""
    return {
        run: [
            LibrarySize(
                episode.episode,
                episode.title,
                episode.tainted,
                len(episode.present.skills),
                episode.present.files,
                episode.present.bytes,
            )
            for episode in episodes
            if episode.present is not None
        ]
        for run, episodes in read_final_histories(runs, as_of).items()
    }


def count_growth(runs: Iterable[Run], as_of: datetime | None = None) -> dict[int, list[Growth]]:
    """run pk -> one entry per episode and position 0, 1, ... n of its n tasks. Nothing of episodes whose tasks have no
    order (imports without a protocol)."""
    return {
        run: [entry for episode in episodes if episode.tasks for entry in _steps(episode)]
        for run, episodes in read_histories(runs, as_of).items()
    }


def _steps(episode: EpisodeHistory) -> Iterator[Growth]:
    library, ever, due = EMPTY, set[str](), list(reversed(episode.changes))
    for position in range(len(episode.tasks) + 1):
        while due and due[-1].position <= position:
            library = due.pop().after or library
            ever |= library.skills
        yield Growth(
            episode.episode,
            episode.title,
            episode.tainted,
            position,
            len(library.skills),
            library.files,
            library.bytes,
            len(ever),
        )


def count_churn(runs: Iterable[Run], as_of: datetime | None = None) -> dict[int, Churn]:
    """run pk -> what its authors decided and what became of the skills."""
    return {run: _churn(episodes) for run, episodes in read_histories(runs, as_of).items()}


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
    """How many skills were seeded, found, ever held and retained; by the fields of `Churn`."""
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
