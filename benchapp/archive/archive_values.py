"""One column's value <-> JSON, checked on the way in: a file from elsewhere may say anything."""

from __future__ import annotations

import json
import math
import re
from datetime import UTC, datetime
from typing import Any
from uuid import UUID

from django.db import models
from django.db.models import Field

MAX_TEXT = 16 * 1024 * 1024  # characters of a text column without a limit of its own
MAX_SMALL, MAX_BIG = 2**31 - 1, 2**63 - 1
DIGEST = re.compile(r"[0-9a-f]{64}")
_UNSTORABLE = re.compile("[\0\ud800-\udfff]")


def encode_value(value: Any) -> Any:
    """A value of a row as JSON can say it."""
    return value.isoformat() if isinstance(value, datetime) else str(value) if isinstance(value, UUID) else value


def decode_value(field: Field, value: Any) -> Any:
    """The value for this column. ValueError, which says what was expected, for anything the column cannot hold."""
    if value is None:
        if not field.null:
            raise ValueError("a value")
        return None
    match field:
        case models.BooleanField():
            return _of(bool, value, "true or false")
        case models.UUIDField():
            return UUID(_of(str, value, "a UUID"))
        case models.DateTimeField():
            return _moment(value)
        case models.JSONField():
            return _json(field, value)
        case models.FloatField():
            return _number(value)
        case models.IntegerField():
            return _whole(field, value)
        case models.CharField() | models.TextField():
            return _text(field, value)
    raise TypeError(f"{field}: no such column can be in an archive")  # a model grew a kind that is not known here


def _of(kind: type, value: Any, expected: str) -> Any:
    if type(value) is not kind:
        raise ValueError(expected)
    return value


def _moment(value: Any) -> datetime:
    moment = datetime.fromisoformat(_of(str, value, "a time"))
    if moment.tzinfo is None:
        raise ValueError("a time with its zone")
    try:
        moment.astimezone(UTC)
    except OverflowError:
        raise ValueError("a time of the years 1 to 9999, also in UTC") from None
    return moment


def _json(field: Field, value: Any) -> Any:
    default = field.get_default()
    if default is not None and type(default) is not type(value):
        raise ValueError(f"a JSON {type(default).__name__}")
    if _UNSTORABLE.search(json.dumps(value, ensure_ascii=False)) or "\\u0000" in json.dumps(value):
        raise ValueError("texts without NUL and lone surrogates")
    return value


def _number(value: Any) -> float:
    if type(value) not in (int, float):
        raise ValueError("a finite number")
    try:
        number = float(value)
    except OverflowError:  # an integer of more than 308 digits
        number = math.inf
    if not math.isfinite(number):
        raise ValueError("a finite number")
    return number


def _whole(field: Field, value: Any) -> int:
    number: int = _of(int, value, "a whole number")
    most = MAX_BIG if isinstance(field, models.BigIntegerField) else MAX_SMALL
    positive = isinstance(field, models.PositiveIntegerField | models.PositiveBigIntegerField)
    if not (0 if positive else -most) <= number <= most:
        raise ValueError(f"a whole number of at most {most:,}{' and at least 0' if positive else ''}")
    return number


def _text(field: Field, value: Any) -> str:
    text: str = _of(str, value, "a text")
    most = field.max_length or MAX_TEXT
    if len(text) > most:
        raise ValueError(f"a text of at most {most:,} characters")
    if _UNSTORABLE.search(text):
        raise ValueError("a text without NUL and lone surrogates")
    if field.choices and text not in dict(field.flatchoices) and not (field.blank and not text):
        raise ValueError(f"one of {', '.join(map(str, dict(field.flatchoices)))}")
    return text
