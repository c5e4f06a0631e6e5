"""The difference between two conditions: one primary test, chosen by a fixed rule, and what only describes."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from scipy.special import stdtr

from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.inference.clusters import (
    FLIPS,
    is_enumerated,
    one_against_several,
    sign_flip,
    student_interval,
    swap_p_many,
)
from benchapp.stats.inference.interval import ZERO, Floats, Interval, Outcome
from benchapp.stats.inference.joint_flips import Flips
from benchapp.stats.inference.proportions import newcombe_paired, pairs
from benchapp.stats.inference.replicates import MIN_REPLICATES, stratified, welch, welch_parts
from benchapp.stats.inference.resampling import family_bootstrap
from benchapp.stats.inference.sides import Paired, TaskMeans, pair


@dataclass(frozen=True, slots=True)
class MissingBounds(Shaped):
    """What trials without a verdict could have made of a difference of shares, over all tasks planned on both sides.

    failed, passed: if all of them had. low, high: if those of one side had failed and those of the other passed."""

    trials: int
    failed: float
    passed: float
    low: float
    high: float


def difference_of_means(own: Sequence[TaskMeans], other: Sequence[TaskMeans], *, by_family: bool = False) -> float:
    """The difference alone, 0 where they share no task."""
    paired = pair(own, other, by_family=by_family)
    return float(paired.delta @ paired.weight) if paired else 0.0


@dataclass(frozen=True, slots=True)
class Difference(Shaped):
    """Own minus other on the tasks both were scored on, in the metric's unit (shares: -1..1).

    tasks, clusters, replicates (own, other): what it rests on; dropped: tasks scored somewhere but not everywhere.
    own, other: means over the tasks and all replicates; delta: their difference, which every interval is about.
    method: "welch", "sign-flip", "swap" or "none". smallest_p: the smallest p that the last three can give here.
    missing: None where every planned trial has a verdict, and where that is not what the metric counts.
    is_exact: under the null both sides could be exchanged, one run for one, and every way to do so was tried.
    secondary: intervals that describe and decide nothing. discordant: tasks that only own passed, that only other
    passed, where both have one pass-or-fail result a task. note: why something is missing.
    flips: what a joint test of several differences needs; None where it is no sign-flip that decides.
    """

    tasks: int
    clusters: int
    replicates: tuple[int, int]
    own: float
    other: float
    delta: float
    method: str
    interval: Interval | None
    p: float | None
    smallest_p: float | None
    secondary: tuple[Interval, ...] = ()
    discordant: tuple[int, int] | None = None
    dropped: int = 0
    note: str = ""
    is_exact: bool = False
    missing: MissingBounds | None = None
    flips: Flips | None = field(default=None, compare=False, repr=False)

    json_shape = JsonShape(
        *("tasks", "clusters", "replicates", "own", "other", "delta", "method", "interval", "p", "smallest_p"),
        *("secondary", "discordant", "dropped", "missing", "note", "excludes_zero"),
    )

    @property
    def excludes_zero(self) -> bool:
        """Whether the primary interval does; the others never decide."""
        return self.interval is not None and self.interval.excludes_zero

    def within(self, bound: float) -> Difference:
        """With every interval cut to what a difference can be: -bound..bound. Two rates cannot be 112 points apart."""
        interval = self.interval.within(bound) if self.interval else None
        return replace(self, interval=interval, secondary=tuple(each.within(bound) for each in self.secondary))


def compare(
    own: Sequence[TaskMeans], other: Sequence[TaskMeans], *, describe: bool = True, by_family: bool = False
) -> Difference | None:
    """Compare two conditions, each given by its replicates; None where they share no task.

    Without `describe` the secondary intervals that cost more than the test are left out. `by_family`: every family
    weighs the same, whatever the number of its tasks; else every task.
    """
    paired = pair(own, other, by_family=by_family)
    if paired is None:
        return None
    outcome = primary(paired)
    is_flipped = len(paired.own) == len(paired.other) and outcome.method in ("sign-flip", "none")
    counts = pairs(paired.own[0], paired.other[0]) if paired.binary else None
    return Difference(
        tasks=len(paired.task),
        clusters=paired.clusters,
        replicates=paired.replicates,
        own=float((paired.own @ paired.weight).mean()),
        other=float((paired.other @ paired.weight).mean()),
        delta=float(paired.delta @ paired.weight),
        method=outcome.method,
        interval=outcome.interval,
        p=outcome.p,
        smallest_p=outcome.smallest_p,
        secondary=(*_beside(paired, outcome.method), *(_describe(paired, outcome.method) if describe else ())),
        discordant=counts.discordant if counts else None,
        dropped=paired.dropped,
        note=outcome.note,
        is_exact=paired.is_even and paired.replicates == (1, 1) and is_enumerated(paired.clusters),
        flips=_flips_of(paired) if is_flipped else None,
    )


def _flips_of(paired: Paired) -> Flips:
    return Flips(paired.cluster_means * paired.shares, paired.task, paired.named, paired.cluster)


def primary(paired: Paired) -> Outcome:
    """The one test that decides: over replicates where both sides have two, else over clusters."""
    if paired.replicates == (1, 1):
        return sign_flip(paired.cluster_means, paired.shares)
    if min(paired.replicates) < MIN_REPLICATES:
        return one_against_several(_differences_to_each(paired), paired.shares)
    outcome = welch(paired.own @ paired.weight, paired.other @ paired.weight)
    if outcome.interval:
        return outcome
    instead = sign_flip(paired.cluster_means, paired.shares)
    return replace(instead, note="; ".join(filter(None, (outcome.note, instead.note))))


def primary_p_many(own: Floats, other: Floats, shares: Floats, most: int = FLIPS) -> Floats:
    """The p of `primary` for k comparisons, [k]: own [k, r, m], other [k, s, m], the mean of each cluster in each replicate;
    shares: [m], sum 1. `most`: see `swap_p_many`."""
    values = own.mean(axis=1) - other.mean(axis=1)
    r, s = own.shape[1], other.shape[1]
    if min(r, s) < MIN_REPLICATES:
        flipped = swap_p_many(values, shares, most)
        if r == s:
            return flipped
        return np.maximum(flipped, swap_p_many(np.swapaxes(own - other, 1, 2), shares, most))
    estimate, error, freedom = welch_parts(own @ shares, other @ shares)
    scale = np.maximum(np.abs(own).max(axis=(1, 2)), np.abs(other).max(axis=(1, 2)))
    alike = error <= ZERO * scale
    p = 2 * stdtr(freedom, -np.abs(estimate) / np.where(alike, 1.0, error))
    if alike.any():
        p[alike] = swap_p_many(values[alike], shares, most)
    return np.asarray(p)


def _differences_to_each(paired: Paired) -> Floats:
    """Of the only run of one side to each of the other's r: mean in each cluster, [clusters, r]."""
    return np.stack([paired.in_clusters(row) for row in paired.own - paired.other], axis=1)


def _beside(paired: Paired, method: str) -> Iterator[Interval]:
    """Student's interval next to a test over clusters."""
    if method in ("sign-flip", "swap"):
        yield from filter(None, [student_interval(paired.cluster_means, paired.shares)])


def _describe(paired: Paired, method: str) -> Iterator[Interval]:
    """What describes: each under assumptions that its name states and that the primary test does not need."""
    if method == "welch" and paired.clusters > 1:
        own, other = (np.stack([paired.in_clusters(row) for row in side]) for side in (paired.own, paired.other))
        yield from filter(None, [stratified(own, other, paired.shares).interval])
    if paired.binary and paired.one_task_per_family:
        yield newcombe_paired(pairs(paired.own[0], paired.other[0]))
    yield from filter(None, [family_bootstrap(paired.delta, paired.cluster, paired.family, paired.weight)])
