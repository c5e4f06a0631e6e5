"""How far apart two answers are, 0 to 1. An answer is hashable: a word, a number, a frozenset of codes."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from typing import TypeVar

A = TypeVar("A", bound=Hashable)  # an answer
Distance = Callable[[A, A], float]


def nominal_distance(one: Hashable, other: Hashable) -> float:
    """Return 0 for equal answers, else 1."""
    return 0.0 if one == other else 1.0


def masi_distance(one: frozenset[A], other: frozenset[A]) -> float:
    """Return 1 - J * M of two sets (Passonneau 2006, "Measuring Agreement on Set-Valued Items", LREC).

    J is Jaccard's share (common / all). M is 1 for equal sets, 2/3 where one contains the other, 1/3 for any other
    overlap, 0 without one. Two empty sets are equal (0): both mean that nothing is wrong. An empty set has the largest
    distance (1) to any other.
    """
    if one == other:
        return 0.0
    common = len(one & other)
    if not common:
        return 1.0
    monotone = 2 / 3 if common == min(len(one), len(other)) else 1 / 3
    return 1.0 - common / len(one | other) * monotone
