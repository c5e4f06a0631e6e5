"""Tasks, corpora or families drawn again: percentile intervals that describe and decide nothing.

Tasks and corpora: the interval that SkillGenBench prints beside pass@3 (section 4.2, appendix A.3). Families while the
libraries stay: what the spread between families alone would say.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from benchapp.stats.inference.interval import TAIL, Floats, Interval, Ints

LABEL = "family bootstrap, conditional on these libraries"
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


def family_bootstrap(delta: Floats, cluster: Ints, family: Ints, weight: Floats | None = None) -> Interval | None:
    """Percentile interval of the mean of `delta` [n], in its unit, when families (keys, [n]) are drawn again in their clusters.

    cluster: [n], numbered from 0 without a gap; a family that several clusters name is one in each. weight: of each task
    in the mean, [n]; None: all the same.

    From a cluster with h families h - 1 are drawn (McCarthy and Snowden 1985; Rao and Wu 1988), which makes the
    variance unbiased for few families. The luck of the libraries is held fixed, so this is always too narrow for
    "would it happen again". None where a cluster has fewer than two families.
    """
    named, numbers = np.unique(family, return_inverse=True)
    families = np.unique(cluster * len(named) + numbers, return_inverse=True)[1]  # a family counts in each cluster
    weight = np.ones(len(delta)) if weight is None else weight
    sizes = np.bincount(families, weights=weight)
    owner = np.zeros(len(sizes), dtype=np.int64)
    owner[families] = cluster
    if np.bincount(owner).min() < 2:
        return None
    drawn = family_draws(tuple(owner.tolist()), tuple(sizes.tolist())) @ np.bincount(families, weights=weight * delta)
    low, high = np.quantile(drawn, (TAIL, 1 - TAIL))
    return Interval(float(low), float(high), method=LABEL)


@lru_cache(maxsize=16)
def family_draws(owner: tuple[int, ...], sizes: tuple[float, ...]) -> Floats:
    """Weights of each family's total in a resampled mean over all tasks: [RESAMPLES, families].

    owner: cluster of each family; sizes: its number of tasks, or what they weigh together. A cluster keeps its share of the tasks.
    """
    rng = np.random.default_rng(SEED)
    owners, tasks = np.asarray(owner), np.asarray(sizes, dtype=float)
    weights = np.zeros((RESAMPLES, len(owners)))
    for cluster in np.unique(owners):
        members = np.flatnonzero(owners == cluster)
        counts = rng.multinomial(len(members) - 1, np.full(len(members), 1 / len(members)), size=RESAMPLES)
        share = tasks[members].sum() / tasks.sum()
        weights[:, members] = share * counts / (counts @ tasks[members])[:, np.newaxis]
    return weights
