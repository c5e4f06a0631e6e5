"""The result of a test: an interval, a p value, and why one of them is missing."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchapp.record.json_shape import Shaped

Floats = NDArray[np.float64]
Ints = NDArray[np.int64]

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

    def within(self, bound: float) -> Interval:
        """Cut to -bound..bound; it covers what is possible no less often."""
        return replace(self, low=max(self.low, -bound), high=min(self.high, bound))


@dataclass(frozen=True, slots=True)
class Outcome:
    """The result of one test. A value that cannot be computed is None; `note` gives the reason.

    estimate: what the interval is about. smallest_p: the smallest p value this test can give on so many units.
    """

    method: str
    estimate: float
    interval: Interval | None = None
    p: float | None = None
    smallest_p: float | None = None
    note: str = ""
