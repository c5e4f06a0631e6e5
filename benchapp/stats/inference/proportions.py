"""Two pass-or-fail columns on the same tasks."""

from __future__ import annotations

from dataclasses import dataclass
from math import sqrt

import numpy as np

from benchapp.stats.inference.interval import Floats, Interval
from benchapp.stats.inference.shares import wilson


@dataclass(frozen=True, slots=True)
class PassPairs:
    """Numbers of tasks by (own, other): both passed, only own, only other, neither."""

    both: int
    own_only: int
    other_only: int
    neither: int

    @property
    def n(self) -> int:
        return self.both + self.own_only + self.other_only + self.neither

    @property
    def discordant(self) -> tuple[int, int]:
        """McNemar's two counts (McNemar 1947). Shown, not tested: tasks that share a library are not independent."""
        return self.own_only, self.other_only


def pairs(own: Floats, other: Floats) -> PassPairs:
    """Count two columns of 0 and 1, [n] each."""
    a, b = own.astype(bool), other.astype(bool)
    both, own_only, other_only = int((a & b).sum()), int((a & ~b).sum()), int((~a & b).sum())
    return PassPairs(both, own_only, other_only, len(a) - both - own_only - other_only)


def newcombe_paired(counts: PassPairs) -> Interval:
    """Newcombe's interval for a difference of paired proportions (Newcombe 1998, Stat. Med. 17, 2635: method 10).

    Squares and adds the two Wilson intervals, less what the correlation of the pairs takes away; a positive
    correlation is first drawn towards 0 by half a task. Tasks count as independent, so it describes only.
    """
    n = counts.n
    if n < 1:
        raise ValueError("newcombe_paired: expected at least one task")
    k_own, k_other = counts.both + counts.own_only, counts.both + counts.other_only
    p_own, p_other = k_own / n, k_other / n
    low_own, high_own = wilson(k_own, n)
    low_other, high_other = wilson(k_other, n)
    phi = _correlation(counts)
    low = p_own - p_other - _length(p_own - low_own, high_other - p_other, phi)
    high = p_own - p_other + _length(high_own - p_own, p_other - low_other, phi)
    return Interval(max(-1.0, low), min(1.0, high), method="Newcombe, paired; tasks as if independent")


def _length(own: float, other: float, phi: float) -> float:
    return sqrt(max(0.0, own * own - 2 * phi * own * other + other * other))


def _correlation(counts: PassPairs) -> float:
    k_own, k_other = counts.both + counts.own_only, counts.both + counts.other_only
    product = k_own * (counts.n - k_own) * k_other * (counts.n - k_other)
    if not product:
        return 0.0
    excess = counts.both * counts.neither - counts.own_only * counts.other_only
    corrected = max(excess - counts.n / 2, 0.0) if excess > 0 else float(excess)
    return corrected / float(np.sqrt(float(product)))
