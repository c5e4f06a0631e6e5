"""How shares of passes vary, in four parts: samples, tasks, episodes, reruns. Stated, or measured on ended runs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import sqrt

import numpy as np

from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.inference.interval import Floats, Ints
from benchapp.stats.inference.sides import Paired

FEW = 4  # degrees of freedom: fewer reruns show hardly anything about their differences
ENDS = 0.005  # shares closer to 0 and 1 have no spread to plan with
MOST = 0.98  # of a share's possible variation: the most for tasks, episodes and reruns


@dataclass(frozen=True, slots=True)
class Spread(Shaped):
    """Standard deviations, as shares, 0..1. share: what passes, halfway between the two sides of a comparison.

    task: between tasks. episode: a library's effect on all tasks that read it. rerun: what all episodes of one learning
    run have in common. sample: the rest, one trial of one task with one library.
    """

    share: float
    task: float
    episode: float
    rerun: float

    json_shape = JsonShape("share", "sample", "task", "episode", "rerun")

    @property
    def sample(self) -> float:
        left = self.share * (1 - self.share) - self.task**2 - self.episode**2 - self.rerun**2
        return sqrt(max(0.0, left))

    @property
    def in_points(self) -> dict[str, int]:
        return {name: round(100 * getattr(self, name)) for name in ("sample", "task", "episode", "rerun")}


# Between the spreads of the worlds of lab/levels.py and coverage.py; nobody measured it.
GUESS = Spread(share=0.5, task=0.2, episode=0.1, rerun=0.03)


@dataclass(frozen=True, slots=True)
class Measured(Shaped):
    """`spread` as measured on `runs` learning runs, and the degrees of freedom that reruns had. `guessed`: they showed
    nothing about reruns, whose part is a guess."""

    spread: Spread
    runs: int
    freedom: int

    json_shape = JsonShape("spread", "runs", "freedom", "guessed")

    @property
    def guessed(self) -> bool:
        return self.freedom == 0

    @property
    def is_rough(self) -> bool:
        return self.freedom < FEW


def measure_pairs(pairs: Sequence[Paired]) -> Measured:
    """Measure conditions with one common baseline, at least one of them. Averaged, since a difference has the spreads
    of both sides."""
    baseline = len(pairs[0].other)
    share, *parts = np.mean([_measure_pair(each) for each in pairs], axis=0).tolist()
    runs = baseline + sum(len(each.own) for each in pairs)
    return Measured(_make(share, *parts), runs, runs - len(pairs) - 1)


def _measure_pair(paired: Paired) -> tuple[float, ...]:
    """Return share and variances of tasks, episodes and reruns. Near 0 and 1 shares can vary least, so the average of
    two sides is scaled to halfway between them."""
    own, other, cluster = paired.own, paired.other, paired.cluster
    sides = [_vary_by_rerun(side, cluster) for side in (own, other) if len(side) > 1]
    if len(sides) == 2:
        episode, rerun = np.mean(sides, axis=0)
    else:  # the episodes of one difference, with effects that differ between them
        within, across = _products(paired.delta, cluster)
        episode = np.nan_to_num(within - across) / (1 / len(own) + 1 / len(other))
        rerun = sides[0][1] if sides else GUESS.rerun**2
    ends = np.array((own.mean(), other.mean()))
    share, rooms = float(ends.mean()), ends * (1 - ends)
    scales = (share * (1 - share)) ** 2 / np.maximum(1e-6, (rooms.mean() ** 2, np.square(rooms).mean()))
    return share, _vary_by_task(np.concatenate((own, other))) * scales[0], episode * scales[1], rerun * scales[1]


def measure_groups(groups: Sequence[tuple[Floats, Ints]]) -> Measured | None:
    """Measure conditions learned more than once, each `(values [r, n], cluster [n])`; None with too few reruns."""
    several = [(values, cluster) for values, cluster in groups if len(values) > 1 and values.shape[1]]
    freedoms = [len(values) - 1 for values, _ in several]
    if sum(freedoms) < FEW:
        return None
    found = [(values.mean(), _vary_by_task(values), *_vary_by_rerun(values, cluster)) for values, cluster in several]
    share, *parts = np.average(np.array(found), axis=0, weights=freedoms)
    return Measured(_make(float(share), *map(float, parts)), sum(len(values) for values, _ in several), sum(freedoms))


def state_spread(spread: Spread, stated: Mapping[str, float]) -> Spread:
    """Replace the stated fields, with a sum no larger than a share can vary."""
    named = {name: stated.get(name, getattr(spread, name)) for name in ("share", "task", "episode", "rerun")}
    return _make(named.pop("share"), *(each**2 for each in named.values())) if stated else spread


def _make(share: float, task: float, episode: float, rerun: float) -> Spread:
    """Build from variances. Negative ones, by chance, become 0, and together they are no more than a share can vary."""
    share = min(1 - ENDS, max(ENDS, share))
    parts = np.maximum(0.0, (task, episode, rerun))
    parts *= min(1.0, MOST * share * (1 - share) / max(float(parts.sum()), 1e-12))
    return Spread(share, *(sqrt(float(part)) for part in parts))


def _vary_by_task(runs: Floats) -> float:
    """Return the variance between tasks, expected over all runs [r, n]: the covariance of two runs, over all pairs."""
    if runs.shape[1] < 2:
        return 0.0
    products = np.cov(runs)
    return float((products.sum() - np.trace(products)) / (len(runs) * (len(runs) - 1)))


def _vary_by_rerun(values: Floats, cluster: Ints) -> tuple[float, float]:
    """Return variances of episodes and of reruns, from values [r, n]. Tasks of one episode vary together by both, those
    of two episodes by reruns alone. With one episode all of it counts as reruns: more episodes are not promised to
    help."""
    left = values - values.mean(axis=0)
    found = np.array([_products(row, cluster) for row in left])
    both, rerun = (float(each) for each in found.sum(axis=0) / (len(values) - 1))
    if np.isnan(rerun):
        return 0.0, 0.0 if np.isnan(both) else both
    return (0.0 if np.isnan(both) else both - max(0.0, rerun)), rerun


def _products(values: Floats, cluster: Ints) -> tuple[float, float]:
    """Return the mean product of two tasks of one cluster, and of different clusters; NaN without such a pair."""
    sums, sizes = np.bincount(cluster, weights=values), np.bincount(cluster)
    squares, total, n = float(values @ values), float(values.sum()), len(values)
    inside, within = float(sums @ sums), int(sizes @ sizes)
    return (
        (inside - squares) / (within - n) if within > n else np.nan,
        (total**2 - inside) / (n * n - within) if n * n > within else np.nan,
    )
