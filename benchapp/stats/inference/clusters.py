"""Differences between conditions whose tasks share libraries: the cluster (episode) is the unit.

Everything works on `values`, the mean difference of each cluster, and on `shares`, what each of them weighs in the mean
that is reported: [m], sum 1; None: all the same. Where one run stands against r, values are its differences to each of
them, [m, r]. Values, means and ends of intervals are in the metric's unit (a share: -1..1). `swap_many` takes k
comparisons of m clusters at once, [k, m] or [k, m, r], with the same random numbers for all of them: results depend on
the data alone.
"""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from benchapp.stats.inference.interval import TAIL, ZERO, Floats, Interval, Outcome

# Patterns up to which every one is tried (of 14 clusters); beyond that so many, the observed one among them.
FLIPS = 2**14
KEPT = 64  # differences (of clusters, to runs) up to which the patterns are kept between calls: 8 MB
BLOCK = 2**10  # patterns drawn at a time beyond that
SEED = 20_011  # any number will do as long as it stays


def smallest_p(m: int, r: int = 1) -> float:
    """The smallest p that the test of m clusters, one run against r, can give, whatever comes out."""
    return 2 / _patterns(m, r)


def clusters_for(level: float) -> int | None:
    """The fewest clusters whose sign-flip test can reach this level; None where no number of them can."""
    return next((m for m in range(1, FLIPS.bit_length()) if smallest_p(m) <= level), None)


def is_enumerated(m: int, r: int = 1, most: int = FLIPS) -> bool:
    """Whether every pattern is tried."""
    return bool((r + 1) ** m <= most)


def _patterns(m: int, r: int, most: int = FLIPS) -> int:
    return (r + 1) ** m if is_enumerated(m, r, most) else most


def sign_flip(values: Floats, shares: Floats | None = None) -> Outcome:
    """Sign-flip test of the weighted mean of cluster differences (Fisher 1935), [m], with the interval that inverts it.

    If both conditions do equally well, swapping them inside a cluster changes nothing but the sign of its value, so
    the observed mean is compared with those of all sign patterns, whatever the weights. The set of true differences that
    the test would not reject lies between two order statistics of the means of all non-empty subsets of the clusters
    (Hartigan 1969, there with equal weights).
    Test and interval agree: p <= 0.05 exactly where the interval excludes 0.

    One run against r, values [m, r]: in each cluster it is swapped with any of the r or with none.

    values: [m] or [m, r], in the metric's unit. shares: [m], sum 1; None: equal.
    The smallest p is 2 / 2**m: 0.031 with 6 clusters, and below 6 a level of 0.05 cannot be reached: no interval. With r
    others it is 2 / (r + 1)**m.
    """
    m, r = len(values), values.shape[1] if values.ndim > 1 else 1
    spread = float(np.ptp(values)) > ZERO * float(np.abs(values).max())
    patterns, method = _patterns(m, r), "sign-flip" if r == 1 else "swap"
    low, high, p = swap_many(values[np.newaxis], shares)
    said = "sign-flip on cluster means" if r == 1 else "replicates swapped inside clusters"
    name = f"{said}, {'all' if is_enumerated(m, r) else 'random'} {patterns:,} patterns"
    estimate = _mean(values if values.ndim == 1 else values.mean(axis=1), shares)
    outcome = Outcome(method, estimate, p=float(p[0]), smallest_p=smallest_p(m, r))
    if not _count_beyond(patterns):
        return replace(outcome, method="none", note=f"{m} cluster{'' if m == 1 else 's'}, too few for an interval")
    if not spread:
        return replace(outcome, note="every episode shows the same difference, so there is no interval")
    return replace(
        outcome,
        interval=Interval(float(low[0]), float(high[0]), method=name),
    )


def one_against_several(values: Floats, shares: Floats | None = None) -> Outcome:
    """One run against r, values [m, r]: the larger p and the wider interval of a sign flip against their mean and of swaps.

    Neither alone will do. Where passes are rare one run is mostly below the mean of ten, in every cluster: the flip rejects a
    true null in up to 17 %. Where the one side spreads more than the other, as a condition that learns against one that does
    not, swaps cover 88 %. values: [m, r], in the metric's unit. shares: [m], sum 1; None: equal.
    """
    flipped, swapped = sign_flip(values.mean(axis=1), shares), sign_flip(values, shares)
    both = replace(flipped, p=max(flipped.p or 0.0, swapped.p or 0.0))
    if flipped.method == "none":
        return both
    if not flipped.interval or not swapped.interval:
        return replace(both, method="swap")
    ends = flipped.interval, swapped.interval
    widest = min(each.low for each in ends), max(each.high for each in ends)
    return replace(
        both,
        method="swap",
        interval=Interval(
            *widest, method="the wider of sign-flip on cluster means and swaps of replicates inside clusters"
        ),
    )


def swap_many(values: Floats, shares: Floats | None = None) -> tuple[Floats, Floats, Floats]:
    """Low and high ends and two-sided p of k comparisons, [k] each. Ends are infinite where 5 % cannot be reached.

    values: [k, m] or [k, m, r], in the metric's unit, as are the ends. shares: [m], sum 1; None: equal. p: 0..1.
    """
    means, scale = _swapped_means(values, shares)
    p, out = _rank(means), _count_beyond(means.shape[1] + 1)
    if not out:
        return np.full(len(p), -np.inf), np.full(len(p), np.inf), p
    ends = np.partition(means, (out - 1, means.shape[1] - out), axis=1)
    return ends[:, out - 1] * scale, ends[:, -out] * scale, p


def swap_p_many(values: Floats, shares: Floats | None = None, most: int = FLIPS) -> Floats:
    """The p alone, [k], in half the time. `most`: patterns, from 2,048 on; with fewer a plan is made sooner."""
    return _rank(_swapped_means(values, shares, most)[0])


def _swapped_means(values: Floats, shares: Floats | None, most: int = FLIPS) -> tuple[Floats, Floats]:
    """Means of the swapped pairs, [k, patterns - 1], over the largest value of each comparison, [k]."""
    k, m = values.shape[:2]
    r = values.shape[2] if values.ndim > 2 else 1
    flat = values.reshape(k, m * r)
    scale = np.maximum(np.abs(flat).max(axis=1), np.finfo(float).tiny)
    means = _subset_means(flat / scale[:, np.newaxis], np.repeat(_relative(m, shares), r), r, most)
    means[np.abs(means) < ZERO] = 0.0
    return means, scale


def _rank(means: Floats) -> Floats:
    """Two-sided p, [k], of means of swapped pairs, [k, patterns - 1]."""
    above, below = np.count_nonzero(means >= 0, axis=1), np.count_nonzero(means <= 0, axis=1)
    return np.asarray(np.minimum(1.0, 2 * (1 + np.minimum(above, below)) / (means.shape[1] + 1)))


def _count_beyond(patterns: int) -> int:
    """Count the subset means beyond each end of the interval, that end included; 0 if 95 % cannot be reached."""
    return int(TAIL * patterns + 1e-9)


def _subset_means(values: Floats, relative: Floats, r: int, most: int) -> Floats:
    """Means of non-empty subsets of the m clusters of each of k comparisons, [k, patterns - 1]: values [k, m * r] and relative
    [m * r], each cluster in the subset with one of its r differences.

    A subset is what a pattern swaps; the empty one is the observed pattern, which the p value counts by itself.
    """
    m = values.shape[1] // r
    if m * r <= KEPT or is_enumerated(m, r, most):
        return _means_of(_subsets(m, r, most), values, relative)
    rng = np.random.default_rng((SEED, m))
    blocks = [_means_of(_draw_subsets(m, r, BLOCK, rng), values, relative) for _ in range(most // BLOCK)]
    return np.concatenate(blocks, axis=1)[:, : _patterns(m, r, most) - 1]


def _means_of(members: Floats, values: Floats, relative: Floats) -> Floats:
    """members [m * r, patterns], values [k, m * r], relative [m * r] -> [k, patterns]."""
    return np.asarray((values * relative) @ members / (relative @ members))


@lru_cache(maxsize=8)
def _subsets(m: int, r: int, most: int) -> Floats:
    """Members of subsets of m clusters with one of r differences each: 1 or 0, [m * r, patterns - 1]."""
    if not is_enumerated(m, r, most):
        return _draw_subsets(m, r, most - 1, np.random.default_rng((SEED, m)))
    codes = np.arange(1, (r + 1) ** m)[np.newaxis]
    return _spread_picks(codes // (r + 1) ** np.arange(m)[:, np.newaxis] % (r + 1), r)


def _draw_subsets(m: int, r: int, count: int, rng: np.random.Generator) -> Floats:
    """The same for `count` random non-empty subsets, [m * r, count]. There are patterns enough for 64 spare draws to make up for
    empty ones."""
    picks = rng.integers(0, r + 1, size=(m, count + 64), dtype=np.int8)
    return _spread_picks(picks[:, picks.any(axis=0)][:, :count], r)


def _spread_picks(picks: NDArray[np.integer], r: int) -> Floats:
    """picks [m, patterns], 0 for a cluster outside the subset, else which of its r differences: [m * r, patterns] of 0 and 1."""
    ones = picks[:, np.newaxis] == np.arange(1, r + 1)[np.newaxis, :, np.newaxis]
    return np.asarray(ones.reshape(-1, picks.shape[1]), dtype=np.float64)


def student_interval(values: Floats, shares: Floats | None = None) -> Interval | None:
    """Student's t interval of the weighted mean of cluster differences, [m]; None below 6 clusters or without spread.

    Of what each cluster adds to the mean, its difference times its weight, so that few large clusters count as few:
    with normal differences it is never too narrow, whatever their spreads (Ibragimov and Mueller 2010). Where clusters
    show one of a few values it is (docs/explanation/statistics.md), so it decides nothing.
    values: [m], in the metric's unit. shares: [m], sum 1.
    """
    m = len(values)
    if not _count_beyond(_patterns(m, 1)) or float(np.ptp(values)) <= ZERO * float(np.abs(values).max()):
        return None
    added = values * _relative(m, shares)
    half = float(stdtrit(m - 1, 1 - TAIL) * added.std(ddof=1) / np.sqrt(m))
    middle = float(added.mean())
    return Interval(middle - half, middle + half, method="Student's t on cluster means; the means as if normal")


def _mean(values: Floats, shares: Floats | None) -> float:
    """Of values [m]; shares [m] add up to 1."""
    return float(values.mean() if shares is None else values @ shares)


def _relative(m: int, shares: Floats | None) -> Floats:
    """Weights with a mean of 1, [m]."""
    return np.ones(m) if shares is None else shares * m
