"""Tasks or corpora drawn again: the percentile intervals that SkillGenBench prints next to pass@3 (section 4.2, appendix A.3)."""

from __future__ import annotations

import numpy as np

from benchapp.stats.inference.interval import TAIL, Floats, Interval, Ints

RESAMPLES = 2_000  # SkillGenBench's B
SEED = 20_011  # any number will do as long as it stays
MIN_CLUSTERS = 30  # below, an interval from drawing whole clusters covers less than 93 %: 85 of 5, 90 of 10, 92 of 20


def by_task(values: Floats) -> Interval | None:
    """Percentile interval of the mean of one value per task, [n], in its unit, when tasks are drawn with replacement.

    It takes tasks for independent, and says nothing of another learning run. None below two tasks, and where all
    values are equal: drawing them again shows nothing else.
    """
    return _percentile(np.asarray(values, dtype=float), np.ones(len(values)), "tasks")


def by_cluster(values: Floats, cluster: Ints) -> Interval | None:
    """The same when whole clusters (corpora) are drawn with all their tasks: `values` and `cluster` (keys) are [n].

    A resample's mean is over the tasks drawn, so large clusters weigh more. None below two clusters or without spread.
    """
    _, place = np.unique(cluster, return_inverse=True)
    return _percentile(np.bincount(place, weights=values).astype(float), np.bincount(place).astype(float), "corpora")


def _percentile(totals: Floats, sizes: Floats, drawn: str) -> Interval | None:
    """`totals` and `sizes` of the m units that are drawn, [m]. How often units of one kind come up in m draws is
    multinomial over the kinds, so nothing of the size of a resample is held."""
    kinds, times = np.unique(np.stack((totals, sizes), axis=1), axis=0, return_counts=True)
    units = len(totals)
    if units < 2 or np.ptp(kinds[:, 0] / kinds[:, 1]) == 0:
        return None
    counts = np.random.default_rng((SEED, units)).multinomial(units, times / units, size=RESAMPLES)
    means = (counts @ kinds[:, 0]) / (counts @ kinds[:, 1])
    low, high = np.quantile(means, (TAIL, 1 - TAIL))
    return Interval(float(low), float(high), method=f"bootstrap over {drawn}, percentile, {RESAMPLES:,} resamples")
