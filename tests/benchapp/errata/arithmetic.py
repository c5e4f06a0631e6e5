"""Sums and means of printed numbers, and what their rounding allows.

A sum or mean of printed numbers contradicts another printed number only where no numbers that round to them agree.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from benchapp.papers.published_rows import PrintedNumber


def mean(cells: Sequence[PrintedNumber]) -> Fraction:
    """Of the numbers as printed, in the unit of the cells."""
    return sum((cell.number for cell in cells), Fraction(0)) / len(cells)


def sum_may_be(parts: Sequence[PrintedNumber], whole: PrintedNumber, share: Fraction = Fraction(1)) -> bool:
    """Whether some numbers that round to `parts` have a sum, times `share`, that rounds to `whole`."""
    spans = [part.span for part in parts]
    low, high = (share * sum((span[end] for span in spans), Fraction(0)) for end in (0, 1))
    return low <= whole.span[1] and high >= whole.span[0]


def mean_may_be(parts: Sequence[PrintedNumber], whole: PrintedNumber) -> bool:
    """Whether some numbers that round to `parts` have a mean that rounds to `whole`."""
    return sum_may_be(parts, whole, Fraction(1, len(parts)))
