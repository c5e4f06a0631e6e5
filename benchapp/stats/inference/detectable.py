"""The smallest difference that a design finds 8 times of 10, by the test that will decide (see `difference.primary`)."""

from __future__ import annotations

from math import sqrt

from scipy.special import nctdtrinc, stdtrit

from benchapp.stats.inference.interval import TAIL
from benchapp.stats.inference.replicates import MIN_REPLICATES

POWER = 0.8


def find_detectable(spread: float, replicates: int, clusters: int) -> float | None:
    """In the unit of `spread`, the standard deviation of one replicate's mean; both sides have as many replicates.

    With replicates: Welch's t, whose power follows the noncentral t distribution. With one: the sign-flip test over
    `clusters` episodes, taken as Student's t on their differences. None where no difference can be found: too few
    signs to flip, or more than a share can differ.
    """
    if replicates >= MIN_REPLICATES:
        freedom, error = 2 * (replicates - 1), spread * sqrt(2 / replicates)
    elif 2 / 2**clusters <= 2 * TAIL:
        freedom, error = clusters - 1, spread * sqrt(2)
    else:
        return None
    least = float(nctdtrinc(freedom, 1 - POWER, stdtrit(freedom, 1 - TAIL))) * error
    return least if least < 1 else None


def assume_spread(tasks: int) -> float:
    """Of a share over so many tasks that pass one time of two, each by itself: the most that chance at the tasks makes.
    What differs between two rounds of learning comes on top."""
    return sqrt(0.25 / tasks)
