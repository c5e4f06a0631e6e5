"""One effect over several agent models: random effects, whose spread between models is estimated (REML).

Interval by Hartung and Knapp (2001), prediction for another model by Higgins, Thompson and Spiegelhalter (2009), the
likelihood by Viechtbauer (2005). Numbers printed without an error have an error of 0: then it is Student's t over
models.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from benchapp.record.json_shape import Shaped
from benchapp.stats.inference.interval import TAIL, ZERO, Floats
from benchapp.stats.numerics import minimise, t_value

FEWEST_MODELS = 3


@dataclass(frozen=True, slots=True)
class PooledEffect(Shaped):
    """mean with its 95 % interval low..high, and the range for another model's effect, all in the unit of the
    differences. spread: SD between models, beyond their errors."""

    models: int
    mean: float
    low: float
    high: float
    spread: float
    another_low: float
    another_high: float
    wins: int
    ties: int
    losses: int


def pool_models(deltas: Sequence[float], errors: Sequence[float]) -> PooledEffect | None:
    """Pool differences and their standard errors, one a model; None below three models."""
    effects, variances = np.array(deltas, dtype=float), np.square(np.array(errors, dtype=float))
    count = len(effects)
    if count < FEWEST_MODELS:
        return None
    between = _estimate_between(effects, variances)
    weight = 1 / np.maximum(variances + between, ZERO)
    mean = float(weight @ effects / weight.sum())
    error = float(np.sqrt(weight @ (effects - mean) ** 2 / ((count - 1) * weight.sum())))
    half = t_value(count - 1, 1 - TAIL) * error
    apart = t_value(count - 2, 1 - TAIL) * float(np.sqrt(between + error**2))
    return PooledEffect(
        models=count,
        mean=mean,
        low=mean - half,
        high=mean + half,
        spread=float(np.sqrt(between)),
        another_low=mean - apart,
        another_high=mean + apart,
        wins=int((effects > ZERO).sum()),
        ties=int((np.abs(effects) <= ZERO).sum()),
        losses=int((effects < -ZERO).sum()),
    )


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
