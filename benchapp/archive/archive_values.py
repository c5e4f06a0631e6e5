"""One column's value <-> JSON, checked when read: a file from elsewhere may hold anything."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from typing import TypeAlias, TypeVar
from uuid import UUID

from django.db import models

from benchapp.archive.archive_tables import Column
from runner.base.types import JsonValue

Scalar = TypeVar("Scalar", bool, int, str)
Stored: TypeAlias = "JsonValue | UUID | datetime"  # what a column holds
MAX_TEXT = 16 * 1024 * 1024  # characters of a text column without a limit of its own
MAX_SMALL, MAX_BIG = 2**31 - 1, 2**63 - 1
DIGEST = re.compile(r"[0-9a-f]{64}")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def encode_value(value: Stored) -> JsonValue:
    """Return a value of a row as JSON."""
    return value.isoformat() if isinstance(value, datetime) else str(value) if isinstance(value, UUID) else value


def decode_value(field: Column, value: JsonValue) -> Stored:
    """Return the value for this column. Raise ValueError, with what was expected, if it cannot be stored."""
    if value is None:
        if not field.null:
            raise ValueError("a value")
        return None
    match field:
        case models.BooleanField():
            return _check_type(bool, value, "true or false")
        case models.UUIDField():
            return UUID(_check_type(str, value, "a UUID"))
        case models.DateTimeField():
            return _read_moment(value)
        case models.JSONField():
            return _check_json(field, value)
        case models.FloatField():
            return _read_number(value)
        case models.IntegerField():
            return _check_whole(field, value)
        case models.CharField() | models.TextField():
            return _check_text(field, value)
    raise TypeError(f"{field}: no such column can be in an archive")  # a model got a kind of field that is unknown here


def _check_type(kind: type[Scalar], value: JsonValue, expected: str) -> Scalar:
    if type(value) is kind:
        return value
    raise ValueError(expected)


def _read_moment(value: JsonValue) -> datetime:
    moment = datetime.fromisoformat(_check_type(str, value, "a time"))
    if moment.tzinfo is None:
        raise ValueError("a time with its zone")
    try:
        moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("a time of the years 1 to 9999, also in UTC") from None
    return moment


def _check_json(field: Column, value: JsonValue) -> JsonValue:
    default = field.get_default()
    if default is not None and type(default) is not type(value):
        raise ValueError(f"a JSON {type(default).__name__}")
    if _UNSTORABLE.search(json.dumps(value, ensure_ascii=False)) or "\\u0000" in json.dumps(value):
        raise ValueError("texts without NUL and lone surrogates")
    return value


def _read_number(value: JsonValue) -> float:
    try:
        if isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(number := float(value)):
            return number
    except OverflowError:  # an integer of more than 308 digits
        pass
    raise ValueError("a finite number")


def _check_whole(field: Column, value: JsonValue) -> int:
    number = _check_type(int, value, "a whole number")
    most = MAX_BIG if isinstance(field, models.BigIntegerField) else MAX_SMALL
    positive = isinstance(field, models.PositiveIntegerField | models.PositiveBigIntegerField)
    if not (0 if positive else -most) <= number <= most:
        raise ValueError(f"a whole number of at most {most:,}{' and at least 0' if positive else ''}")
    return number


def _check_text(field: Column, value: JsonValue) -> str:
    text = _check_type(str, value, "a text")
    most = field.max_length or MAX_TEXT
    if len(text) > most:
        raise ValueError(f"a text of at most {most:,} characters")
    if _UNSTORABLE.search(text):
        raise ValueError("a text without NUL and lone surrogates")
    if field.choices and text not in dict(field.flatchoices) and not (field.blank and not text):
        raise ValueError(f"one of {', '.join(map(str, dict(field.flatchoices)))}")
    return text
