"""The recorded rows of a judge's passes, and its scores next to the trials of runs: the columns that judged metrics
average.

A comparison shows one judge, because scores of two judges differ by the judges. The runs decide which: the judge of
most of them; among several a real one before a scripted one, then the first pass before its repeats, then the latest.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from datetime import datetime
from statistics import fmean, variance
from typing import cast

import numpy as np

from benchapp.models import Attempt, JudgedUnit, Judgement, Judging, Run
from benchapp.models.stand_ins import StandIn, join_stand_ins
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.inference.interval import Floats
from benchapp.stats.metrics.outcomes import JUDGED, Mask, Outcomes
from runner.base.text import plural
from runner.judging.metrics import SCALES, Metric, percent

ALIGNMENT = "trajectory-alignment"
ALIGNED = (Metric.ORDER, Metric.RECALL, Metric.COMPLETENESS)
# Each one of the scores that the metric is the mean of.
PARTS = tuple(f"{metric}.{item}" for metric in (Metric.EXECUTABILITY, Metric.SAFETY) for item in SCALES[metric])
LEVEL_1 = (Metric.COVERAGE.value, Metric.EXECUTABILITY.value, Metric.SAFETY.value, *PARTS)  # of a library, for a task
LEVEL_2 = (ALIGNMENT, *(metric.value for metric in ALIGNED))  # of an attempt
Unit = tuple[int, int | None, str, int | None]  # task, snapshot, skill, attempt


@dataclass(frozen=True, slots=True)
class JudgedItem:
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


def rows_of(judgements: Iterable[JudgedItem]) -> list[JudgedRow]:
    """Return items, the metrics they make up, and the composites."""
    units: dict[tuple[Metric, Unit], list[JudgedItem]] = defaultdict(list)
    for each in judgements:
        units[each.metric, each.unit].append(each)
    rows = [row for (metric, _), items in units.items() for row in _of_unit(metric, items)]
    return [*rows, *_alignment(rows)]


def _of_unit(metric: Metric, items: list[JudgedItem]) -> Iterator[JudgedRow]:
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


def _row(judgement: JudgedItem, measure: str, value: float) -> JudgedRow:
    return JudgedRow(measure, judgement.unit, judgement.family, judgement.sample, value)


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
    judgements: dict[int, list[JudgedItem]] = {pk: [] for pk in wanted}
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
        judgements[judging].append(JudgedItem(Metric(metric), unit, family, sample, item, label, value))
    return {pk: rows_of(found) for pk, found in judgements.items()}


COLUMNS = tuple(f"{JUDGED}{measure}" for measure in (*LEVEL_1, *LEVEL_2))
PLACES = {name: place for place, name in enumerate(COLUMNS)}
OF_LIBRARIES = frozenset(COLUMNS[: len(LEVEL_1)])


@dataclass(frozen=True, slots=True)
class ChosenJudge(Shaped):
    """The judge whose scores are shown, and its passes over the runs. `other_judges`: how many more judged them."""

    model: str
    prompts: str
    repeat: int
    passes: tuple[Judging, ...]
    other_judges: int = 0
    retests: Mapping[str, float] = field(default_factory=dict)  # column -> variance, where it was asked again

    @property
    def stand_ins(self) -> frozenset[StandIn]:
        return join_stand_ins(self.passes)

    @property
    def is_scripted(self) -> bool:
        return any(each.scripted for each in self.passes)

    def say(self, judged: int, runs: int) -> str:
        """Return one sentence, for every place that shows its scores. `judged` and `runs`: of the runs shown."""
        name = f"{self.model} (scripted: its scores say nothing)" if self.is_scripted else self.model
        which = f", prompts {self.prompts}" + (f", pass {self.repeat}" if self.repeat > 1 else "")
        others = f" {self.other_judges} more judged them too." if self.other_judges else ""
        again = ""
        if self.retests:
            spread = fmean(self.retests.values()) ** 0.5
            again = f" Asked again it differs from itself by {spread:.1f} (SD, of 100); no interval says less."
        return f"Judged by {name}{which}: {judged} of {plural(runs, 'run')}.{others}{again}"

    json_shape = JsonShape("model prompts repeat scripted=is_scripted other_judges")


def choose_judge(runs: Iterable[Run], as_of: datetime | None) -> ChosenJudge | None:
    """Return the judge to show, None where nobody judged any of these runs. One query."""
    judges: dict[tuple[str, str, str, int], list[Judging]] = defaultdict(list)
    for judging in _list_passes([run.pk for run in runs], as_of):
        judges[judging.model, judging.model_version, judging.prompt_version, judging.repeat].append(judging)
    if not judges:
        return None

    def rank(passes: Sequence[Judging]) -> tuple[int, bool, int, datetime]:
        return len(passes), not passes[0].scripted, -passes[0].repeat, max(each.started_at for each in passes)

    passes = max(judges.values(), key=rank)
    first = passes[0]
    return ChosenJudge(first.model, first.prompt_version, first.repeat, tuple(passes), len(judges) - 1)


def read_retests(judge: ChosenJudge, as_of: datetime | None) -> ChosenJudge:
    """Add how much its scores of one thing vary from pass to pass (n - 1, mean over what was asked again). One query,
    and another where anything was."""
    passes = _list_passes([each.run_id for each in judge.passes], as_of, judge)
    if len({each.repeat for each in passes}) < 2:
        return judge
    rows = read_judged_rows(passes, as_of)
    values: dict[str, dict[object, list[float]]] = defaultdict(lambda: defaultdict(list))
    for judging in passes:
        for row in rows[judging.pk]:
            values[f"{JUDGED}{row.measure}"][judging.run_id, row.unit].append(row.value)
    several = {name: [each for each in units.values() if len(each) > 1] for name, units in values.items()}
    return replace(judge, retests={name: fmean(map(variance, found)) for name, found in several.items() if found})


def find_passes(judge: ChosenJudge, runs: Iterable[Run], as_of: datetime | None) -> ChosenJudge:
    """Return the same judge with its passes over these runs instead. One query."""
    found = _list_passes([run.pk for run in runs], as_of, judge)
    return replace(judge, passes=tuple(each for each in found if each.repeat == judge.repeat))


def _list_passes(runs: Collection[int], as_of: datetime | None, judge: ChosenJudge | None = None) -> list[Judging]:
    """List the passes over these runs, of all judges or of one, with repeats. One query."""
    found = Judging.objects.filter(run__in=runs).order_by("pk")
    if judge is not None:
        first = judge.passes[0]
        versions = {"model_version": first.model_version, "prompt_version": first.prompt_version}
        found = found.filter(model=first.model, **versions)
    return list(found if as_of is None else found.filter(started_at__lte=as_of))


@dataclass(frozen=True, slots=True, eq=False)
class JudgedOutcomes(Outcomes):
    """The trials of a judged run. `scores` [n, COLUMNS]: 0..100, NaN where the judge gave none."""

    scores: Floats

    def column(self, name: str) -> Floats:
        place = PLACES.get(name)
        return Outcomes.column(self, name) if place is None else self.scores[:, place]

    def judgeable(self, name: str) -> Mask:
        """Mark [n]: for library scores the trials with a skill in their library."""
        if name not in OF_LIBRARIES:
            return np.ones(len(self), dtype=bool)
        return np.asarray((self.library >= 0) & (self.skills_mounted != 0))

    def without(self, trials: Collection[int]) -> Outcomes:
        blank = cast(JudgedOutcomes, Outcomes.without(self, trials))
        gone = np.isin(blank.trial, list(trials))
        return with_scores(blank, np.where(gone[:, np.newaxis], np.nan, blank.scores))


def with_scores(outcomes: Outcomes, scores: Floats) -> JudgedOutcomes:
    columns = {field.name: getattr(outcomes, field.name) for field in fields(Outcomes)}
    return JudgedOutcomes(**columns, scores=scores)


def with_judgements(
    outcomes: Mapping[int, Outcomes], judge: ChosenJudge | None, as_of: datetime | None
) -> dict[int, Outcomes]:
    """Return run pk -> its trials, with this judge's scores where it judged the run. Two queries, or none."""
    found = dict(outcomes)
    if judge is None:
        return found
    rows = read_judged_rows(judge.passes, as_of)
    attempts = {row.unit[3] for each in rows.values() for row in each} - {None}
    trials = dict(Attempt.objects.filter(pk__in=attempts, counts=True).values_list("pk", "trial_id"))
    for judging in judge.passes:
        own = found[judging.run_id]
        found[judging.run_id] = with_scores(own, _score_trials(own, rows[judging.pk], trials))
    return found


def _score_trials(outcomes: Outcomes, rows: Iterable[JudgedRow], trials: Mapping[int, int]) -> Floats:
    """Return [n, COLUMNS]: of a library the mean over its skills, for each trial of the task that received it.
    `trials`: attempt -> trial, for attempts that count."""
    libraries: dict[tuple[int, int], dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    attempts: dict[int, dict[int, list[float]]] = defaultdict(lambda: defaultdict(list))
    for row in rows:
        place = PLACES.get(f"{JUDGED}{row.measure}")
        task, library, _, attempt = row.unit
        if place is None:
            continue
        if attempt is not None and attempt in trials:
            attempts[trials[attempt]][place].append(row.value)
        elif library is not None:
            libraries[task, library][place].append(row.value)
    scores = np.full((len(outcomes), len(COLUMNS)), np.nan)
    places = zip(outcomes.trial.tolist(), outcomes.task.tolist(), outcomes.library.tolist(), strict=True)
    for number, (trial, task, library) in enumerate(places):
        for place, values in (*attempts.get(trial, {}).items(), *libraries.get((task, library), {}).items()):
            scores[number, place] = fmean(values)
    return scores
