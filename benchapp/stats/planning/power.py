"""How often a design finds a difference: the test that will decide, tried on runs that are drawn (see `difference.primary`).

No formula: shares have ties, few clusters a smallest p, and few replicates degrees of freedom that depend on what they show.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy.special import expit, ndtri

from benchapp.stats.inference.clusters import clusters_for
from benchapp.stats.inference.difference import primary_p_many
from benchapp.stats.inference.interval import TAIL, Floats
from benchapp.stats.inference.replicates import MIN_REPLICATES
from benchapp.stats.planning.spread import ENDS, FARTHEST, LogOdds, Spread, bisect, expect, to_log_odds

POWER = 0.8
LEVEL = 2 * TAIL + 1e-12
COMPARISONS = 4_000  # a Monte-Carlo error of a point; a test over clusters, which takes longer, is tried half as often
LADDER = (0, 4, 8, 16, 24, 32, 40, 48, 56, 64, 80, 96)  # points
CELLS = 1_500_000  # trials drawn for one side
MANY = 64  # clusters, from which on fewer comparisons are tried: a plan takes no longer
SAME = 1e-9  # of means, which are about 1: equal, but for rounding
PATTERNS = 2**11  # of a sign-flip, of 2**14: one rejects as often with either, but for half a point
SEED = 20_011  # any number will do as long as it stays


@dataclass(frozen=True, slots=True)
class Design:
    """tasks: of each episode. replicates: of both sides. samples: of each task. weights: of each episode in the mean that is
    compared, any scale; None: as many as it has tasks."""

    tasks: tuple[int, ...]
    replicates: tuple[int, int]
    samples: int = 1
    weights: tuple[float, ...] | None = None

    @property
    def shares(self) -> Floats:
        weights = np.asarray(self.tasks if self.weights is None else self.weights, dtype=float)
        return np.asarray(weights / weights.sum())

    @property
    def can_find(self) -> bool:
        """Whether any result could."""
        return min(self.replicates) >= MIN_REPLICATES or len(self.tasks) >= (clusters_for(2 * TAIL) or 0)


def predict_power(design: Design, spread: Spread, difference: float) -> float | None:
    """How often the design finds a true `difference` of shares, above 0, in its direction: 0..1; None where no two shares
    differ so.

    One side passes half the difference less than `spread.share`, the other half more, as far as there is room. Runs of both have
    the same spread on the log-odds.
    """
    low = max(ENDS, min(spread.share - difference / 2, 1 - ENDS - difference))
    if low + difference > 1 - ENDS + 1e-9:
        return None
    return _simulate(design, spread, low, low + difference) if design.can_find else 0.0


def count_found(power: float | None) -> int:
    """Of 100 comparisons those that find it; what is simulated is never sure."""
    return min(99, round(100 * (power or 0.0)))


def find_least(design: Design, spread: Spread) -> float | None:
    """The smallest difference of whole points that is found 8 times of 10; None where none is.

    Looked for from below: where nearly all passes and nearly nothing does, replicates of few tasks are all alike, and no
    test finds a thing.
    """

    def finds(points: int) -> bool:
        return (predict_power(design, spread, points / 100) or 0.0) >= POWER

    found = next((place for place, points in enumerate(LADDER) if place and finds(points)), None)
    if found is None:
        return None
    low, high = LADDER[found - 1], LADDER[found]
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if finds(middle) else (middle, high)
    return high / 100


@lru_cache(maxsize=2_000)
def _simulate(design: Design, spread: Spread, low: float, high: float) -> float:
    odds = to_log_odds(spread)
    sides = [
        _draw_runs(design.tasks, design.samples, odds, share, seed)
        for seed, share in enumerate((high, low), start=SEED)
    ]
    by_runs = min(design.replicates) >= MIN_REPLICATES
    tried = COMPARISONS if by_runs else int(np.clip(COMPARISONS // 2 * MANY / len(design.tasks), 500, COMPARISONS // 2))
    rng, shares = np.random.default_rng(SEED), design.shares
    places = [rng.integers(0, len(runs), (tried, count)) for runs, count in zip(sides, design.replicates, strict=True)]
    own, other = ((runs @ shares)[drawn] for runs, drawn in zip(sides, places, strict=True))
    p, by_clusters = np.ones(tried), np.arange(tried)
    if by_runs:
        p = primary_p_many(own[..., np.newaxis], other[..., np.newaxis], np.ones(1))
        by_clusters = np.flatnonzero((np.ptp(own, axis=1) < SAME) & (np.ptp(other, axis=1) < SAME))
    if len(by_clusters):
        whole = [runs[drawn[by_clusters]] for runs, drawn in zip(sides, places, strict=True)]
        p[by_clusters] = primary_p_many(whole[0], whole[1], shares, PATTERNS)
    return float(((p <= LEVEL) & (own.mean(axis=1) > other.mean(axis=1))).mean())


@lru_cache(maxsize=24)  # both sides of a ladder; at most 2 MB each
def _draw_runs(tasks: tuple[int, ...], samples: int, odds: LogOdds, share: float, seed: int) -> Floats:
    """Mean of each episode in many learning runs of one condition over the same tasks, [runs, episodes]."""
    rng, hard = np.random.default_rng(seed), _place_tasks(sum(tasks), odds.task)
    runs = max(500, min(2 * COMPARISONS, CELLS // (len(hard) * samples)))
    middle = bisect(lambda each: float(expect(hard + each, odds.learning).mean()) - share, -FARTHEST, FARTHEST)
    owner, starts = np.repeat(np.arange(len(tasks)), tasks), np.cumsum([0, *tasks[:-1]])
    library = _normal(rng, (runs, len(tasks))) * np.float32(odds.episode)
    library += _normal(rng, (runs, 1)) * np.float32(odds.rerun)
    chance = expit((hard + middle).astype(np.float32) + library[:, owner])
    passes = sum(rng.random(chance.shape, dtype=np.float32) < chance for _ in range(samples))
    return np.asarray(np.add.reduceat(passes, starts, axis=1, dtype=np.float64) / samples / np.array(tasks))


def _place_tasks(count: int, sd: float) -> Floats:
    """Log-odds of tasks, [count], in the same random order for every side: evenly over a normal distribution."""
    places = np.random.default_rng(SEED).permutation(count)
    return np.asarray(sd * ndtri((places + 0.5) / count))


def _normal(rng: np.random.Generator, shape: tuple[int, ...]) -> NDArray[np.float32]:
    return rng.standard_normal(shape, dtype=np.float32)
