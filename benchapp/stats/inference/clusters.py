"""Differences between conditions whose tasks share libraries: the cluster (episode) is the unit.

Everything works on `values`, the mean difference of each cluster, and on `shares`, what each of them weighs in the mean
that is reported: [m], sum 1; None: all the same. Values, means and ends of intervals are in the metric's unit (a share:
-1..1). The `_many` functions take k comparisons of m clusters at once, [k, m],
with the same random numbers for all of them: results depend on the data alone.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
from scipy.special import stdtrit

from benchapp.stats.inference.interval import TAIL, ZERO, Floats, Interval, Outcome

ENUMERATED = 14  # clusters up to which every sign pattern is tried: 2 ** 14 of them
FLIPS = 2**14  # patterns beyond that, the observed one among them
KEPT = 64  # clusters up to which the patterns are kept between calls: 8 MB
BLOCK = 2**10  # patterns drawn at a time beyond that
RESAMPLES = 3_999  # with the sample itself 4,000, so that both tails hold whole numbers
SEED = 20_011  # any number will do as long as it stays


def smallest_p(m: int) -> float:
    """The smallest p that the sign-flip test of m clusters can give, whatever comes out."""
    return 2 / _patterns(m)


def clusters_for(level: float) -> int | None:
    """The fewest clusters whose sign-flip test can reach this level; None where no number of them can."""
    return next((m for m in range(1, ENUMERATED + 2) if smallest_p(m) <= level), None)


def _patterns(m: int) -> int:
    return 2**m if m <= ENUMERATED else FLIPS


def sign_flip(values: Floats, shares: Floats | None = None) -> Outcome:
    """Sign-flip test of the weighted mean of cluster differences (Fisher 1935), [m], with the interval that inverts it.

    If both conditions do equally well, swapping them inside a cluster changes nothing but the sign of its value, so
    the observed mean is compared with those of all sign patterns, whatever the weights. The set of true differences that
    the test would not reject lies between two order statistics of the means of all non-empty subsets of the clusters
    (Hartigan 1969, there with equal weights).
    Test and interval agree: p <= 0.05 exactly where the interval excludes 0.

    values: [m], in the metric's unit. shares: [m], sum 1; None: equal.
    The smallest p is 2 / 2**m: 0.031 with 6 clusters, and below 6 a level of 0.05 cannot be reached: no interval.
    """
    m = len(values)
    spread = float(np.ptp(values)) > ZERO * float(np.abs(values).max())
    patterns = _patterns(m)
    low, high, p = sign_flip_many(values[np.newaxis], shares)
    name = f"sign-flip on cluster means, {'all' if m <= ENUMERATED else 'random'} {patterns:,} patterns"
    outcome = Outcome("sign-flip", _mean(values, shares), p=float(p[0]), smallest_p=smallest_p(m))
    if not _count_beyond(patterns):
        return replace(
            outcome, method="none", note=f"{m} {'cluster' if m == 1 else 'clusters'}, too few for an interval"
        )
    if not spread:
        return replace(
            outcome, note="every cluster shows the same difference, so there is no spread to make an interval of"
        )
    return replace(
        outcome,
        interval=Interval(float(low[0]), float(high[0]), method=name),
    )


def sign_flip_many(values: Floats, shares: Floats | None = None) -> tuple[Floats, Floats, Floats]:
    """Low and high ends and two-sided p of k comparisons, [k] each. Ends are infinite below 6 clusters.

    values: [k, m], in the metric's unit, as are the ends. shares: [m], sum 1; None: equal. p: 0..1.
    """
    k, m = values.shape
    scale = np.maximum(np.abs(values).max(axis=1), np.finfo(float).tiny)
    means = _subset_means(values / scale[:, np.newaxis], _relative(m, shares))
    means[np.abs(means) < ZERO] = 0.0
    patterns = means.shape[1] + 1
    above, below = np.count_nonzero(means >= 0, axis=1), np.count_nonzero(means <= 0, axis=1)
    p = np.minimum(1.0, 2 * (1 + np.minimum(above, below)) / patterns)
    out = _count_beyond(patterns)
    if not out:
        return np.full(k, -np.inf), np.full(k, np.inf), p
    ends = np.partition(means, (out - 1, means.shape[1] - out), axis=1)
    return ends[:, out - 1] * scale, ends[:, -out] * scale, p


def _count_beyond(patterns: int) -> int:
    """Count the subset means beyond each end of the interval, that end included; 0 if 95 % cannot be reached."""
    return int(TAIL * patterns + 1e-9)


def _subset_means(values: Floats, relative: Floats) -> Floats:
    """Means of non-empty subsets of the m values of each of k comparisons: [k, m] -> [k, patterns - 1].

    A subset is what a sign pattern flips; the empty one is the observed pattern, which the p value counts by itself.
    """
    m = values.shape[1]
    if m <= KEPT:
        return _means_of(_subsets(m), values, relative)
    rng = np.random.default_rng((SEED, m))
    blocks = [_means_of(_draw_subsets(m, BLOCK, rng), values, relative) for _ in range(FLIPS // BLOCK)]
    return np.concatenate(blocks, axis=1)[:, : FLIPS - 1]


def _means_of(members: Floats, values: Floats, relative: Floats) -> Floats:
    """members [m, patterns], values [k, m], relative [m] -> [k, patterns]."""
    return np.asarray((values * relative) @ members / (relative @ members))


@lru_cache(maxsize=8)
def _subsets(m: int) -> Floats:
    """Members of subsets of m values: 1 or 0, [m, patterns - 1]."""
    if m > ENUMERATED:
        return _draw_subsets(m, FLIPS - 1, np.random.default_rng((SEED, m)))
    return ((np.arange(1, 2**m)[np.newaxis] >> np.arange(m)[:, np.newaxis]) & 1).astype(float)


def _draw_subsets(m: int, count: int, rng: np.random.Generator) -> Floats:
    """The same for `count` random non-empty subsets, [m, count]. m is large enough for 64 spare draws to make up for empty ones."""
    members = rng.integers(0, 2, size=(m, count + 64), dtype=np.int8)
    return members[:, members.any(axis=0)][:, :count].astype(float)


def bootstrap_t(values: Floats, shares: Floats | None = None) -> Outcome:
    """Bootstrap-t interval of the weighted mean of cluster differences, [m] (Efron 1979; Hall 1992, section 3.5).

    Clusters are drawn with replacement; each resample is studentised by its own spread, which keeps the interval
    near the truth for skewed values. The p value inverts the same equal-tailed interval. Where the values, or more
    resamples than a tail holds, have no spread, there is no interval. With heavy tails it rejects too often
    (docs/explanation/statistics.md), so it decides nothing; from 20 clusters on it stands beside the sign-flip interval.
    values: [m], in the metric's unit. shares: [m], sum 1; None: equal.
    """
    low, high, p = bootstrap_t_many(values[np.newaxis], shares)
    outcome = Outcome("bootstrap-t", _mean(values, shares))
    if not (np.isfinite(low[0]) and np.isfinite(high[0])):
        return replace(outcome, note="too many clusters show the same difference to draw them again")
    return replace(
        outcome,
        interval=Interval(float(low[0]), float(high[0]), method=f"bootstrap-t by cluster, {RESAMPLES + 1:,} resamples"),
        p=float(p[0]),
    )


def bootstrap_t_many(values: Floats, shares: Floats | None = None) -> tuple[Floats, Floats, Floats]:
    """Low and high ends and p of k comparisons, [k] each; NaN or infinite where the spread fails.

    values: [k, m], in the metric's unit, as are the ends. shares: [m], sum 1; None: equal. p: 0..1.
    """
    relative = _relative(values.shape[1], shares)
    mean = values @ relative / len(relative)
    centred = values - mean[:, np.newaxis]
    variance = np.square(relative * centred).mean(axis=1)
    variance[np.ptp(values, axis=1) <= ZERO * np.abs(values).max(axis=1)] = np.nan  # all equal but for rounding
    shift, spread = _measure_resamples(centred, relative)
    flat = spread <= ZERO * variance[:, np.newaxis]
    with np.errstate(divide="ignore", invalid="ignore"):
        t = shift / np.sqrt(np.where(flat, 0.0, spread))  # infinite where a resample of equal values is off the mean
        observed = mean / np.sqrt(variance)
    out = _count_beyond(RESAMPLES + 1)
    ends = np.partition(t, (out - 1, RESAMPLES - out), axis=1)
    tails = np.minimum((t >= observed[:, np.newaxis]).sum(axis=1), (t <= observed[:, np.newaxis]).sum(axis=1))
    error = np.sqrt(variance)
    with np.errstate(invalid="ignore"):
        low, high = mean - ends[:, RESAMPLES - out] * error, mean - ends[:, out - 1] * error
    return low, high, np.minimum(1.0, 2 * (1 + tails) / (RESAMPLES + 1))


def _measure_resamples(centred: Floats, relative: Floats) -> tuple[Floats, Floats]:
    """Mean of each resample, and the mean square of its clusters' contributions: [k, RESAMPLES] each, from centred [k, m] and
    relative [m]. A mean of unequal clusters is a ratio: each resample has its own denominator."""
    drawn, square = _resamples(len(relative)), np.square(relative)
    total = relative @ drawn
    shift = (relative * centred) @ drawn / total
    spread = (square * np.square(centred)) @ drawn - 2 * shift * ((square * centred) @ drawn)
    return shift, (spread + np.square(shift) * (square @ drawn)) / np.square(total)


@lru_cache(maxsize=4)
def _resamples(m: int) -> Floats:
    """Weights of m values in each resample: [m, RESAMPLES], columns sum to 1."""
    counts = np.random.default_rng((SEED, m)).multinomial(m, np.full(m, 1 / m), size=RESAMPLES)
    return np.ascontiguousarray(counts.T / m)


def student_interval(values: Floats, shares: Floats | None = None) -> Interval | None:
    """Student's t interval of the weighted mean of cluster differences, [m]; None below 6 clusters or without spread.

    It assumes normal cluster means, which the sign-flip test does not, and is much narrower with few clusters. It is
    shown with the sign-flip interval and decides nothing. values: [m], in the metric's unit. shares: [m], sum 1.
    """
    m = len(values)
    if not _count_beyond(min(2**m, FLIPS)) or float(np.ptp(values)) <= ZERO * float(np.abs(values).max()):
        return None
    mean, relative = _mean(values, shares), _relative(m, shares)
    error = float(np.sqrt(np.square(relative * (values - mean)).mean() / (m - 1)))
    half = float(stdtrit(m - 1, 1 - TAIL)) * error
    return Interval(mean - half, mean + half, method="Student's t on cluster means; the means as if normal")


def _mean(values: Floats, shares: Floats | None) -> float:
    """Of values [m]; shares [m] add up to 1."""
    return float(values.mean() if shares is None else values @ shares)


def _relative(m: int, shares: Floats | None) -> Floats:
    """Weights with a mean of 1, [m]."""
    return np.ones(m) if shares is None else shares * m
