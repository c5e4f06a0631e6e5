"""Shares of a population from a coded sample of it, with the two intervals they can have. Pure numpy.

Every unit has the weight 1 / (probability that it was taken). The share is Hajek's (1971), a ratio of two weighted
sums, which needs no knowledge of the population's size and never leaves 0..1. Its variance comes from linearising that
ratio (Saerndal, Swensson & Wretman 1992, section 5.7). A domain (one condition, say) keeps all units of the sample and
counts those outside it as zero, because a domain's own size is random too (the same, section 10.3).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from benchapp.stats.inference.interval import LEVEL, TAIL, ZERO, Floats, Interval, Ints
from benchapp.stats.inference.shares import MIN_FOR_INTERVAL, Z_95

Flags = NDArray[np.bool_]
MIN_CLUSTERS = 6  # with fewer the spread between clusters is hardly known; lab/review_coverage.py shows it
ANEW = "Wilson on the effective number of units; clusters as drawn anew"
SAMPLING = "Wilson on the effective number of units; strata, finite population"


@dataclass(frozen=True, slots=True, eq=False)
class CodedSample:
    """The coded units. weights: [n], > 0; strata, clusters: [n], numbers from 0; sizes: [strata], units of the
    population in each stratum."""

    weights: Floats
    strata: Ints
    clusters: Ints
    sizes: Floats

    def __len__(self) -> int:
        return len(self.weights)


@dataclass(frozen=True, slots=True)
class Share:
    """The part of a population that carries a code, 0..1, or scaled by `times`.

    k: units that carry it, a fraction where reviewers of one unit disagree; n: units coded; both unweighted. interval:
    what other clusters of the same kind would show; sampling: what coding every unit of this population would. note:
    why `interval` is missing.
    """

    value: float | None
    k: float
    n: int
    clusters: int
    interval: Interval | None = None
    sampling: Interval | None = None
    note: str = ""

    @property
    def shown(self) -> float | None:
        """`value` where it is more useful than k of n: from ten units on. All pages, charts and tables use this."""
        return self.value if self.n >= MIN_FOR_INTERVAL else None

    def times(self, factor: float | None) -> Share:
        """Return the share per unit of a larger whole. `factor`: the population's part of it; None: unknown."""
        if factor is None:
            return replace(self, value=None, interval=None, sampling=None, note="the total is unknown")
        value = None if self.value is None else self.value * factor
        return replace(
            self, value=value, interval=_scale(self.interval, factor), sampling=_scale(self.sampling, factor)
        )


def shares(sample: CodedSample, carried: Floats, domain: Flags | None = None) -> list[Share]:
    """Return one share per column of `carried` ([n, m]: how far each unit carries each code, 0..1), over `domain`.

    Intervals are given from ten units on; the one over clusters from six clusters on.
    """
    inside = np.ones(len(sample), dtype=bool) if domain is None else domain
    n, m = int(inside.sum()), carried.shape[1]
    clusters = len(np.unique(sample.clusters[inside]))
    counted = carried[inside].sum(axis=0)
    if not n:
        return [Share(None, 0.0, 0, 0, note="nothing coded") for _ in range(m)]
    weights = np.where(inside, sample.weights, 0.0)
    total = weights.sum()
    values = np.clip(weights @ carried / total, 0.0, 1.0)
    parts = weights[:, np.newaxis] * (carried - values) / total
    note = _why_none(n, clusters)
    between = _between_clusters(sample, parts, clusters)
    within, most = _within_strata(sample, parts, inside)
    strata = len(np.unique(sample.strata[inside]))
    return [
        Share(
            float(value),
            float(counted[place]),
            n,
            clusters,
            None if note else _interval(value, between[place], count_effective(weights), clusters - 1, ANEW),
            _interval(value, within[place], most, n - strata, SAMPLING) if n >= MIN_FOR_INTERVAL else None,
            note,
        )
        for place, value in enumerate(values)
    ]


def _why_none(n: int, clusters: int) -> str:
    if n < MIN_FOR_INTERVAL:
        return f"{n} coded, too few for an interval"
    if clusters < MIN_CLUSTERS:
        return f"{clusters} {'cluster' if clusters == 1 else 'clusters'}, too few for an interval"
    return ""


def _between_clusters(sample: CodedSample, parts: Floats, clusters: int) -> Floats:
    """Return variances of m shares over newly drawn clusters: from the sums of the linearised values of each, which add
    up to 0. Strata reduce nothing here, so it is too wide where they differ."""
    sums = _sums(parts, sample.clusters, int(sample.clusters.max()) + 1)
    return np.asarray(np.square(sums).sum(axis=0) * clusters / max(clusters - 1, 1))


def _within_strata(sample: CodedSample, parts: Floats, inside: Flags) -> tuple[Floats, float]:
    """Return variances of m shares over other units of the same population, and the largest number of independent units
    that can be claimed: that for an equal share in all strata. A stratum of few units may show no spread at all by
    luck; infinite where every unit was taken."""
    strata = len(sample.sizes)
    taken = np.bincount(sample.strata, minlength=strata).astype(float)
    means = _sums(parts, sample.strata, strata) / np.maximum(taken, 1)[:, np.newaxis]
    squares = _sums(np.square(parts - means[sample.strata]), sample.strata, strata)
    left = np.clip(1 - taken / np.maximum(sample.sizes, taken), 0.0, 1.0)
    variances = (left * taken / np.maximum(taken - 1, 1)) @ squares
    weight = np.bincount(sample.strata[inside], sample.weights[inside], minlength=strata)
    found = np.bincount(sample.strata[inside], minlength=strata)
    lost = float((np.square(weight / weight.sum()) * left / np.maximum(found, 1)).sum())
    return np.asarray(variances), 1 / lost if lost > 0 else np.inf


def _sums(values: Floats, groups: Ints, count: int) -> Floats:
    """Sum [n, m] -> [count, m]."""
    sums = np.zeros((count, values.shape[1]))
    np.add.at(sums, groups, values)
    return sums


def count_effective(weights: Floats) -> float:
    """Return how many units of equal weight carry as much information (Kish 1965, section 11.7)."""
    return float(weights.sum() ** 2 / np.square(weights).sum())


def _interval(value: float, variance: float, most: float, freedom: int, method: str) -> Interval:
    """Return Wilson's interval for the number of independent units with this variance (Korn & Graubard 1998; Franco et
    al. 2019), widened for few degrees of freedom. Never more than `most`: units that all agree show no variance."""
    if np.isinf(most):
        return Interval(float(value), float(value), LEVEL, "every unit was coded")
    spread = value * (1 - value)
    number = spread / variance if spread > ZERO and variance > ZERO * spread else most
    t = float(stdtrit(max(freedom, 1), 1 - TAIL))
    low, high = wilson_of_share(float(value), max(1.0, min(number, most) * (Z_95 / t) ** 2))
    return Interval(low, high, LEVEL, method)


def wilson_of_share(p: float, n: float) -> tuple[float, float]:
    """Return Wilson's score interval for a share p of n units, where n is any number from 1 on."""
    scale = 1 + Z_95**2 / n
    middle = (p + Z_95**2 / (2 * n)) / scale
    half = Z_95 * np.sqrt(p * (1 - p) / n + Z_95**2 / (4 * n * n)) / scale
    return max(0.0, float(middle - half)) if p > 0 else 0.0, min(1.0, float(middle + half)) if p < 1 else 1.0


def _scale(interval: Interval | None, factor: float) -> Interval | None:
    return None if interval is None else replace(interval, low=interval.low * factor, high=interval.high * factor)


def horvitz_thompson(sample: CodedSample, carried: Floats) -> Floats:
    """Estimate the units of the population that carry each code, [m]: the sum of the weights of those that do (Horvitz
    & Thompson 1952)."""
    return np.asarray(sample.weights @ carried)
