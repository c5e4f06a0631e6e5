"""What needs no judge: the paper's skill usage rate (level 2) and task outcome (level 3: accuracy over all, seed and
held-out instances, and tokens).

Computed by the metrics that comparisons use (`benchapp.stats.metrics.catalogue`), so pages agree.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from benchapp.judges.judged_units import PHASES
from benchapp.models import Run
from benchapp.stats.comparing.columns import outcomes_of
from benchapp.stats.inference.shares import Rate
from benchapp.stats.judged.judged_rows import JudgedRow
from benchapp.stats.metrics.catalogue import SKILLLEARNBENCH
from benchapp.stats.metrics.metric import TrialMetric
from benchapp.stats.metrics.outcomes import Outcomes

KEYS = (
    "skill-usage-rate",
    "accuracy",
    "accuracy-seed",
    "accuracy-held-out",
    "solving-tokens",
)  # of level 2, then of level 3
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
