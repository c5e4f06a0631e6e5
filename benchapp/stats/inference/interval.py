"""An interval, and the level of all of them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchapp.record.json_shape import Shaped

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]
Mask = NDArray[np.bool_]

LEVEL = 0.95  # every interval here; every test is two-sided at 1 - LEVEL
TAIL = (1 - LEVEL) / 2
ZERO = 1e-12  # of the largest value: shares are fractions, whose differences have to be 0 where they are


@dataclass(frozen=True, slots=True)
class Interval(Shaped):
    """Ends in the unit of the metric (shares: -1..1 for a difference), with the method that made them."""

    low: float
    high: float
    level: float = LEVEL
    method: str = ""

    @property
    def excludes_zero(self) -> bool:
        return self.low > 0 or self.high < 0
