"""Differences between conditions that were learned more than once: the replicate is the unit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import stdtr, stdtrit

from benchapp.stats.inference.interval import TAIL, ZERO, Floats, Interval, Outcome

MIN_REPLICATES = 2  # on each side: one value has no spread
ENOUGH = 4  # replicates of the smaller side from which Satterthwaite's degrees of freedom hold with unequal numbers
HELD = 0.9  # of Satterthwaite's degrees of freedom: with all of them a true null is rejected in up to 6.0 %, so in up to 5.5 %


def welch(own: Floats, other: Floats) -> Outcome:
    """Welch's t on replicate means (Welch 1947): own [r], other [s], at least two each, in the metric's unit.

    Covers another round of learning on these tasks. Without any spread on both sides there is no interval. With numbers that
    are too unequal the degrees of freedom are those of the smaller side (see `is_lopsided`).
    """
    if min(len(own), len(other)) < MIN_REPLICATES:
        raise ValueError(f"welch: expected 2 replicates a side or more, got {len(own)} and {len(other)}")
    estimate, error, freedom = welch_parts(own[np.newaxis], other[np.newaxis])
    scale = float(np.abs(np.concatenate((own, other))).max())
    name = "Welch on replicate means" + (f", {SMALLER}" if is_lopsided(len(own), len(other)) else "")
    return student("welch", float(estimate[0]), float(error[0]), float(freedom[0]), scale, name)


ALIKE = "the replicates of each side have the same mean, so they show no spread"
SMALLER = "degrees of freedom of the smaller side"


def is_lopsided(own: int, other: int) -> bool:
    """Whether Satterthwaite's degrees of freedom are unreliable: two or three values estimate their variance so badly that
    a variance that is small by chance gets the larger side's degrees of freedom. With 2 against 10 a true null is then
    rejected in up to 12 % of comparisons at a nominal 5 % (docs/explanation/statistics.md). So are they with more than twice as
    many on one side: where passes are rare the means are lopsided, and only equal numbers cancel that."""
    few, many = sorted((own, other))
    return few != many and (few < ENOUGH or many > 2 * few)


def welch_parts(own: Floats, other: Floats) -> tuple[Floats, Floats, Floats]:
    """Difference, standard error and degrees of freedom of k comparisons, [k] each: own [k, r], other [k, s].

    Values, differences and errors are in the metric's unit.

    Satterthwaite's less a tenth, or where the sides are lopsided those of the smaller one, which never reject too often
    (Hsu 1938; Mickey and Brown 1966).
    """
    r, s = own.shape[1], other.shape[1]
    parts = np.stack((own.var(axis=1, ddof=1) / r, other.var(axis=1, ddof=1) / s))
    error, freedom = _satterthwaite(parts, (r - 1, s - 1))
    if is_lopsided(r, s):
        freedom = np.full_like(freedom, min(r, s) - 1)
    return own.mean(axis=1) - other.mean(axis=1), error, freedom


def mean_interval(means: Floats) -> Interval | None:
    """Student's t of the mean of replicate means [r], in the metric's unit; None below two, and without spread.

    It covers another round of learning on these tasks. A difference between two groups is not read off two of these."""
    if len(means) < MIN_REPLICATES or float(np.ptp(means)) <= ZERO:
        return None
    half = float(-stdtrit(len(means) - 1, TAIL) * means.std(ddof=1) / np.sqrt(len(means)))
    middle = float(means.mean())
    return Interval(middle - half, middle + half, method="t over replicate means")


def share_interval(shares: Sequence[float]) -> tuple[float, float] | None:
    """The same of one share per replicate, cut to 0..1."""
    found = mean_interval(np.array(shares, dtype=float))
    return (max(0.0, found.low), min(1.0, found.high)) if found else None


def stratified(own: Floats, other: Floats, weights: Floats) -> Outcome:
    """The same difference with the spread taken inside each cluster: own [r, m] and other [s, m] in
    the metric's unit, weights [m] (sum 1).

    Much narrower with two or three replicates, and right only if the episodes of one rerun are independent.
    """
    estimate, error, freedom = stratified_parts(own[np.newaxis], other[np.newaxis], weights)
    name = "replicates inside each episode; episodes of one rerun as if independent"
    scale = float(np.abs(np.concatenate((own, other))).max())
    return student("stratified", float(estimate[0]), float(error[0]), float(freedom[0]), scale, name)


def stratified_parts(own: Floats, other: Floats, weights: Floats) -> tuple[Floats, Floats, Floats]:
    """As `welch_parts` for k comparisons of m clusters: own [k, r, m], other [k, s, m], weights [m] (sum 1)."""
    sides = [np.square(weights) * side.var(axis=1, ddof=1) / side.shape[1] for side in (own, other)]
    freedoms = np.repeat((own.shape[1] - 1, other.shape[1] - 1), len(weights))
    estimate = (own.mean(axis=1) - other.mean(axis=1)) @ weights
    return estimate, *_satterthwaite(np.concatenate(sides, axis=1).T, freedoms)


def _satterthwaite(parts: Floats, freedoms: object) -> tuple[Floats, Floats]:
    """Root of the sum of the variances `parts` [j, k], and the degrees of freedom of that sum, held: [k] each."""
    total, known = parts.sum(axis=0), np.asarray(freedoms, dtype=float)
    spread = (np.square(parts) / np.reshape(known, (-1, 1))).sum(axis=0)
    freedom = np.divide(np.square(total), spread, out=np.ones_like(total), where=spread > 0)
    return np.sqrt(total), hold_freedom(freedom, float(known.min()))


def hold_freedom(freedom: Floats, least: float) -> Floats:
    """Satterthwaite's degrees of freedom, [k], less a tenth, which they overstate of few replicates with unequal spreads; no
    fewer than `least`, those of one part alone."""
    return np.asarray(np.maximum(least, HELD * freedom))


def student(method: str, estimate: float, error: float, freedom: float, scale: float, name: str) -> Outcome:
    """A t interval and its two-sided p value; neither where the standard error is 0.

    scale: the largest value that went in, to distinguish a spread of 0 from the rounding of equal values.
    """
    if error <= ZERO * scale:
        return Outcome(method, estimate, note=ALIKE)
    half = float(stdtrit(freedom, 1 - TAIL)) * error
    return Outcome(
        method=method,
        estimate=estimate,
        interval=Interval(estimate - half, estimate + half, method=name),
        p=float(2 * stdtr(freedom, -abs(estimate) / error)),
    )
