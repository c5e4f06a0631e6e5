"""The recorded rows of passes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import datetime
from statistics import fmean

from benchapp.models import JudgedUnit, Judgement, Judging
from runner.judging.metrics import SCALES, Metric, percent

ALIGNMENT = "trajectory-alignment"
ALIGNED = (Metric.ORDER, Metric.RECALL, Metric.COMPLETENESS)
PARTS = tuple(
    f"{metric}.{item}" for metric in (Metric.EXECUTABILITY, Metric.SAFETY) for item in SCALES[metric]
)  # each one of the scores that the metric is the mean of
LEVEL_1 = (Metric.COVERAGE.value, Metric.EXECUTABILITY.value, Metric.SAFETY.value, *PARTS)  # of a library, for a task
LEVEL_2 = (ALIGNMENT, *(metric.value for metric in ALIGNED))  # of an attempt
Unit = tuple[int, int | None, str, int | None]  # task, snapshot, skill, attempt


@dataclass(frozen=True, slots=True)
class Told:
    """One recorded judged item. Without `family` the task is a family of its own."""

    metric: Metric
    unit: Unit
    family: int | None
    sample: int | None
    item: str
    label: str
    value: float


@dataclass(frozen=True, slots=True)
class JudgedRow:
    """A value of one measure, 0..100. `measure`: a metric, a part of one ("safety.data_privacy"), or a composite."""

    measure: str
    unit: Unit
    family: int | None
    sample: int | None
    value: float

    @property
    def task(self) -> tuple[str, int]:
        return ("family", self.family) if self.family is not None else ("task", self.unit[0])


@dataclass(frozen=True, slots=True)
class Mean:
    """`value` 0..100 over `tasks` tasks with `rows` rows in total."""

    value: float
    rows: int
    tasks: int


def rows_of(told: Iterable[Told]) -> list[JudgedRow]:
    """Return items, the metrics they make up, and the composites."""
    units: dict[tuple[Metric, Unit], list[Told]] = defaultdict(list)
    for each in told:
        units[each.metric, each.unit].append(each)
    rows = [row for (metric, _), items in units.items() for row in _of_unit(metric, items)]
    return [*rows, *_alignment(rows)]


def _of_unit(metric: Metric, items: list[Told]) -> Iterator[JudgedRow]:
    parts = SCALES.get(metric, ())
    if len(parts) > 1:
        yield from (_row(each, f"{metric}.{each.item}", each.value) for each in items)
        if {each.item for each in items} == set(parts):
            yield _row(items[0], metric.value, fmean(each.value for each in items))
    elif metric in (Metric.COVERAGE, Metric.RECALL):
        good = sum(each.value > 0 for each in items)
        yield _row(items[0], metric.value, percent(good, len(items)))
    else:
        yield _row(items[0], metric.value, items[0].value)


def _alignment(rows: list[JudgedRow]) -> Iterator[JudgedRow]:
    found: dict[Unit, dict[str, JudgedRow]] = defaultdict(dict)
    for row in rows:
        if row.measure in ALIGNED:
            found[row.unit][row.measure] = row
    for parts in found.values():
        if len(parts) == len(ALIGNED):
            first = next(iter(parts.values()))
            value = fmean(part.value for part in parts.values())
            yield JudgedRow(ALIGNMENT, first.unit, first.family, first.sample, value)


def _row(told: Told, measure: str, value: float) -> JudgedRow:
    return JudgedRow(measure, told.unit, told.family, told.sample, value)


def mean_over_tasks(rows: Iterable[JudgedRow]) -> Mean | None:
    """Average rows of one measure; None where there is none."""
    tasks = list(by_task(rows).values())
    if not tasks:
        return None
    value = fmean(fmean(row.value for row in found) for found in tasks)
    return Mean(value, sum(map(len, tasks)), len(tasks))


def by_task(rows: Iterable[JudgedRow]) -> Mapping[tuple[str, int], list[JudgedRow]]:
    found: dict[tuple[str, int], list[JudgedRow]] = defaultdict(list)
    for row in rows:
        found[row.task].append(row)
    return found


def by_measure(rows: Iterable[JudgedRow]) -> Mapping[str, list[JudgedRow]]:
    found: dict[str, list[JudgedRow]] = defaultdict(list)
    for row in rows:
        found[row.measure].append(row)
    return found


UNIT = ("unit__task", "unit__snapshot", "unit__skill", "unit__attempt")


def read_judged_rows(judgings: Iterable[Judging], as_of: datetime | None = None) -> dict[int, list[JudgedRow]]:
    """Return judging pk -> rows, for every pass. One query. `as_of`: without questions asked, or asked again, later."""
    wanted = [judging.pk for judging in judgings]
    told: dict[int, list[Told]] = {pk: [] for pk in wanted}
    columns = (
        "unit__judging",
        "unit__metric",
        *UNIT,
        "unit__task__family",
        "unit__attempt__trial__sample",
        "item",
        "label",
        "value",
    )
    found = Judgement.objects.filter(unit__judging__in=wanted).order_by("unit_id", "id")
    if as_of is not None:
        found = found.exclude(unit__in=JudgedUnit.objects.filter(judging__in=wanted, tries__asked_at__gt=as_of))
    for judging, metric, task, snapshot, skill, attempt, family, sample, item, label, value in found.values_list(
        *columns
    ):
        unit = (task, snapshot, skill, attempt)
        told[judging].append(Told(Metric(metric), unit, family, sample, item, label, value))
    return {pk: rows_of(found) for pk, found in told.items()}
