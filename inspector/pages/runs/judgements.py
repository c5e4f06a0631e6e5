"""Everything the page of judgements shows of one pass: a table by task, the parts, how questions ended, how far it spreads."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from django.db.models import Count, QuerySet

from benchapp.judges.judge_scores import contradictions, count_retried, endings
from benchapp.judges.judged_measures import LEVEL_1, LEVEL_2, MEASURES, PARTS, Measure
from benchapp.judges.level_three import COLUMNS, MeasuredOutcome, outcome_rows, outcomes_by_family
from benchapp.judges.robustness import Spread, over_replicates, over_samples, replicates_of
from benchapp.models import Family, JudgedUnit, Judging, Run, Trial
from benchapp.models.judgements import UNUSABLE
from benchapp.record.json_shape import JsonShape
from benchapp.stats.judged.aggregation import JudgedRow, Mean, by_measure, mean_over_tasks
from benchapp.stats.judged.judged_rows import read_judged_rows
from runner.judging.metrics import REFERENCES, SCORED, Metric

PER_PAGE = 40
MAX_REASON = 600
NO_FAMILY = "tasks without a family"
ASKED_METRICS = (*SCORED, *REFERENCES)
STATUS_WORDS = {
    "asked": "not answered yet",
    "ok": "ok",
    "partial": "partial",
    "malformed": "no JSON",
    "prose": "words around the JSON",
    "wrong-type": "wrong type",
    "out-of-range": "outside the scale",
    "empty": "empty",
    "refused": "refused",
    "failed": "no reply",
    "no-points": "no key points",
    "no-reference": "nothing to compare it with",
    "no-trajectory": "no trajectory",
}


@dataclass(frozen=True, slots=True)
class TaskLine:
    """A row of the table: the measures of levels 1 and 2 in their order, then what needs no judge. family -1: of none."""

    name: str
    family: int | None
    means: tuple[Mean | None, ...]
    outcomes: tuple[MeasuredOutcome, ...]


@dataclass(frozen=True, slots=True)
class Ending:
    """How the questions of one metric ended."""

    metric: Metric
    total: int
    counts: tuple[tuple[str, str, int], ...]  # status, its words, units
    contradictions: int

    @property
    def unusable(self) -> int:
        return sum(count for status, _, count in self.counts if status in UNUSABLE)


@dataclass(frozen=True, slots=True)
class SpreadLine:
    """One measure's spread over samples and over replicates."""

    name: str
    samples: Spread | None
    replicates: Spread | None

    @property
    def both(self) -> tuple[Spread | None, Spread | None]:
        return self.samples, self.replicates


@dataclass(frozen=True)
class JudgementsPage:
    """One judging pass of a run, read part by part as the page asks."""

    run: Run
    judging: Judging
    query: Mapping[str, str]
    closed: QuerySet[Trial]

    @cached_property
    def rows(self) -> Sequence[JudgedRow]:
        return read_judged_rows([self.judging])[self.judging.pk]

    @cached_property
    def lines(self) -> list[TaskLine]:
        """Task by task in the order of the suite."""
        by_family, _ = self._outcomes
        pks = {row.family if row.family is not None else -1 for row in self.rows} | set(by_family)
        families = {family.pk: family for family in Family.objects.filter(pk__in=pks)}
        order = sorted(pks, key=lambda pk: (families[pk].ordinal, families[pk].key) if pk in families else (10**9, ""))
        return [
            TaskLine(
                families[pk].name if pk in families else NO_FAMILY,
                pk,
                self._means([row for row in self.rows if (row.family if row.family is not None else -1) == pk]),
                tuple(by_family.get(pk, ())),
            )
            for pk in order
        ]

    @cached_property
    def whole(self) -> TaskLine:
        return TaskLine("mean over tasks", None, self._means(self.rows), tuple(self._outcomes[1]))

    @cached_property
    def parts(self) -> list[tuple[Measure, Mean | None]]:
        found = by_measure(self.rows)
        return [(measure, mean_over_tasks(found.get(measure.key, ()))) for measure in PARTS]

    @cached_property
    def endings(self) -> list[Ending]:
        found, against = endings(self.judging), contradictions(self.judging)
        return [
            Ending(metric, found[metric].total(), _count_statuses(found[metric]), against.get(metric, 0))
            for metric in ASKED_METRICS
            if metric in found
        ]

    @property
    def unusable(self) -> int:
        return sum(each.unusable for each in self.endings)

    @cached_property
    def retried(self) -> int:
        return count_retried(self.judging)

    @cached_property
    def spreads(self) -> list[SpreadLine]:
        """Of what was sampled or rerun more than once."""
        samples = over_samples([*self.rows, *outcome_rows(self.run)])
        alike = read_judged_rows(replicates_of(self.judging))
        replicates = over_replicates(alike) if len(alike) > 1 else {}
        named = [(str(measure.key), measure.name) for measure in MEASURES] + [("accuracy", "accuracy")]
        lines = [
            SpreadLine(name, _keep_repeated(samples.get(key)), _keep_repeated(replicates.get(key)))
            for key, name in named
        ]
        return [line for line in lines if line.samples or line.replicates]

    # --- the questions, one by one ------------------------------------------------------------------------------

    @property
    def metric(self) -> str:
        asked = self.query.get("metric", "")
        return asked if asked in set(ASKED_METRICS) else ""

    @property
    def status(self) -> str:
        asked = self.query.get("status", "")
        return asked if asked in STATUS_WORDS else ""

    @property
    def family(self) -> int | None:
        asked = self.query.get("family", "")
        return int(asked) if asked.isdecimal() and len(asked) < 18 else None

    @cached_property
    def units(self) -> QuerySet[JudgedUnit]:
        """What is asked for, with what a line of it says. Trials that are closed to this person are left out."""
        found = self.judging.units.exclude(attempt__trial__in=self.closed)
        if self.metric:
            found = found.filter(metric=self.metric)
        if self.status:
            found = found.filter(status=self.status)
        if self.family is not None:
            found = found.filter(task__family=self.family)
        related = ("task__family", "attempt__trial", "source__judging__run")
        return (
            found.select_related(*related)
            .prefetch_related("judgements")
            .annotate(tries_total=Count("tries"))
            .order_by("pk")
        )

    @cached_property
    def _outcomes(self) -> tuple[Mapping[int, list[MeasuredOutcome]], list[MeasuredOutcome]]:
        return outcomes_by_family(self.run)

    def _means(self, rows: Sequence[JudgedRow]) -> tuple[Mean | None, ...]:
        found = by_measure(rows)
        return tuple(mean_over_tasks(found.get(measure.key, ())) for measure in MEASURES)


def _keep_repeated(spread: Spread | None) -> Spread | None:
    return spread if spread is not None and spread.n > 1 else None


def _count_statuses(found: Counter[str]) -> tuple[tuple[str, str, int], ...]:
    return tuple((status, words, found[status]) for status, words in STATUS_WORDS.items() if found[status])


def _ending_twin(ending: Ending) -> dict[str, object]:
    return {**ENDING.read(ending), **{status: count for status, _, count in ending.counts}}


def _line_twin(line: TaskLine) -> dict[str, object]:
    judged = {str(measure.key): mean and MEAN.read(mean) for measure, mean in zip(MEASURES, line.means, strict=True)}
    outcomes = {each.metric.key: OUTCOME.read(each) for each in line.outcomes}
    return {"task": line.name, **judged, **outcomes}


MEAN = JsonShape("value", "rows", "tasks")
OUTCOME = JsonShape("mean", "*rate")
ENDING = JsonShape("metric", "questions=total", "contradictions")
SPREAD = JsonShape("n", "mean", "sd")
SPREAD_LINE = JsonShape(
    "measure=name",
    ("samples", lambda line: line.samples and SPREAD.read(line.samples)),
    ("replicates", lambda line: line.replicates and SPREAD.read(line.replicates)),
)
TABLES = JsonShape(
    ("tasks", lambda page: [_line_twin(line) for line in page.lines]),
    ("mean_over_tasks", lambda page: _line_twin(page.whole)),
    ("parts", lambda page: {str(measure.key): mean and MEAN.read(mean) for measure, mean in page.parts}),
    ("endings", lambda page: [_ending_twin(ending) for ending in page.endings]),
    "asked_again=retried",
    ("spread", lambda page: SPREAD_LINE.read_all(page.spreads)),
)
"""Of a JudgementsPage."""
HEADS = {"level_1": LEVEL_1, "level_2": LEVEL_2, "measured": COLUMNS}
"""Of the measured ones the first is of level 2, the others are of level 3."""
