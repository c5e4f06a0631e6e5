"""Families drawn again while the libraries stay: what the spread between families alone would say."""

from __future__ import annotations

from functools import lru_cache

import numpy as np

from benchapp.stats.inference.interval import TAIL, Floats, Interval, Ints

RESAMPLES = 2_000
SEED = 20_011
LABEL = "family bootstrap, conditional on these libraries"


def family_bootstrap(delta: Floats, cluster: Ints, family: Ints, weight: Floats | None = None) -> Interval | None:
    """Percentile interval of the mean of `delta` [n] when families [n] are drawn again inside their clusters.

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
