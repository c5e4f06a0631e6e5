"""What a page of judgements shows: the measures, outcomes that need no judge, and how the questions ended.

Outcomes are the paper's skill usage rate (level 2) and task outcome (level 3: accuracy over all, seed and held-out
instances, and tokens), computed by the metrics that comparisons use, so that pages agree.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np
from django.db.models import Count

from benchapp.judges.judge_passes import PHASES
from benchapp.models import JudgedUnit, Judgement, Judging, Run
from benchapp.stats.comparing.columns import outcomes_of
from benchapp.stats.inference.shares import Rate
from benchapp.stats.judged import ALIGNMENT, JudgedRow
from benchapp.stats.metrics.catalogue import SKILLLEARNBENCH
from benchapp.stats.metrics.metric import TrialMetric
from benchapp.stats.metrics.outcomes import Outcomes
from runner.judging.metrics import CONTRADICTION, SCALES, Metric


@dataclass(frozen=True, slots=True)
class Measure:
    key: str
    name: str
    meaning: str


LEVEL_1 = (
    Measure(Metric.COVERAGE, "coverage", "key points that the library teaches, of all judged"),
    Measure(Metric.EXECUTABILITY, "executability", "mean of its four scores, per skill"),
    Measure(Metric.SAFETY, "safety", "mean of its six scores, per skill; higher is safer"),
)
LEVEL_2 = (
    Measure(ALIGNMENT, "alignment", "mean of order, recall and completeness, per attempt that has all three"),
    Measure(Metric.RECALL, "recall", "key points that the attempt did, of all judged"),
    Measure(Metric.ORDER, "order", "steps in a workable order"),
    Measure(Metric.COMPLETENESS, "completeness", "brought to a conclusion"),
    Measure(Metric.USAGE, "usage", "skills of the library that were used, of all in it; no judge"),
)
PARTS = tuple(
    Measure(f"{metric}.{item}", f"{metric}: {item.replace('_', ' ')}", "one of the scores it is the mean of")
    for metric in (Metric.EXECUTABILITY, Metric.SAFETY)
    for item in SCALES[metric]
)
MEASURES = (*LEVEL_1, *LEVEL_2)
EVERY = tuple(str(measure.key) for measure in (*MEASURES, *PARTS))


# Of level 2, then of level 3.
KEYS = ("skill-usage-rate", "accuracy", "accuracy-seed", "accuracy-held-out", "solving-tokens")
_KNOWN = {metric.key: replace(metric, phases=PHASES) for metric in SKILLLEARNBENCH}
COLUMNS: tuple[TrialMetric, ...] = tuple(_KNOWN[key] for key in KEYS)


@dataclass(frozen=True, slots=True)
class MeasuredOutcome:
    """`mean`: a rate or accuracy 0..1, or tokens. `rate`: the trials behind an accuracy."""

    metric: TrialMetric
    mean: float | None
    rate: Rate | None


def outcomes_by_family(run: Run) -> tuple[Mapping[int, list[MeasuredOutcome]], list[MeasuredOutcome]]:
    """Return family pk -> its outcomes, and those of the whole run. Tasks without a family are under -1."""
    outcomes = outcomes_of([run])[run.pk]
    families = {int(pk): _measure(outcomes.where(outcomes.family == pk)) for pk in np.unique(outcomes.family)}
    return families, _measure(outcomes)


def outcome_rows(run: Run) -> list[JudgedRow]:
    """Return one row per scored trial, as judged values have, so that accuracy is spread over samples too."""
    outcomes = outcomes_of([run])[run.pk]
    mask = _KNOWN["accuracy"].mask(outcomes) & ~np.isnan(outcomes.success)
    picked = outcomes.where(mask)
    columns = (picked.trial, picked.task, picked.family, picked.sample, picked.success)
    return [
        JudgedRow(
            "accuracy",
            (int(task), None, "", int(trial)),
            int(family) if family >= 0 else None,
            int(sample),
            100 * float(success),
        )
        for trial, task, family, sample, success in zip(*columns, strict=True)
    ]


def _measure(outcomes: Outcomes) -> list[MeasuredOutcome]:
    return [
        MeasuredOutcome(metric, metric.mean(outcomes), metric.rate(outcomes) if metric.is_share else None)
        for metric in COLUMNS
    ]


def endings(judging: Judging) -> dict[Metric, Counter[str]]:
    """Return metric -> status -> questions. One query."""
    found: dict[Metric, Counter[str]] = defaultdict(Counter)
    counted = judging.units.order_by().values_list("metric", "status").annotate(number=Count("pk"))
    for metric, status, number in counted:
        found[Metric(metric)][status] += number
    return found


def contradictions(judging: Judging) -> dict[Metric, int]:
    """Count key points that a library or a trajectory contradicts. They are scored as missing, and reported."""
    found = Judgement.objects.filter(unit__judging=judging, label=CONTRADICTION).order_by()
    return {Metric(metric): n for metric, n in found.values_list("unit__metric").annotate(number=Count("pk"))}


def count_retried(judging: Judging) -> int:
    """Count replies that were unusable and asked again."""
    asked = JudgedUnit.objects.filter(judging=judging).annotate(replies=Count("tries__reply"))
    return sum(number - 1 for number in asked.filter(replies__gt=1).values_list("replies", flat=True))
