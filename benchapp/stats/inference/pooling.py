"""One effect over several agent models: random effects, whose spread between models is estimated (REML).

Interval by Hartung and Knapp (2001), prediction for another model by Higgins, Thompson and Spiegelhalter (2009), the
likelihood by Viechtbauer (2005). Numbers printed without an error have an error of 0: then it is Student's t over
models.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.inference.interval import TAIL, ZERO, Floats
from benchapp.stats.numerics import minimise, t_value

FEWEST_MODELS = 3


class PooledEffect(Shaped):
    """mean with its 95 % interval low..high, and the range for another model's effect, all in the unit of the
    differences. spread: SD between models, beyond their errors."""

    json_shape = JsonShape("models mean low high spread another_low another_high wins ties losses")

    def __init__(self, deltas: Sequence[float], errors: Sequence[float]) -> None:
        """Pool differences and their standard errors, one a model."""
        effects, variances = np.array(deltas, dtype=float), np.square(np.array(errors, dtype=float))
        self.models = len(effects)
        between = _estimate_between(effects, variances)
        self.spread = float(np.sqrt(between))
        weight = 1 / np.maximum(variances + between, ZERO)
        self.mean = float(weight @ effects / weight.sum())
        error = float(np.sqrt(weight @ (effects - self.mean) ** 2 / ((self.models - 1) * weight.sum())))
        half = t_value(self.models - 1, 1 - TAIL) * error
        self.low, self.high = self.mean - half, self.mean + half
        apart = t_value(self.models - 2, 1 - TAIL) * float(np.sqrt(between + error**2))
        self.another_low, self.another_high = self.mean - apart, self.mean + apart
        self.wins = int((effects > ZERO).sum())
        self.ties = int((np.abs(effects) <= ZERO).sum())
        self.losses = int((effects < -ZERO).sum())


def pool_models(deltas: Sequence[float], errors: Sequence[float]) -> PooledEffect | None:
    """Pool differences and their standard errors, one a model; None below three models."""
    return PooledEffect(deltas, errors) if len(deltas) >= FEWEST_MODELS else None


def _estimate_between(effects: Floats, variances: Floats) -> float:
    """Return the variance between models with the largest restricted likelihood."""
    most = float(effects.var(ddof=1))
    if most <= ZERO:
        return 0.0
    if not variances.any():
        return most

    def loss(between: float) -> float:
        weight = 1 / (variances + between)
        mean = weight @ effects / weight.sum()
        return float(-np.log(weight).sum() + np.log(weight.sum()) + weight @ (effects - mean) ** 2)

    found = minimise(loss, 4 * most, most * 1e-6)
    return found if variances.min() <= 0 or loss(found) < loss(0.0) else 0.0
