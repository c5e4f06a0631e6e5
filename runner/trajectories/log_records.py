"""Reading a field of a foreign record. A value of the wrong type reads as empty and never fails."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TypeAlias

from runner.base.text import storable, storable_value
from runner.base.types import JsonValue, Usage

Record: TypeAlias = Mapping[str, object]  # one JSON object of a log with unknown values

OBJECT = (dict, Mapping)  # for isinstance: nearly all are dicts, and the abstract class answers slowly
_TOO_LARGE = 1e15  # for a count or an amount of money
_LATEST_SECONDS = 253_402_300_799  # the end of the year 9999


def read_object(raw: object) -> Record:
    return {} if raw is None else raw if isinstance(raw, OBJECT) else {}


def read_list(raw: object) -> list[object]:
    return raw if isinstance(raw, list) else []


def read_objects(raw: object) -> list[Record]:
    """Return the objects of a list, without its other items."""
    return [item for item in read_list(raw) if isinstance(item, Mapping)]


def read_text(raw: object) -> str | None:
    """Return a text that a database can hold, or None. Times are read this way too: verbatim."""
    return storable(raw) if isinstance(raw, str) else None


def read_number(raw: object) -> int | float | None:
    """Return a number, or None. JSON's true and false do not count."""
    return raw if isinstance(raw, int | float) and not isinstance(raw, bool) else None


def read_amount(raw: object) -> float | None:
    """A number of 0 or more, or None."""
    number = read_number(raw)
    return None if number is None or not 0 <= number < _TOO_LARGE else float(number)


def read_count(raw: object) -> int | None:
    """Return a whole number of 0 or more, or None. A fraction is cut off."""
    amount = read_amount(raw)
    return None if amount is None else int(amount)


def read_seconds(raw: object) -> str | None:
    """Convert seconds since 1970 to ISO 8601 in UTC."""
    seconds = read_number(raw)
    if seconds is None or not 0 <= seconds <= _LATEST_SECONDS:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read_milliseconds(raw: object) -> str | None:
    """Convert milliseconds since 1970 to ISO 8601 in UTC."""
    count = read_count(raw)
    return None if count is None else read_seconds(count / 1000)


def read_usage(raw: object, sent: str, cached: str, made: str) -> Usage:
    """Read tokens by the names of their counts. `sent` includes what came from a cache."""
    record = read_object(raw)
    return Usage(*(read_count(record.get(key)) for key in (sent, cached, made)))


def read_usage_parts(raw: object, sent: tuple[str, str, str], made: str) -> Usage:
    """`sent`: names of the separate counts of fresh, cached and cache-written input; `made`: that of output."""
    record = read_object(raw)
    counts = [read_count(record.get(key)) for key in sent]
    known = [count for count in counts if count is not None]
    return Usage(sum(known) if known else None, counts[1], read_count(record.get(made)), cache_written=counts[2])


def read_arguments(raw: object) -> dict[str, JsonValue]:
    """Read a tool call's arguments. A value that is not an object is kept below the key "raw"."""
    given = raw if isinstance(raw, OBJECT) else {} if raw is None else {"raw": raw}
    arguments: dict[str, JsonValue] = storable_value(given)
    return arguments


def parse_json(text: str) -> JsonValue:
    """Parse a text as JSON, raw control characters allowed. None if it is invalid."""
    try:
        value: JsonValue = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return value


def pick_fields(record: Record, names: tuple[str, ...]) -> dict[str, JsonValue]:
    """Select those of the fields that have a value in the record."""
    return {name: storable_value(record[name]) for name in names if record.get(name) is not None}
