"""How often a design finds a difference: the noncentral t of the deciding claim, with the spread of similar runs."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import nctdtr, stdtrit

from benchapp.stats.inference.difference import Claim
from benchapp.stats.inference.interval import LEVEL, Floats
from benchapp.stats.inference.model import LEAST_FREEDOM
from benchapp.stats.planning.spread import Spread

POWER = 0.8
MOST_POINTS = 96  # a larger difference of shares is never planned for


@dataclass(frozen=True, slots=True)
class Design:
    """tasks: of each episode. replicates: of both sides. samples: of each task. weights: of each episode in the
    compared mean, on any scale; None: its number of tasks. is_block: replicates of both sides run interleaved.
    comparisons: judged together. scale: the observed standard error of such runs over the one that their spread
    predicts."""

    tasks: tuple[int, ...]
    replicates: tuple[int, int]
    samples: int = 1
    weights: tuple[float, ...] | None = None
    is_block: bool = True
    comparisons: int = 1
    scale: float = 1.0

    @property
    def shares(self) -> Floats:
        weights = np.asarray(self.tasks if self.weights is None else self.weights, dtype=float)
        return np.asarray(weights / weights.sum())

    @property
    def claim(self) -> Claim:
        if min(self.replicates) < 2:
            return Claim.ONE_RUN
        return Claim.RUN if self.is_block and self.replicates[0] == self.replicates[1] else Claim.RERUN

    def expect_error(self, spread: Spread) -> tuple[float, float]:
        """Return the difference's standard error, a share, and its degrees of freedom, as in `inference.model`."""
        episodes, (own, other) = len(self.tasks), self.replicates
        size = (episodes * self.shares) ** 2  # of what an episode weighs over an equal part
        trial = float((size * spread.sample**2 / (np.asarray(self.tasks) * self.samples)).mean())
        cell = float(size.mean()) * spread.episode**2 + trial
        each = 1 / own + 1 / other
        if self.claim is Claim.ONE_RUN:
            return float(np.sqrt(cell * each / episodes)), episodes - 1.5
        if self.claim is Claim.RUN:  # what moves a whole run moves both sides alike
            return float(np.sqrt(cell * each / episodes)), episodes * (own - 1) - 0.5
        variance = (cell + episodes * spread.rerun**2) * each / episodes
        reruns = own + other - 2
        return float(np.sqrt(variance)), 1 / (1 / reruns + 1 / (episodes * reruns - 0.5))


def predict_power(design: Design, spread: Spread, difference: float) -> float | None:
    """Return how often the design finds a true `difference` of shares, above 0, in its direction: 0..1; None for an
    impossible difference."""
    if difference > 1:
        return None
    expected, freedom = design.expect_error(spread)
    error = expected * design.scale
    if freedom < LEAST_FREEDOM:
        return 0.0
    if error <= 0:
        return 1.0
    level = 1 - LEVEL ** (1 / design.comparisons)
    found = 1 - float(nctdtr(freedom, difference / error, stdtrit(freedom, 1 - level / 2)))
    return min(1.0, max(0.0, found)) if np.isfinite(found) else 1.0


def count_found(power: float | None) -> int:
    """Return how many of 100 comparisons find it; a plan is never sure."""
    return min(99, round(100 * (power or 0.0)))


def find_least(design: Design, spread: Spread) -> float | None:
    """Return the smallest difference in whole points with 80 % power; None where there is none."""
    found = (points / 100 for points in range(1, MOST_POINTS + 1))
    return next((each for each in found if (predict_power(design, spread, each) or 0.0) >= POWER), None)
