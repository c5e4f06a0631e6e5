"""The cost of one passed trial: a ratio of two means, with its interval."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import exp

from benchapp.record.json_shape import Shaped
from benchapp.stats.inference.interval import Interval
from benchapp.stats.inference.model import claim_run, estimate_difference
from benchapp.stats.inference.sides import TaskMeans, pair


@dataclass(frozen=True, slots=True)
class SolvedCost(Shaped):
    """per_trial, per_solved: in the unit of what was spent, on `tasks` whose trials all report it. interval: of
    per_solved, None with too little data."""

    per_trial: float
    per_solved: float
    tasks: int
    interval: Interval | None


def divide_by_passes(
    spent: Sequence[TaskMeans], passed: Sequence[TaskMeans], *, by_family: bool = False
) -> SolvedCost | None:
    """Divide spent by passed: replicates of one condition, in one order. None where either is zero. A ratio's logarithm
    varies like the difference of its parts over their means (delta method), and the parts of a cell are a pair: the
    error is that of any difference of pairs, from replicates within episodes."""
    paired = pair(spent, passed, by_family=by_family)
    if paired is None:
        return None
    top, bottom = paired.cells(paired.own), paired.cells(paired.other)
    per_trial, share = float(top.mean()), float(bottom.mean())
    if not per_trial or not share:
        return None
    estimate = estimate_difference(top / per_trial, bottom / share, 0.0, is_block=True)
    claim = claim_run(estimate) if estimate else None
    ratio, interval = per_trial / share, None
    if claim and claim.error:
        half = claim.half_width()
        interval = Interval(ratio * exp(-half), ratio * exp(half), method="t of the logarithm")
    return SolvedCost(per_trial, ratio, len(paired.task), interval)
