"""Does coding more items still bring up new codes? Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

STILL = 15  # items in a row that add nothing: the usual stopping rule of open coding says 10 to 15


@dataclass(frozen=True, slots=True)
class Saturation:
    """found: different codes seen after each item, in the order the items were coded, [items]. last_new: the item (from 1)
    that brought the last new code; 0 where none did."""

    found: tuple[int, ...]
    last_new: int

    @property
    def items(self) -> int:
        return len(self.found)

    @property
    def still(self) -> int:
        """How many items there were since the last new code."""
        return self.items - self.last_new

    @property
    def is_reached(self) -> bool:
        return self.still >= STILL

    def says(self) -> str:
        if not self.items:
            return "Nothing is coded yet."
        codes = self.found[-1]
        seen = f"{codes} {'code' if codes == 1 else 'codes'} in {self.items} {'item' if self.items == 1 else 'items'}"
        if not codes:
            return f"No code was used in {self.items} {'item' if self.items == 1 else 'items'}."
        if self.is_reached:
            return f"{seen}; the last {self.still} items brought no new code, so more of the same kind would hardly bring one."
        since = (
            "the last one"
            if not self.still
            else f"{self.still} before the last"
            if self.still > 1
            else "the last but one"
        )
        return f"{seen}; {since} still brought a new one. {STILL} in a row that bring none would be a reason to stop."


def saturation_of(items: Sequence[frozenset[int]]) -> Saturation:
    """`items`: the codes each item got, in the order they were coded."""
    seen: set[int] = set()
    found, last = [], 0
    for place, codes in enumerate(items, start=1):
        if codes - seen:
            seen |= codes
            last = place
        found.append(len(seen))
    return Saturation(tuple(found), last)
