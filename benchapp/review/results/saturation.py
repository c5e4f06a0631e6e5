"""Does coding more items still find new codes? Pure.

The chance that the next item has one is Good's and Turing's (Good 1953), item by item: the share of coded items with a
code that no other item has. Each of them would have been a surprise as the last one.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from benchapp.stats.inference.shares import half_up, wilson

FEW = 30  # reviewed items; with fewer, shares and forecasts mean nothing


@dataclass(frozen=True, slots=True)
class Saturation:
    """found: number of different codes after each item, in the order of coding, [items]. last_new: the item (from 1)
    with the last new code; 0 without any. lone: items with a code that no other item has."""

    found: tuple[int, ...]
    last_new: int
    lone: int

    @property
    def items(self) -> int:
        return len(self.found)

    @property
    def still(self) -> int:
        """The number of items since the last new code."""
        return self.items - self.last_new

    @property
    def chance(self) -> float | None:
        """The chance that the next item has a new code."""
        return self.lone / self.items if self.items else None

    @property
    def at_most(self) -> float | None:
        """The upper end of its 95 % interval (Wilson); the estimate itself is 0 when every code occurred twice."""
        return wilson(self.lone, self.items)[1] if self.items else None

    @property
    def in_short(self) -> str:
        """What to expect from the next hundred items."""
        if self.chance is None or self.at_most is None:
            return "unknown yet"
        if self.items < FEW:
            return f"appear once {FEW} are reviewed"
        high = half_up(100 * self.at_most)
        return (
            f"about {half_up(100 * self.chance)} in 100 more, {high} at most"
            if self.lone
            else f"{high} at most in 100 more"
        )

    def says(self) -> str:
        if self.chance is None or self.at_most is None:
            return "Nothing is coded yet."
        codes, items = _count(self.found[-1], "cause"), _count(self.items, "item")
        if not self.found[-1]:
            return f"No cause was used in {items}."
        high = half_up(100 * self.at_most)
        if not self.lone:
            return f"{codes} in {items}, each more than once. Of 100 more, {high} at most bring a new one."
        return f"{codes} in {items}. Of 100 more, about {half_up(100 * self.chance)} bring a new one, {high} at most."


def _count(n: int, noun: str) -> str:
    return f"{n} {noun}{'' if n == 1 else 's'}"


def saturation_of(items: Sequence[frozenset[int]]) -> Saturation:
    """Measure saturation. `items`: the codes of each item, in the order of coding."""
    seen: set[int] = set()
    found, last = [], 0
    for place, codes in enumerate(items, start=1):
        if codes - seen:
            seen |= codes
            last = place
        found.append(len(seen))
    times = Counter(code for codes in items for code in codes)
    return Saturation(tuple(found), last, sum(any(times[code] == 1 for code in codes) for codes in items))
