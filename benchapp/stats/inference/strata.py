"""Compare two ways to run the same tasks, each task several times: an exact test that compares like with like."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from math import comb

import numpy as np

from benchapp.stats.inference.interval import Floats

LEVEL = 0.05
SAME = 1 + 1e-9  # outcomes as likely as the observed one, within rounding, are as extreme


@dataclass(frozen=True, slots=True)
class Stratum:
    """One task: passed and scored trials on both sides."""

    passed: int
    scored: int
    other_passed: int
    other_scored: int


@dataclass(frozen=True, slots=True)
class StratifiedTest:
    """`p`: two-sided. `smallest`: the p of the most extreme result (all passed against none passed); above LEVEL no
    result could have been significant. `excess`: passes on the first side beyond those expected if both are alike;
    pooled shares can point the other way where tasks have unequal numbers of trials."""

    p: float
    smallest: float
    tasks: int
    excess: float

    @property
    def is_enough(self) -> bool:
        return self.smallest <= LEVEL


def stratified_test(strata: Iterable[Stratum]) -> StratifiedTest | None:
    """Run the exact conditional test of a common odds ratio of 1 over 2x2 tables (Gart 1970, Biometrika 57, 471).

    Given how many passed in each task on both sides together, the number of these on the first side is hypergeometric,
    and their sum over tasks is the convolution. p adds all sums that are at most as likely as the observed one. Trials
    of one task with one library count as independent reruns, so the result is about these tasks and libraries alone.
    None where no task was scored on both sides.
    """
    paired = [each for each in strata if each.scored > 0 and each.other_scored > 0]
    if not paired:
        return None
    chances, lowest = np.ones(1), 0
    for each in paired:
        found, first = _chances(each.scored, each.other_scored, each.passed + each.other_passed)
        chances, lowest = np.convolve(chances, found), lowest + first
    seen = sum(each.passed for each in paired) - lowest
    excess = seen - float(chances @ np.arange(len(chances)))
    return StratifiedTest(_p(chances, seen), _smallest(paired), len(paired), excess)


def _chances(own: int, other: int, passed: int) -> tuple[Floats, int]:
    """Return P(k of `passed` on the first side) for each k from the least possible one on, [numbers]; and that k."""
    first, last = max(0, passed - other), min(own, passed)
    ways = comb(own + other, passed)
    return np.array([comb(own, k) * comb(other, passed - k) / ways for k in range(first, last + 1)]), first


def _p(chances: Floats, seen: int) -> float:
    """Return p of all counts no likelier than the one at place `seen` of chances [numbers]."""
    return float(min(1.0, chances[chances <= chances[seen] * SAME].sum()))


def _smallest(strata: list[Stratum]) -> float:
    chances = np.ones(1)
    for each in strata:
        chances = np.convolve(chances, _chances(each.scored, each.other_scored, each.scored)[0])
    return _p(chances, len(chances) - 1)
