"""Reading a field of a foreign record. A value of another type than the wanted one reads as nothing and never fails."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import TypeAlias

from runner.base.text import storable, storable_value
from runner.base.types import JsonValue, Usage

Record: TypeAlias = Mapping[str, object]  # one JSON object of a log: nothing is known of its values

OBJECT = (dict, Mapping)  # for isinstance: nearly all are dicts, and the abstract class answers slowly
_TOO_LARGE = 1e15  # for a count or an amount of money
_LATEST_SECONDS = 253_402_300_799  # the end of the year 9999


def read_object(raw: object) -> Record:
    return raw if isinstance(raw, OBJECT) else {}


def read_list(raw: object) -> list[object]:
    return raw if isinstance(raw, list) else []


def read_objects(raw: object) -> list[Record]:
    """The objects of a list, without what else it holds."""
    return [item for item in read_list(raw) if isinstance(item, Mapping)]


def read_text(raw: object) -> str | None:
    """A text as a database can hold it, or None. Times are read this way too: verbatim."""
    return storable(raw) if isinstance(raw, str) else None


def read_number(raw: object) -> int | float | None:
    """A number, or None. JSON's true and false are none."""
    return raw if isinstance(raw, int | float) and not isinstance(raw, bool) else None


def read_amount(raw: object) -> float | None:
    """A number of 0 or more, or None."""
    number = read_number(raw)
    return None if number is None or not 0 <= number < _TOO_LARGE else float(number)


def read_count(raw: object) -> int | None:
    """A whole number of 0 or more, or None. A fraction is cut off."""
    amount = read_amount(raw)
    return None if amount is None else int(amount)


def read_seconds(raw: object) -> str | None:
    """Seconds since 1970 as ISO 8601 in UTC."""
    seconds = read_number(raw)
    if seconds is None or not 0 <= seconds <= _LATEST_SECONDS:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def read_milliseconds(raw: object) -> str | None:
    """Milliseconds since 1970 as ISO 8601 in UTC."""
    count = read_count(raw)
    return None if count is None else read_seconds(count / 1000)


def read_usage(raw: object, sent: str, cached: str, made: str) -> Usage:
    """Tokens by the names of their counts; `sent` includes what came from a cache."""
    record = read_object(raw)
    return Usage(*(read_count(record.get(key)) for key in (sent, cached, made)))


def read_usage_parts(raw: object, sent: tuple[str, str, str], made: str) -> Usage:
    """`sent`: the names under which fresh, cached and cache-written input are counted apart; `made`: that of output."""
    record = read_object(raw)
    counts = [read_count(record.get(key)) for key in sent]
    known = [count for count in counts if count is not None]
    return Usage(sum(known) if known else None, counts[1], read_count(record.get(made)), cache_written=counts[2])


def read_arguments(raw: object) -> dict[str, JsonValue]:
    """Arguments of a tool call. What is no object is kept below the key "raw"."""
    given = raw if isinstance(raw, OBJECT) else {} if raw is None else {"raw": raw}
    arguments: dict[str, JsonValue] = storable_value(given)
    return arguments


def parse_json(text: str) -> JsonValue:
    """The value that a text spells in JSON, raw control characters allowed; None where it spells none."""
    try:
        value: JsonValue = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        return None
    return value


def pick_fields(record: Record, names: tuple[str, ...]) -> dict[str, JsonValue]:
    """Those of the fields that the record has a value for."""
    return {name: storable_value(record[name]) for name in names if record.get(name) is not None}
