"""Numbers: one, many separated by white space or commas, or a JSON tree of them."""

from __future__ import annotations

import math
from dataclasses import dataclass

from runner.evaluating.comparisons.comparison import (
    MAX_DIFFERENCES,
    SAME,
    OutputComparison,
    PrecheckFailed,
    decode_text,
    differs,
    shorten_value,
)
from runner.evaluating.comparisons.json_tree import JsonTree, below, read_json
from runner.evaluating.comparisons.numbers import Tolerance, number_in

MAX_NUMBERS = 500_000


@dataclass(frozen=True, slots=True)
class Numeric:
    """Text that starts like a JSON array or object is read as JSON; everything else as a list of numbers."""

    tolerance: Tolerance = Tolerance()

    kind = "numeric"

    def compare(self, found: bytes, expected: bytes) -> OutputComparison:
        if _is_tree(expected):
            _require_numbers(read_json(found))
            return JsonTree(self.tolerance).compare(found, expected)
        ours, theirs = _numbers(found), _numbers(expected)
        pairs = list(zip(ours, theirs, strict=False))
        wrong = [place for place, pair in enumerate(pairs) if not self.tolerance.alike(*pair)]
        named = [_describe_difference(place, *pairs[place]) for place in wrong[:MAX_DIFFERENCES]]
        if len(ours) != len(theirs):
            named.insert(0, f"found {len(ours):,} numbers, expected {len(theirs):,}")
        if not named:
            return SAME
        score = (len(pairs) - len(wrong)) / max(len(ours), len(theirs))
        return differs(score, named, len(wrong) + (len(ours) != len(theirs)), numbers_only=len(ours) == len(theirs))


def _is_tree(content: bytes) -> bool:
    return decode_text(content).lstrip()[:1] in ("[", "{")


def _require_numbers(value: object) -> None:
    """Raise PrecheckFailed, with place and value, for a text or null in the tree."""
    pending = [("$", value)]
    while pending:
        place, each = pending.pop()
        if isinstance(each, dict):
            pending += [(below(place, key), inner) for key, inner in each.items()]
        elif isinstance(each, list):
            pending += [(below(place, index), inner) for index, inner in enumerate(each)]
        elif isinstance(each, bool) or not isinstance(each, int | float):
            raise PrecheckFailed("format", f"{place}: {shorten_value(each)} is no number")


def _numbers(content: bytes) -> list[int | float]:
    words = decode_text(content).replace(",", " ").split()
    if not words:
        raise PrecheckFailed("format", "no number: it is empty")
    if len(words) > MAX_NUMBERS:
        raise PrecheckFailed("size", f"more than {MAX_NUMBERS:,} numbers")
    found = []
    for place, word in enumerate(words, 1):
        value = number_in(word)
        if value is None:
            raise PrecheckFailed("format", f"word {place:,}: {shorten_value(word)} is no number")
        found.append(value)
    return found


def _describe_difference(place: int, found: float, expected: float) -> str:
    try:
        apart = abs(float(found) - float(expected))
    except OverflowError:
        apart = math.inf
    by = f" (apart by {apart:.6g})" if math.isfinite(apart) else ""
    return f"number {place + 1:,}: found {shorten_value(found)}, expected {shorten_value(expected)}{by}"
