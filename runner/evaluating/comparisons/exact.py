"""Comparison byte for byte."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import takewhile

from runner.evaluating.comparisons.comparison import SAME, OutputComparison, differs, shorten_value

CONTEXT = 24  # bytes shown from the first difference on


@dataclass(frozen=True, slots=True)
class Exact:
    """Passes only equal bytes."""

    kind = "exact"

    def compare(self, found: bytes, expected: bytes) -> OutputComparison:
        if found == expected:
            return SAME
        place = _common(found, expected)
        line = expected.count(b"\n", 0, place) + 1
        ends = [
            shorten_value(content[place : place + CONTEXT]) if content[place:] else "the end"
            for content in (found, expected)
        ]
        sizes = "" if len(found) == len(expected) else f" ({len(found):,} bytes, expected {len(expected):,})"
        return differs(0.0, [f"byte {place:,}, line {line:,}: found {ends[0]}, expected {ends[1]}{sizes}"], 1)


def _common(first: bytes, second: bytes) -> int:
    """Count the bytes at the start that both share. Halved down to one block first, so that megabytes cost nothing."""
    low, high = 0, min(len(first), len(second))
    while high - low > 4_096:
        middle = (low + high) // 2
        low, high = (middle, high) if first[low:middle] == second[low:middle] else (low, middle)
    pairs = zip(first[low:high], second[low:high], strict=True)
    return low + sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))
