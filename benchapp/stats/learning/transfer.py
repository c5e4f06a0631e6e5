"""Which family a skill was written after, and which family's tasks read it: do lessons transfer between families?

A skill counts for the family just before its first appearance; the initial contents of a library have no author here.
Trials that read a skill differ from others before they read it. So a difference to the baseline on the same tasks is
descriptive, and nothing tests it.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from statistics import fmean

from benchapp.models import Decision, Family, Run, SkillUse
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.learning.funnel import read_skills_held
from benchapp.stats.learning.reuse import READ


class Direction(StrEnum):
    """The family of the task that read a skill, compared with the family that wrote it."""

    OWN = "own"
    FORWARD = "forward"  # learned from later, or not at all
    BACKWARD = "backward"  # learned from earlier, and tried again


@dataclass(frozen=True, slots=True)
class Reading:
    """One trial that read skills of one family. success: of the trial."""

    writer: int
    reader: int
    direction: Direction
    trial: int
    task: int
    success: bool


@dataclass(frozen=True, slots=True)
class Transfer(Shaped):
    """Trials with a verdict in one direction that read a skill, or those of one family that read one of another. share:
    of their tasks' means; other: of the baseline on the same tasks, None where it has none."""

    trials: int
    tasks: int
    share: float
    other: float | None


@dataclass(frozen=True, slots=True)
class TransferCell(Shaped):
    """`writer` and `reader` as families of the suite; `direction` of their readings, the first where runs differ."""

    writer: Family
    reader: Family
    direction: Direction
    found: Transfer

    json_shape = JsonShape(
        "writer=writer.key", "reader=reader.key", ("direction", lambda cell: cell.direction.value), "*found"
    )


@dataclass(frozen=True, slots=True)
class TransferTable(Shaped):
    """directions: only those with a trial. cells: in the order of families in the suite."""

    directions: Mapping[str, Transfer]
    cells: tuple[TransferCell, ...]


def read_transfer(runs: Iterable[Run], baseline: Mapping[int, float]) -> TransferTable | None:
    """Read the table. `baseline`: task -> mean share passed there, 0..1. None where no trial read a skill that was
    written in its run. Four queries."""
    readings = list(_list_readings([run.pk for run in runs]))
    if not readings:
        return None
    families = Family.objects.in_bulk({key for each in readings for key in (each.writer, each.reader)})
    directions, pairs = defaultdict(list), defaultdict(list)
    for each in readings:
        directions[each.direction].append(each)
        pairs[each.writer, each.reader].append(each)
    cells = [
        TransferCell(families[writer], families[reader], found[0].direction, _sum_up(found, baseline))
        for (writer, reader), found in pairs.items()
    ]
    cells.sort(key=lambda cell: (cell.writer.ordinal, cell.writer.key, cell.reader.ordinal, cell.reader.key))
    return TransferTable(
        {each.value: _sum_up(directions[each], baseline) for each in Direction if directions[each]}, tuple(cells)
    )


def _sum_up(readings: Iterable[Reading], baseline: Mapping[int, float]) -> Transfer:
    trials = {each.trial: each for each in readings}  # one that read two skills of the family counts once
    by_task = defaultdict(list)
    for each in trials.values():
        by_task[each.task].append(each.success)
    known = [task for task in by_task if task in baseline]
    means = {task: fmean(found) for task, found in by_task.items()}
    of = known or list(means)
    other = fmean(baseline[task] for task in known) if known else None
    return Transfer(len(trials), len(of), fmean(means[task] for task in of), other)


def _list_readings(runs: list[int]) -> Iterator[Reading]:
    writers, places = _read_writers(runs)
    uses = SkillUse.objects.filter(READ, attempt__counts=True, attempt__trial__episode__run__in=runs)
    trial = "attempt__trial__"
    told = uses.filter(
        attempt__trial__episode__is_tainted=False,
        attempt__trial__success__isnull=False,
        attempt__trial__task__family__isnull=False,
    ).order_by()
    facts = ("episode_id", "pk", "task_id", "task__family_id", "success")
    for episode, pk, task, reader, success, skill in told.values_list(
        *(trial + fact for fact in facts), "skill"
    ).distinct():
        if (writer := writers.get((episode, skill))) is not None:
            place = places[episode]
            if writer == reader:
                direction = Direction.OWN
            elif reader in place and place[reader] < place[writer]:
                direction = Direction.BACKWARD
            else:
                direction = Direction.FORWARD
            yield Reading(writer, reader, direction, pk, task, success)


def _read_writers(runs: list[int]) -> tuple[dict[tuple[int, str], int], dict[int, dict[int, int]]]:
    """Return (episode, skill) -> the family that wrote it; episode -> family -> number of its first decision."""
    decisions = Decision.objects.filter(episode__run__in=runs).order_by("episode_id", "number")
    rows = list(decisions.values_list("episode_id", "family_id", "number", "before_id", "after_id"))
    held = read_skills_held({snapshot for *_, before, after in rows if before != after for snapshot in (before, after)})
    writers: dict[tuple[int, str], int] = {}
    places: dict[int, dict[int, int]] = defaultdict(dict)
    for episode, family, number, before, after in rows:
        places[episode].setdefault(family, number)
        for skill in held.get(after, set()) - held.get(before, set()):
            writers.setdefault((episode, skill), family)
    return writers, places
