"""The runner's values as JSON values and back, by their type hints.

A dataclass becomes an object of its fields, a union of dataclasses is distinguished by "type", bytes are {"text": ...}
if they are UTF-8 and else {"base64": ...}, times are ISO 8601.
"""

from __future__ import annotations

import base64
import dataclasses
import math
import types
import typing
from collections.abc import Mapping
from datetime import datetime
from enum import Enum
from functools import cache
from typing import Any, TypeVar, cast

T = TypeVar("T")
WRITTEN_IF_SET = {
    "written": "if set"
}  # metadata of a field that is left out where it has its default, as in older files


class Undecodable(ValueError):
    """A JSON value does not match its type. The message names the place."""


def encode(value: object) -> Any:
    """Return the JSON value of a runner value. Objects carry "type" so that a union can be read back."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        fields = {
            field.name: encode(item)
            for field in dataclasses.fields(value)
            if (item := getattr(value, field.name)) != field.default or field.metadata != WRITTEN_IF_SET
        }
        return {"type": _name_type(type(value)), **fields} if "type" not in fields else fields
    if isinstance(value, Enum):
        return value.value
    if isinstance(value, datetime):
        return value.isoformat()
    if isinstance(value, bytes):
        return _encode_bytes(value)
    if isinstance(value, Mapping):
        return {str(key): encode(item) for key, item in value.items()}
    if isinstance(value, (tuple, list)):
        return [encode(item) for item in value]
    return value


def _name_type(kind: type) -> str:
    """The type's name in files: its class name, or `written_as` for a class renamed after files had been written."""
    return str(getattr(kind, "written_as", kind.__name__))


def _encode_bytes(value: bytes) -> dict[str, str]:
    try:
        return {"text": value.decode()}
    except UnicodeDecodeError:
        return {"base64": base64.b64encode(value).decode()}


def decode(kind: type[T], value: object) -> T:
    """Read back what `encode` wrote. `kind` may be any type hint, a union included. Raises Undecodable."""
    return cast(T, _decode(kind, value, "$"))


def _decode(kind: Any, value: Any, place: str) -> object:
    origin, arguments = typing.get_origin(kind), typing.get_args(kind)
    if kind is Any:
        return value
    if origin in (typing.Union, types.UnionType):
        return _decode_union(arguments, value, place)
    if origin is tuple:
        return tuple(_decode(arguments[0], item, f"{place}[{number}]") for number, item in enumerate(value))
    if origin is not None and issubclass(origin, Mapping):
        return {key: _decode(arguments[1], item, f"{place}.{key}") for key, item in value.items()}
    if dataclasses.is_dataclass(kind):
        return _decode_object(cast(type, kind), value, place)
    return _decode_scalar(kind, value, place)


def _decode_union(arguments: tuple[type, ...], value: object, place: str) -> object:
    if value is None and type(None) in arguments:
        return None
    members = [member for member in arguments if member is not type(None)]
    if len(members) == 1:
        return _decode(members[0], value, place)
    for member in members:
        if isinstance(value, dict) and value.get("type") == _name_type(member):
            return _decode(member, value, place)
    names = ", ".join(member.__name__ for member in members)
    raise Undecodable(f"{place}: expected one of {names}, found {_shorten(value)}")


def _decode_object(kind: type, value: object, place: str) -> object:
    if not isinstance(value, dict):
        raise Undecodable(f"{place}: expected {kind.__name__}, found {_shorten(value)}")
    hints = _hints(kind)
    known = {name: _decode(hints[name], item, f"{place}.{name}") for name, item in value.items() if name in hints}
    try:
        return kind(**known)
    except TypeError as error:
        raise Undecodable(f"{place}: {error}") from error


@cache
def _hints(kind: type) -> dict[str, type]:
    return typing.get_type_hints(kind)


def _decode_scalar(kind: type, value: Any, place: str) -> object:
    try:
        if kind is bytes:
            return value["text"].encode() if "text" in value else base64.b64decode(value["base64"])
        if kind is datetime:
            return datetime.fromisoformat(value)
        if issubclass(kind, Enum):
            return kind(value)
    except (KeyError, TypeError, ValueError, AttributeError) as error:
        raise Undecodable(f"{place}: expected {kind.__name__}, found {_shorten(value)}") from error
    accepted = (int, float) if kind is float else kind
    if not isinstance(value, accepted):
        raise Undecodable(f"{place}: expected {kind.__name__}, found {_shorten(value)}")
    return value


def _shorten(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 80 else text[:77] + "..."


def is_finite(value: float | int) -> bool:
    """Return False also for an integer too large for a float."""
    try:
        return math.isfinite(value)
    except OverflowError:
        return False
