"""What one cell of a heatmap of differences says: own minus other on the same tasks, without a test."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchapp.stats.comparing.comparison import GroupComparison
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.shares import half_up
from benchapp.stats.inference.sides import Paired, pair
from benchapp.stats.metrics.amounts import render_signed
from benchapp.stats.metrics.metric import TrialMetric


@dataclass(frozen=True, slots=True)
class GainSide:
    """Mean over tasks, weighed as the metric does; sum of the task means of every replicate, and how many these are."""

    value: float
    total: float
    of: int

    def write(self, metric: TrialMetric) -> str:
        """ "18/30" for a share, else the mean with its unit."""
        if metric.is_share and metric.macro:
            return f"{half_up(100 * self.value, 1)} %"
        if metric.is_share:
            return f"{self.total:g}/{self.of}" if self.total == round(self.total) else f"{self.total:.1f}/{self.of}"
        return f"{self.value:,.4g} {metric.unit.value}"


@dataclass(frozen=True, slots=True)
class Gain:
    """`tasks`: scored in every replicate of both sides. `replicates`: own, other."""

    own: GainSide
    other: GainSide
    tasks: int
    replicates: tuple[int, int]

    @property
    def delta(self) -> float:
        """In the metric's unit; shares 0..1."""
        return self.own.value - self.other.value


def pair_groups(comparison: GroupComparison, group: Group, other: Group, metric: TrialMetric) -> Paired | None:
    """The two sides lined up on the tasks both were scored on; None where they share none."""
    return pair(*comparison.sides(group, other, metric), by_family=metric.macro)


def gain_of(paired: Paired, mask: NDArray[np.bool_] | None = None) -> Gain:
    """Over all n tasks of the pair, or over those the mask [n] keeps: at least one."""
    kept = np.ones(len(paired.task), dtype=bool) if mask is None else mask
    weight = paired.weight[kept] / paired.weight[kept].sum()
    sides = [
        GainSide(float((side[:, kept] @ weight).mean()), float(side[:, kept].sum()), side[:, kept].size)
        for side in (paired.own, paired.other)
    ]
    return Gain(sides[0], sides[1], int(kept.sum()), paired.replicates)


def difference_unit(metric: TrialMetric) -> str:
    """Of a difference."""
    return "pp" if metric.is_share else metric.unit.value


def scale_value(metric: TrialMetric, value: float) -> float:
    """A share in percent, else as it is; free of the noise behind the tenth digit."""
    return round(100 * value if metric.is_share else value, 10)


def write_difference(metric: TrialMetric, delta: float) -> str:
    """For inside a cell."""
    value = scale_value(metric, delta)
    digits = 1 if metric.is_share or 10 <= abs(value) < 1000 else 0 if abs(value) >= 1000 else 2
    return render_signed(value, digits)
