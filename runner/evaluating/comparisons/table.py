"""Tables by the names of their columns: CSV, TSV, JSON lines; rows in order, by key or in any order; numbers with a
tolerance per column. Sizes are bounded while reading, not afterwards."""

from __future__ import annotations

import csv
import io
import json
import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import zip_longest
from typing import Literal

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
from runner.evaluating.comparisons.values import (
    NONE,
    Tolerance,
    is_number,
    number_in,
    require_bounded,
    spell_value,
    take_keys_once,
)

TableFormat = Literal["csv", "tsv", "jsonl"]
TABLE_FORMATS: tuple[TableFormat, ...] = ("csv", "tsv", "jsonl")
MAX_ROWS = 200_000
MAX_CELLS = 2_000_000
MAX_COLUMNS = 2_000
_SEPARATORS = {"csv": ",", "tsv": "\t"}


@dataclass(frozen=True, slots=True)
class TableRows:
    """`rows` are as long as `columns`.
    Cells of CSV and TSV are texts without surrounding blanks; of JSON lines, values."""

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
            reason = "nested too deeply" if isinstance(error, RecursionError) else str(error)[:200]
            raise PrecheckFailed("format", f"line {number:,} is no JSON: {reason}") from error
        if not isinstance(found, dict):
            raise PrecheckFailed("format", f"line {number:,}: {shorten_value(found)[:60]} is no JSON object")
        yield found


Row = tuple[object, ...]
Pair = tuple[str, Row | None, Row | None]  # where, found row, expected row; None if a side has no such row


@dataclass(frozen=True, slots=True)
class TableComparator:
    """The score is the share of cells that are alike, of rows x columns of the longer side.

    Missing or additional columns are an output of another shape, not a failed comparison: PrecheckFailed.
    `any_order` without a key sorts both sides, first by the columns that allow no tolerance. If that fails, rows that
    are the same on both sides are matched first, so that one missing row does not shift the others.
    """

    format: TableFormat = "csv"
    columns: tuple[str, ...] = ()  # to compare; empty: all of the expected table
    extra_columns: bool = False  # may the found table have others?
    key: tuple[str, ...] = ()  # columns that name a row; rows are then matched by it
    any_order: bool = False
    tolerance: Tolerance = NONE  # of every column
    tolerances: Mapping[str, Tolerance] = field(default_factory=dict)  # of single ones

    kind = "table"

    def compare(self, found: bytes, expected: bytes) -> OutputComparison:
        ours, theirs = read_rows(found, self.format), read_rows(expected, self.format)
        columns = self.columns or theirs.columns
        self._require_columns(ours, columns)
        _require_columns_of(theirs, (*columns, *self.key))
        tolerances = [self.tolerances.get(name, self.tolerance) for name in columns]
        mine, wanted = _pick_columns(ours, columns), _pick_columns(theirs, columns)
        comparison = _compare_pairs(self._pairs(mine, wanted, columns), columns, tolerances)
        if comparison.passed or self.key or not self.any_order:
            return comparison
        pairs = self._pairs(*_unlike(mine, wanted), columns, among="rows that only one side has, sorted")
        again = _compare_pairs(pairs, columns, tolerances, alike=(_count_rows(mine) & _count_rows(wanted)).total())
        return max(comparison, again, key=lambda each: (each.passed, each.score))

    def _require_columns(self, ours: TableRows, columns: tuple[str, ...]) -> None:
        _require_columns_of(ours, columns)
        extra = [name for name in ours.columns if name not in set(columns)]
        if extra and not self.extra_columns:
            raise PrecheckFailed("columns", f"{len(extra):,} too many, the first is {shorten_value(extra[0])}")

    def _pairs(
        self, ours: Sequence[Row], theirs: Sequence[Row], columns: tuple[str, ...], *, among: str = "the sorted rows"
    ) -> list[Pair]:
        if self.key:
            places = [columns.index(name) for name in self.key]
            first, second = _by_key(ours, places), _by_key(theirs, places)
            keys = [*second, *(key for key in first if key not in second)]
            return [(f"row {shorten_value(key)}", first.get(key), second.get(key)) for key in keys]
        where = "row {:,}"
        if self.any_order:
            ours, theirs = (sorted(rows, key=self._order(columns)) for rows in (ours, theirs))
            where = f"row {{:,}} of {among}"
        return [(where.format(place), *pair) for place, pair in enumerate(zip_longest(ours, theirs), 1)]

    def _order(self, columns: tuple[str, ...]) -> Callable[[Row], tuple[object, ...]]:
        """Sort by columns with a tolerance last, so that slightly different numbers do not separate equal rows."""
        loose = [name in self.tolerances or self.tolerance != NONE for name in columns]

        def order(row: Row) -> tuple[object, ...]:
            strict = tuple(_spell_cell(cell) for cell, is_loose in zip(row, loose, strict=True) if not is_loose)
            return strict, tuple(_sortable(cell) for cell, is_loose in zip(row, loose, strict=True) if is_loose)

        return order


def _compare_pairs(
    pairs: Sequence[Pair], columns: Sequence[str], tolerances: Sequence[Tolerance], *, alike: int = 0
) -> OutputComparison:
    """`alike`: rows known to be the same on both sides, which are not among the pairs."""
    wrong = count = 0  # cells that differ; differences, a whole row being one
    total = (len(pairs) + alike) * len(columns)
    named, numbers_only = list[str](), True
    for place, mine, wanted in pairs:
        if mine is None or wanted is None:
            wrong, count, numbers_only = wrong + len(columns), count + 1, False
            shown = [": missing" if mine is None else ": expected no such row"]
        else:
            cells = _wrong_cells(mine, wanted, tolerances)
            wrong, count = wrong + len(cells), count + len(cells)
            numbers_only &= all(number_in(row[each]) is not None for row in (mine, wanted) for each in cells)
            shown = [_describe_difference(columns[each], mine[each], wanted[each]) for each in cells[:MAX_DIFFERENCES]]
        named += [f"{place}{each}" for each in shown[: MAX_DIFFERENCES - len(named)]]
    return differs(1 - wrong / total, named, count, numbers_only=numbers_only) if wrong else SAME


def _count_rows(rows: Sequence[Row]) -> Counter[tuple[str, ...]]:
    return Counter(tuple(map(spell_value, row)) for row in rows)


def _unlike(ours: Sequence[Row], theirs: Sequence[Row]) -> tuple[list[Row], list[Row]]:
    """Both sides without the rows that they share, as often as each occurs."""
    return _beyond(ours, _count_rows(theirs)), _beyond(theirs, _count_rows(ours))


def _beyond(rows: Sequence[Row], others: Counter[tuple[str, ...]]) -> list[Row]:
    left = []
    for row in rows:
        spelling = tuple(map(spell_value, row))
        if others[spelling] > 0:
            others[spelling] -= 1
        else:
            left.append(row)
    return left


def _require_columns_of(rows: TableRows, columns: Sequence[str]) -> None:
    missing = [name for name in columns if name not in rows.columns]
    if missing:
        found = ", ".join(rows.columns[:20])
        raise PrecheckFailed(
            "columns", f"{', '.join(map(shorten_value, missing[:5]))} is missing (found {shorten_value(found)})"
        )


def _pick_columns(rows: TableRows, columns: tuple[str, ...]) -> Sequence[Row]:
    if rows.columns == columns:
        return rows.rows
    places = [rows.columns.index(name) for name in columns]
    return [tuple(row[place] for place in places) for row in rows.rows]


def _by_key(rows: Sequence[Row], places: Sequence[int]) -> dict[tuple[str, ...], Row]:
    found: dict[tuple[str, ...], Row] = {}
    for row in rows:
        key = tuple(_spell_cell(row[place]) for place in places)
        if key in found:
            raise PrecheckFailed("rows", f"two rows have the key {shorten_value(key)}")
        found[key] = row
    return found


def _wrong_cells(mine: Row, wanted: Row, tolerances: Sequence[Tolerance]) -> list[int]:
    if mine == wanted and not any(isinstance(cell, bool) for cell in (*mine, *wanted)):
        return []
    cells = zip(mine, wanted, tolerances, strict=True)
    return [place for place, (cell, other, tolerance) in enumerate(cells) if not _alike(cell, other, tolerance)]


def _describe_difference(column: str, found: object, expected: object) -> str:
    return f", column {shorten_value(column)}: found {shorten_value(found)}, expected {shorten_value(expected)}"


def _alike(found: object, expected: object, tolerance: Tolerance) -> bool:
    """Texts of a CSV are numbers only if a tolerance was asked for: otherwise "007" is not "7"."""
    if is_number(found) and is_number(expected):
        return tolerance.alike(found, expected)
    if found == expected and type(found) is type(expected):
        return True
    if tolerance == NONE:
        return isinstance(found, dict | list) and _spell_cell(found) == _spell_cell(expected)
    ours, theirs = number_in(found), number_in(expected)
    return ours is not None and theirs is not None and tolerance.alike(ours, theirs)


def _spell_cell(cell: object) -> str:
    return cell if isinstance(cell, str) else spell_value(cell)


def _sortable(cell: object) -> tuple[int, float, str]:
    """Numbers by size, then NaN, then everything else by its letters."""
    value = number_in(cell)
    try:
        size = math.nan if value is None else float(value)
    except OverflowError:
        size = math.inf
    return (2, 0.0, _spell_cell(cell)) if value is None else (1, 0.0, "") if math.isnan(size) else (0, size, "")
