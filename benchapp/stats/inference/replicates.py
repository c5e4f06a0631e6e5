"""The mean of several replicates: the replicate is the unit."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from scipy.special import stdtrit

from benchapp.stats.inference.interval import TAIL, ZERO, Floats, Interval

MIN_REPLICATES = 2  # one value has no spread


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
