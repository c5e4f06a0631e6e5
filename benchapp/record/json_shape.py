"""JSON twins: the facts of a row for programs, declared as a list of names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import fields, is_dataclass
from datetime import datetime
from typing import Any, ClassVar
from uuid import UUID

Entry = str | tuple[str, Callable[[Any], Any]]
QueryRow = dict[str, Any]  # by names of columns, as `values()` of a query gives it
Reader = Callable[[object, dict[str, object]], None]


class JsonShape:
    """The keys of a JSON object in their order, and where the row has each value.

    "status"          the attribute of that name
    "id=public_id"    the same under another key
    "task=task.key"   an attribute of an attribute; null where any of them is
    "error?"          null where the value is empty
    "*total"          every key of the attribute's own shape or mapping, at this level; none where it is null
    ("n", function)   the function's value for the row

    One string may name several, with spaces between: "id=public_id status error?".

    A model instance becomes its public id; see `encode`.
    """

    def __init__(self, *entries: Entry) -> None:
        self.readers: list[Reader] = []
        for entry in entries:
            self.readers += map(_parse_entry, entry.split() if isinstance(entry, str) else [entry])

    def read(self, row: object) -> dict[str, Any]:
        """Return the values from the row. Nested rows are left to the encoder."""
        found: dict[str, object] = {}
        for read in self.readers:
            read(row, found)
        return found

    def read_all(self, rows: Iterable[object]) -> list[dict[str, object]]:
        return [self.read(row) for row in rows]


class Shaped:
    """Base of dataclasses with a JSON twin: by `json_shape`, or field by field where none is declared."""

    __slots__ = ()
    json_shape: ClassVar[JsonShape | None] = None

    def as_json(self) -> dict[str, object]:
        found = to_json(self)
        assert isinstance(found, dict)
        return found


def encode(value: object) -> Any:
    """Encode one level of what JSON lacks: a row by its shape, a model instance by its public id, rows as a list."""
    if isinstance(value, Shaped) and value.json_shape:
        return value.json_shape.read(value)
    if is_dataclass(value):
        return {field.name: getattr(value, field.name) for field in fields(value)}
    if hasattr(value, "public_id"):
        return value.public_id
    if isinstance(value, Mapping):
        return value
    if isinstance(value, Iterable):
        return list(value)
    raise TypeError(f"{type(value).__name__} has no JSON form")


def to_json(value: object) -> Any:
    """Return the whole value in dicts and lists. Ids and times are left to the serialiser."""
    if value is None or isinstance(value, str | int | float | UUID | datetime):
        return value
    if isinstance(value, Mapping):
        return {str(key): to_json(each) for key, each in value.items()}
    if isinstance(value, list | tuple):
        return [to_json(each) for each in value]
    return to_json(encode(value))


def _parse_entry(entry: Entry) -> Reader:
    if not isinstance(entry, str):
        key, compute = entry
        return lambda row, found: found.update({key: compute(row)})
    if entry.startswith("*"):
        inner = entry[1:].split(".")
        return lambda row, found: found.update({} if (value := _follow(row, inner)) is None else encode(value))
    name, _, path = entry.removesuffix("?").partition("=")
    steps = (path or name).split(".")
    if entry.endswith("?"):
        return lambda row, found: found.update({name: _follow(row, steps) or None})
    return lambda row, found: found.update({name: _follow(row, steps)})


def _follow(row: object, steps: list[str]) -> Any:
    for step in steps:
        if row is None:
            return None
        row = getattr(row, step)
    return row
