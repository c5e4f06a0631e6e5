"""When two numbers count as equal: in a table, in a JSON tree, alone."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import TypeGuard

_ROUNDING = 1 + 1e-9  # 1.1 is 0.1 from 1.0, though as floats it is a little more


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Allowed distance of a number from the expected one: `absolute`, or `relative` times the expected one's size.

    NaN equals NaN, an infinity the same infinity, -0.0 equals 0.0. Without a tolerance, two integers are compared
    exactly, for any size.
    """

    absolute: float = 0.0
    relative: float = 0.0

    def alike(self, found: float, expected: float) -> bool:
        if found == expected:
            return True
        if isinstance(found, int) and isinstance(expected, int) and not (self.absolute or self.relative):
            return False
        try:
            ours, theirs = float(found), float(expected)
        except OverflowError:
            return False
        if math.isnan(theirs) or math.isnan(ours):
            return math.isnan(theirs) and math.isnan(ours)
        if math.isinf(theirs) or math.isinf(ours):
            return False  # equal ones were seen above
        return abs(ours - theirs) <= max(self.absolute, self.relative * abs(theirs)) * _ROUNDING


NONE = Tolerance()


def is_number(value: object) -> TypeGuard[int | float]:
    return isinstance(value, int | float) and not isinstance(value, bool)


def number_in(value: object) -> int | float | None:
    """Return a number, or the one that a text spells. None for everything else."""
    if is_number(value):
        return value
    if not isinstance(value, str) or len(value) > 400 or "_" in value:
        return None
    for read in (int, float):
        try:
            return read(value.strip())
        except ValueError:
            continue
    return None
