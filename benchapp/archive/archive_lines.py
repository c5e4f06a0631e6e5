"""Read lines of an archive as checked values. Every column exists in the model, and every reference points back."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import NoReturn, TypeVar
from uuid import UUID

from django.db.models import NOT_PROVIDED

from benchapp.archive import ArchiveError
from benchapp.archive.archive_tables import RUN_TABLES, SHARED_TABLES, TABLES, ArchiveTable
from benchapp.archive.archive_values import DIGEST, Stored, decode_value
from runner.base.types import JsonValue

Counts = dict[str, int]  # table -> lines so far
Value = TypeVar("Value", str, int, UUID)


@dataclass(frozen=True, slots=True)
class ArchiveRow:
    """One line: references as places among the lines of their table, contents as digests, the rest as in the column."""

    table: ArchiveTable
    number: int  # its place among the lines of its table, from 0
    values: dict[str, Stored]
    place: str  # for a message

    def value_of(self, column: str, kind: type[Value]) -> Value:
        """Return the value of a column that the reader needs; a reference is the place of a line."""
        value = self.values.get(column)
        if not isinstance(value, kind):
            raise ArchiveError(self.place, f"a {self.table.name} with its {column}", "there is none")
        return value


def read_rows(lines: Iterable[bytes], name: str, shared: Counts, *, of_run: bool) -> Iterator[ArchiveRow]:
    """Read rows. `shared` is filled from the lines that runs share; the runs' lines may refer to it."""
    counts, allowed = (dict(shared), RUN_TABLES) if of_run else (shared, SHARED_TABLES)
    order = {table.name: place for place, table in enumerate(allowed)}
    counts.update(dict.fromkeys(order, 0))
    latest = 0
    for number, line in enumerate(lines, start=1):
        place = f"{name}, line {number}"
        table, told = _parse_line(line, place)
        if table not in order or order[table] < latest:
            raise ArchiveError(place, "the tables in their order", f"a line of {table!r:.60}")
        latest = order[table]
        yield ArchiveRow(TABLES[table], counts[table], _values(TABLES[table], told, counts, place), place)
        counts[table] += 1


def _parse_line(line: bytes, place: str) -> tuple[str, dict[str, JsonValue]]:
    try:
        found: JsonValue = json.loads(line.decode(), parse_constant=_no_constant)
    except (ValueError, RecursionError) as error:
        raise ArchiveError(place, "a line of JSON", str(error)[:200]) from error
    match found:
        case [str(table), dict(told)]:
            return table, told
    raise ArchiveError(place, "[table, {column: value}]", "something else")


def _no_constant(name: str) -> NoReturn:
    raise ValueError(f"{name} is not a number")


def _values(table: ArchiveTable, told: dict[str, JsonValue], counts: Counts, place: str) -> dict[str, Stored]:
    if unknown := sorted(set(told) - set(table.columns)):
        message = f"{', '.join(unknown)[:200]!r}: made by a newer version?"
        raise ArchiveError(place, f"columns that a {table.name} has", message)
    values: dict[str, Stored] = {}
    for name, field in table.columns.items():
        if name not in told:
            if field.default is NOT_PROVIDED and not field.null and not field.blank:
                raise ArchiveError(place, f"a {table.name} with its {name}", "there is none")
            continue
        try:
            if name in table.references:
                values[name] = _reference(told[name], counts[table.references[name]], nullable=field.null)
            elif name in table.contents:
                values[name] = _content(told[name], nullable=field.null)
            else:
                values[name] = decode_value(field, told[name])
        except ValueError as error:
            found = json.dumps(told[name])[:80]
            raise ArchiveError(f"{place}, {table.name}.{name}", str(error)[:300], f"found {found}") from error
    return values


def _reference(value: JsonValue, known: int, *, nullable: bool) -> int | None:
    if value is None and nullable:
        return None
    if type(value) is not int or not 0 <= value < known:
        raise ValueError("the place of an earlier line")
    return value


def _content(value: JsonValue, *, nullable: bool) -> str | None:
    if value is None and nullable:
        return None
    if not isinstance(value, str) or not DIGEST.fullmatch(value):
        raise ValueError("a SHA-256 of 64 hex characters")
    return value
