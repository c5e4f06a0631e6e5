"""The smallest difference that a design finds 8 times of 10, by the test that will decide (see `difference.primary`)."""

from __future__ import annotations

from functools import cache
from math import sqrt

import numpy as np
from scipy.special import gammaincinv, nctdtrinc, ndtr, stdtrit

from benchapp.stats.inference.interval import TAIL
from benchapp.stats.inference.replicates import MIN_REPLICATES, hold_freedom

POWER = 0.8
GRID = 200  # quantiles of a side's variance, at which power is added up
MOST = 64.0  # standard deviations; halved until the difference is found


def find_detectable(spread: float, replicates: int, clusters: int) -> float | None:
    """In the unit of `spread`, the standard deviation of one replicate's mean; both sides have as many replicates.

    With one replicate: the sign-flip test over `clusters` episodes, taken as Student's t on their differences, whose
    power follows the noncentral t distribution. None where no difference can be found: too few signs to flip, or more
    than a share can differ.
    """
    if replicates >= MIN_REPLICATES:
        least = _solve_welch(replicates) * spread
    elif 2 / 2**clusters <= 2 * TAIL:
        freedom = clusters - 1
        least = float(nctdtrinc(freedom, 1 - POWER, stdtrit(freedom, 1 - TAIL))) * spread * sqrt(2)
    else:
        return None
    return least if least < 1 else None


def assume_spread(tasks: int) -> float:
    """Of a share over so many tasks that pass one time of two, each by itself: the most that chance at the tasks makes.
    What differs between two rounds of learning comes on top."""
    return sqrt(0.25 / tasks)


@cache
def _solve_welch(replicates: int) -> float:
    """In standard deviations of one replicate's mean.

    Satterthwaite's degrees of freedom hang on the variances that are found, so power is its mean over both sides'
    variances, which are chi-squared. With 2(r - 1) degrees of freedom instead, two replicates would seem to find what
    they find only half of the time.
    """
    freedom = replicates - 1
    quantiles = (np.arange(GRID) + 0.5) / GRID
    own, other = np.meshgrid(*[2 * gammaincinv(freedom / 2, quantiles) / freedom] * 2)
    satterthwaite = freedom * np.square(own + other) / (np.square(own) + np.square(other))
    bar = stdtrit(hold_freedom(satterthwaite, freedom), 1 - TAIL) * np.sqrt((own + other) / replicates)
    low, high, error = 0.0, MOST, sqrt(2 / replicates)
    while high - low > 1e-4:
        middle = (low + high) / 2
        low, high = (low, middle) if ndtr((middle - bar) / error).mean() >= POWER else (middle, high)
    return high
