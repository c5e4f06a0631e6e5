"""Which codes are used in place of each other: code by code, over every pair of reviews of one item."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from benchapp.stats.agreement.alpha import Unit
from benchapp.stats.agreement.kappa import pairs

NONE = None  # the row and column for "no code left to pair with"
Cell = tuple[int | None, int | None]  # keys of two codes


def cells_of(one: frozenset[int], other: frozenset[int]) -> Iterator[Cell]:
    """Yield the cells that a pair of code sets counts in, each once.

    A code in both counts on the diagonal. Every code that only one has is paired with every code that only the other
    has. If one has none left, the other's are paired with NONE; two empty sets meet at (NONE, NONE). Codes that agree
    are never paired with others.
    """
    for code in one & other:
        yield code, code
    left, right = one - other, other - one
    if not one and not other:
        yield NONE, NONE
    for a in left or ({NONE} if right else set[None]()):
        for b in right or {NONE}:
            yield a, b


def confusion(units: Sequence[Unit[frozenset[int]]]) -> Counter[Cell]:
    """Count the pairs of reviews in each cell. Reviewers have no order: (a, b) and (b, a) hold the same number."""
    found: Counter[Cell] = Counter()
    for one, other in pairs(units):
        for a, b in cells_of(one, other):
            found[a, b] += 1
            if a != b:
                found[b, a] += 1
    return found
