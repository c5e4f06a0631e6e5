"""Resample tasks or corpora: SkillGenBench's percentile intervals next to pass@3 (section 4.2, appendix A.3)."""

from __future__ import annotations

import numpy as np

from benchapp.stats.inference.interval import TAIL, Floats, Interval, Ints

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
