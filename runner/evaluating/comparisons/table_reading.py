"""Tables as lists of rows: CSV, TSV, JSON lines. Sizes are bounded while reading, not afterwards."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Literal

from runner.base.types import JsonValue
from runner.evaluating.comparisons.comparison import PrecheckFailed, decode_text, shorten_value
from runner.evaluating.comparisons.json_tree import require_bounded, take_keys_once

TableFormat = Literal["csv", "tsv", "jsonl"]
TABLE_FORMATS: tuple[TableFormat, ...] = ("csv", "tsv", "jsonl")
MAX_ROWS = 200_000
MAX_CELLS = 2_000_000
MAX_COLUMNS = 2_000
_SEPARATORS = {"csv": ",", "tsv": "\t"}


@dataclass(frozen=True, slots=True)
class TableRows:
    """`rows` are as long as `columns`. Cells of CSV and TSV are texts without surrounding blanks; of JSON lines, values."""

    columns: tuple[str, ...]
    rows: tuple[tuple[object, ...], ...]


def read_rows(content: bytes, format: TableFormat) -> TableRows:
    """Raises PrecheckFailed for repeated column names, rows of another length, a missing header, and other formats."""
    return (
        _json_lines(decode_text(content))
        if format == "jsonl"
        else _read_separated(decode_text(content), _SEPARATORS[format])
    )


def _read_separated(text: str, separator: str) -> TableRows:
    lines = csv.reader(io.StringIO(text, newline=""), delimiter=separator, strict=True)
    rows: list[tuple[str, ...]] = []
    columns: tuple[str, ...] = ()
    try:
        for line in lines:
            row = tuple(cell.strip() for cell in line)
            if not columns and row:
                columns = _require_names_once(row)
            elif row:
                _require_length(row, columns, lines.line_num)
                rows.append(row)
                _require_bounded(len(rows), len(columns))
    except csv.Error as error:
        raise PrecheckFailed("format", f"line {lines.line_num:,}: {error}") from error
    if not columns:
        raise PrecheckFailed("columns", "there is no header: it is empty")
    return TableRows(columns, tuple(rows))


def _require_names_once(columns: tuple[str, ...]) -> tuple[str, ...]:
    if len(columns) > MAX_COLUMNS:
        raise PrecheckFailed("size", f"{len(columns):,} columns, at most {MAX_COLUMNS:,} are compared")
    if len(set(columns)) < len(columns):
        twice = next(name for name in columns if columns.count(name) > 1)
        raise PrecheckFailed("columns", f"the column {shorten_value(twice)} is there twice")
    return columns


def _require_length(row: tuple[str, ...], columns: tuple[str, ...], line: int) -> None:
    if len(row) != len(columns):
        raise PrecheckFailed("columns", f"line {line:,} has {len(row):,} cells, the header has {len(columns):,}")


def _require_bounded(rows: int, columns: int) -> None:
    if rows > MAX_ROWS or rows * columns > MAX_CELLS:
        raise PrecheckFailed(
            "size", f"more than {MAX_ROWS:,} rows or {MAX_CELLS:,} cells; a larger table is not compared"
        )


def _json_lines(text: str) -> TableRows:
    """One object a line. A missing column is null; columns come in the order of appearance."""
    columns: dict[str, None] = {}
    objects = []
    for found in _objects(text.split("\n")):
        columns.update(dict.fromkeys(found))
        _require_names_once(tuple(columns))
        objects.append(found)
        _require_bounded(len(objects), len(columns))
    if not columns:
        raise PrecheckFailed("columns", "no object with a key: it is empty")
    return TableRows(tuple(columns), tuple(tuple(each.get(name) for name in columns) for each in objects))


def _objects(lines: Iterable[str]) -> Iterator[dict[str, JsonValue]]:
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            found = json.loads(line, object_pairs_hook=take_keys_once)
            require_bounded(found)
        except PrecheckFailed as problem:
            raise PrecheckFailed(problem.kind, f"line {number:,}: {problem.message}") from problem
        except (ValueError, RecursionError) as error:
            told = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
            raise PrecheckFailed("format", f"line {number:,} is no JSON: {told}") from error
        if not isinstance(found, dict):
            raise PrecheckFailed("format", f"line {number:,}: {shorten_value(found)[:60]} is no JSON object")
        yield found
