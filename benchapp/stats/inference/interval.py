"""An interval and the common level; Student's for the mean of replicates,
and percentiles of resampled tasks or corpora."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchapp.record.json_shape import Shaped
from benchapp.stats.numerics import t_value

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEVEL = 0.95  # every interval here; every test is two-sided at 1 - LEVEL
TAIL = (1 - LEVEL) / 2
ZERO = 1e-12  # of the largest value: shares are fractions, whose differences have to be 0 where they are


@dataclass(frozen=True, slots=True)
class Interval(Shaped):
    """Ends in the unit of the metric (shares: -1..1 for a difference), with the method behind them."""

    low: float
    high: float
    level: float = LEVEL
    method: str = ""

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


def mean_interval(means: Floats) -> Interval | None:
    """Return Student's t of the mean of replicate means [r], in the metric's unit; None below two, and without spread.

    It covers another round of learning on these tasks. Do not read a difference between two groups from two of these.
    """
    if len(means) < 2 or float(np.ptp(means)) <= ZERO:
        return None
    half = float(-t_value(len(means) - 1, TAIL) * means.std(ddof=1) / np.sqrt(len(means)))
    middle = float(means.mean())
    return Interval(middle - half, middle + half, method="t over replicate means")


def share_interval(shares: Sequence[float]) -> tuple[float, float] | None:
    """Return the same for one share per replicate, cut to 0..1."""
    found = mean_interval(np.array(shares, dtype=float))
    return (max(0.0, found.low), min(1.0, found.high)) if found else None


RESAMPLES = 2_000  # SkillGenBench's B
SEED = 20_011  # any number will do as long as it never changes
MIN_CLUSTERS = 30  # below, an interval from drawing whole clusters covers less than 93 %: 85 of 5, 90 of 10, 92 of 20


def by_task(values: Floats) -> Interval | None:
    """Return the percentile interval of the mean of one value per task, [n], when tasks are drawn with replacement.

    It treats tasks as independent, and does not predict another learning run. None below two tasks, and where all
    values are equal: resampling them shows nothing else.
    """
    return _percentile(np.asarray(values, dtype=float), np.ones(len(values)), "tasks")


def by_cluster(values: Floats, cluster: Ints) -> Interval | None:
    """Return the same when whole clusters (corpora) are drawn with their tasks. `values`, `cluster` (keys): [n].

    A resample's mean is over the tasks drawn, so large clusters weigh more. None below two clusters or without spread.
    """
    _, place = np.unique(cluster, return_inverse=True)
    return _percentile(np.bincount(place, weights=values).astype(float), np.bincount(place).astype(float), "corpora")


def _percentile(totals: Floats, sizes: Floats, drawn: str) -> Interval | None:
    """Return the interval. `totals` and `sizes`: of the m units that are drawn, [m]. The count of each kind of unit in
    m draws is multinomial, so no array is as large as a resample."""
    kinds, times = np.unique(np.stack((totals, sizes), axis=1), axis=0, return_counts=True)
    units = len(totals)
    if units < 2 or np.ptp(kinds[:, 0] / kinds[:, 1]) == 0:
        return None
    counts = np.random.default_rng((SEED, units)).multinomial(units, times / units, size=RESAMPLES)
    means = (counts @ kinds[:, 0]) / (counts @ kinds[:, 1])
    low, high = np.quantile(means, (TAIL, 1 - TAIL))
    return Interval(float(low), float(high), method=f"bootstrap over {drawn}, percentile, {RESAMPLES:,} resamples")
