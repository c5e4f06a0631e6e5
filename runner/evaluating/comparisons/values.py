"""Numbers with a tolerance, alone, in lists and in JSON trees: objects by their keys, arrays in order or as bags."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeGuard

from runner.base.types import JsonValue
from runner.evaluating.comparisons.comparison import (
    MAX_DIFFERENCES,
    SAME,
    OutputComparison,
    PrecheckFailed,
    decode_text,
    differs,
    shorten_value,
)
from runner.models.json_reply import RepeatedName, take_names_once

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


MAX_DEPTH = 100
MAX_VALUES = 500_000  # of one tree, its inner ones too
_NOTHING = object()


def read_json(content: bytes) -> JsonValue:
    """Return the value. NaN and Infinity are accepted as Python writes them; a repeated key is refused."""
    try:
        value: JsonValue = json.loads(decode_text(content), object_pairs_hook=take_keys_once)
    except json.JSONDecodeError as error:
        raise PrecheckFailed("format", f"no JSON at line {error.lineno}, column {error.colno}: {error.msg}") from error
    except RecursionError as error:
        raise PrecheckFailed("format", f"JSON nested deeper than {MAX_DEPTH} levels") from error
    except PrecheckFailed:
        raise
    except ValueError as error:  # an integer of more digits than Python reads
        raise PrecheckFailed("format", str(error)[:200]) from error
    require_bounded(value)
    return value


def take_keys_once(pairs: list[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    """Raise PrecheckFailed for a repeated key: either value could be meant."""
    try:
        return take_names_once(pairs)
    except RepeatedName as error:
        raise PrecheckFailed(
            "format", f"the key {shorten_value(error.name)} stands twice in one JSON object"
        ) from error


def require_bounded(value: JsonValue) -> None:
    """Raise PrecheckFailed for more levels or values than can be compared."""
    level, count = [value], 0
    for _ in range(MAX_DEPTH):
        count += len(level)
        if count > MAX_VALUES:
            raise PrecheckFailed("size", f"more than {MAX_VALUES:,} values in one JSON tree")
        level = [inner for each in level for inner in _inner(each)]
        if not level:
            return
    raise PrecheckFailed("format", f"JSON nested deeper than {MAX_DEPTH} levels")


def _inner(value: object) -> list[JsonValue]:
    return list(value.values()) if isinstance(value, dict) else value if isinstance(value, list) else []


@dataclass(frozen=True, slots=True)
class JsonTree:
    """The score is the share of leaves that are alike, of all leaves of both trees.

    With `any_order`, both arrays are sorted by the spelling of their elements before they are compared. Ignored keys
    are left out and inner arrays sorted first. Elements that are alike only within the tolerance may not meet: a
    tolerance needs an order.
    """

    tolerance: Tolerance = Tolerance()
    any_order: bool = False  # of arrays
    ignored_keys: frozenset[str] = frozenset()  # of every object

    kind = "json"

    def compare(self, found: bytes, expected: bytes) -> OutputComparison:
        leaves = wrong = count = 0
        numbers_only = True
        named: list[str] = []
        for place, ours, theirs, size in self._pairs(*(self._plain(read_json(each)) for each in (found, expected))):
            leaves += size
            if not self._alike(ours, theirs):
                wrong, count = wrong + size, count + 1
                numbers_only &= is_number(ours) and is_number(theirs)
                if count <= MAX_DIFFERENCES:
                    named.append(f"{place}: {_describe_difference(ours, theirs)}")
        return differs(1 - wrong / leaves, named, count, numbers_only=numbers_only) if wrong else SAME

    def _pairs(self, ours: object, theirs: object) -> Iterator[tuple[str, object, object, int]]:
        """(place, found, expected, leaves) of every pair except two objects or two arrays, in order."""
        pending = [("$", ours, theirs)]
        while pending:
            place, ours, theirs = pending.pop()
            if isinstance(ours, dict) and isinstance(theirs, dict) and (ours or theirs):
                keys = sorted(ours.keys() | theirs.keys(), reverse=True)
                pending += [(below(place, key), ours.get(key, _NOTHING), theirs.get(key, _NOTHING)) for key in keys]
            elif isinstance(ours, list) and isinstance(theirs, list) and (ours or theirs):
                places = reversed(range(max(len(ours), len(theirs))))
                pending += [(below(place, index), _at(ours, index), _at(theirs, index)) for index in places]
            else:
                yield place, ours, theirs, max(_leaves(ours), _leaves(theirs))

    def _plain(self, value: object) -> object:
        """The tree without what does not count: ignored keys, and the order of arrays with `any_order`."""
        if isinstance(value, dict):
            return {key: self._plain(inner) for key, inner in value.items() if key not in self.ignored_keys}
        if not isinstance(value, list):
            return value
        inner = [self._plain(each) for each in value]
        return sorted(inner, key=spell_value) if self.any_order else inner

    def _alike(self, found: object, expected: object) -> bool:
        if is_number(found) and is_number(expected):
            return self.tolerance.alike(found, expected)
        return type(found) is type(expected) and found == expected


def spell_value(value: object) -> str:
    """JSON that is equal for equal values: 1 and 1.0, or keys in another order."""
    return json.dumps(_reduce_numbers(value), sort_keys=True)


def _reduce_numbers(value: object) -> object:
    if isinstance(value, dict):
        return {key: _reduce_numbers(inner) for key, inner in value.items()}
    if isinstance(value, list):
        return [_reduce_numbers(each) for each in value]
    return int(value) if isinstance(value, float) and value.is_integer() else value


def below(place: str, step: str | int) -> str:
    """The place of an inner value, cut at its front if it gets long."""
    place = place if len(place) <= 200 else f"...{place[-200:]}"
    return f"{place}[{step}]" if isinstance(step, int) else f"{place}.{step[:60]}"


def _at(values: list[object], index: int) -> object:
    return values[index] if index < len(values) else _NOTHING


def _leaves(value: object) -> int:
    """An empty object or array is one leaf."""
    pending, count = [value], 0
    while pending:
        inner = _inner(pending.pop())
        pending += inner
        count += not inner
    return count


def _describe_difference(found: object, expected: object) -> str:
    if found is _NOTHING:
        return f"missing, expected {_brief(expected)}"
    if expected is _NOTHING:
        return f"found {_brief(found)}, expected nothing there"
    return f"found {_brief(found)}, expected {_brief(expected)}"


def _brief(value: object) -> str:
    if isinstance(value, dict):
        return f"an object of {len(value):,} keys"
    return f"an array of {len(value):,}" if isinstance(value, list) else shorten_value(value)


MAX_NUMBERS = 500_000


@dataclass(frozen=True, slots=True)
class Numeric:
    """Text that starts like a JSON array or object is read as JSON; everything else as a list of numbers."""

    tolerance: Tolerance = Tolerance()

    kind = "numeric"

    def compare(self, found: bytes, expected: bytes) -> OutputComparison:
        if decode_text(expected).lstrip()[:1] in ("[", "{"):
            _require_numbers(read_json(found))
            return JsonTree(self.tolerance).compare(found, expected)
        ours, theirs = _numbers(found), _numbers(expected)
        pairs = list(zip(ours, theirs, strict=False))
        wrong = [place for place, pair in enumerate(pairs) if not self.tolerance.alike(*pair)]
        named = [_describe_numbers(place, *pairs[place]) for place in wrong[:MAX_DIFFERENCES]]
        if len(ours) != len(theirs):
            named.insert(0, f"found {len(ours):,} numbers, expected {len(theirs):,}")
        if not named:
            return SAME
        score = (len(pairs) - len(wrong)) / max(len(ours), len(theirs))
        return differs(score, named, len(wrong) + (len(ours) != len(theirs)), numbers_only=len(ours) == len(theirs))


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


def _describe_numbers(place: int, found: float, expected: float) -> str:
    try:
        apart = abs(float(found) - float(expected))
    except OverflowError:
        apart = math.inf
    by = f" (apart by {apart:.6g})" if math.isfinite(apart) else ""
    return f"number {place + 1:,}: found {shorten_value(found)}, expected {shorten_value(expected)}{by}"
