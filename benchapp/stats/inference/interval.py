"""An interval, the common level, and Student's interval for the mean of several replicates."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.special import stdtrit

from benchapp.record.json_shape import Shaped

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

LEVEL = 0.95  # every interval here; every test is two-sided at 1 - LEVEL
TAIL = (1 - LEVEL) / 2
ZERO = 1e-12  # of the largest value: shares are fractions, whose differences have to be 0 where they are


@dataclass(frozen=True, slots=True)
class Interval(Shaped):
    """Ends in the unit of the metric (shares: -1..1 for a difference), with the method behind them."""

    low: float
    high: float
    level: float = LEVEL
    method: str = ""

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0


def mean_interval(means: Floats) -> Interval | None:
    """Return Student's t of the mean of replicate means [r], in the metric's unit; None below two, and without spread.

    It covers another round of learning on these tasks. Do not read a difference between two groups from two of these.
    """
    if len(means) < 2 or float(np.ptp(means)) <= ZERO:
        return None
    half = float(-stdtrit(len(means) - 1, TAIL) * means.std(ddof=1) / np.sqrt(len(means)))
    middle = float(means.mean())
    return Interval(middle - half, middle + half, method="t over replicate means")


def share_interval(shares: Sequence[float]) -> tuple[float, float] | None:
    """Return the same for one share per replicate, cut to 0..1."""
    found = mean_interval(np.array(shares, dtype=float))
    return (max(0.0, found.low), min(1.0, found.high)) if found else None
