"""The tables [compare] and [precheck] of an evaluation.toml."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from pathlib import Path

from runner.base.errors import SuiteError
from runner.evaluating.comparisons.comparison import Comparator
from runner.evaluating.comparisons.pixels import Pixels
from runner.evaluating.comparisons.table import TABLE_FORMATS, TableComparator, TableFormat
from runner.evaluating.comparisons.text_comparison import Exact, TextComparator
from runner.evaluating.comparisons.values import JsonTree, Numeric, Tolerance
from runner.evaluating.prechecks import FORMATS, MAX_BYTES, Between, Precheck, schema_problem
from runner.suites.documents import read_json
from runner.suites.tasks.evaluation_fields import Fields

DEFAULT_KIND = "text"


def read_comparator(fields: Fields, tests: Path) -> Comparator:
    """Read the comparison from the table. Its expected output, if the table names one, has already been read."""
    kind = fields.choice("kind", tuple(_KINDS), DEFAULT_KIND) or DEFAULT_KIND
    comparator = _KINDS[kind](fields)
    fields.refuse_unknown()
    return comparator


def _text(fields: Fields) -> Comparator:
    similarity = fields.number("similarity", math.nan, 0, 1)
    wanted = None if math.isnan(similarity) else similarity
    trailing = fields.flag("ignore_trailing_space")
    if wanted is not None and fields.values.get("ignore_line_order"):
        fields.problem("ignore_line_order", "no order of lines with a similarity", "found both")
    return TextComparator(
        trailing_space=trailing is not False,
        ignore_case=bool(fields.flag("ignore_case")),
        any_order=bool(fields.flag("ignore_line_order")),
        similarity=wanted,
    )


def _table(fields: Fields) -> Comparator:
    columns, key = fields.texts("columns"), fields.texts("key")
    any_order = bool(fields.flag("ignore_row_order"))
    if columns and not set(key) <= set(columns):
        fields.problem("key", "columns that are compared")
    if len(set(columns)) < len(columns):
        fields.problem("columns", "every column once")
    return TableComparator(
        format=_table_format(fields),
        columns=columns,
        extra_columns=bool(fields.flag("extra_columns")),
        key=key,
        any_order=any_order,
        tolerance=_tolerance(fields),
        tolerances={name: _tolerance_of(fields.table("tolerance"), name) for name in fields.table("tolerance").values},
    )


def _table_format(fields: Fields) -> TableFormat:
    found = fields.choice("format", TABLE_FORMATS, "csv")
    return next((each for each in TABLE_FORMATS if each == found), "csv")


def _tolerance_of(inner: Fields, name: str) -> Tolerance:
    """{ abs = 0.01 } of one column."""
    column = inner.table(name)
    tolerance = _tolerance(column)
    column.refuse_unknown()
    return tolerance


def _tolerance(fields: Fields) -> Tolerance:
    return Tolerance(fields.number("abs", 0.0, 0, 1e300), fields.number("rel", 0.0, 0, 1))


def _numeric(fields: Fields) -> Comparator:
    return Numeric(_tolerance(fields))


def _json(fields: Fields) -> Comparator:
    return JsonTree(
        tolerance=_tolerance(fields),
        any_order=bool(fields.flag("ignore_array_order")),
        ignored_keys=frozenset(fields.texts("ignore_keys")),
    )


def _pixels(fields: Fields) -> Comparator:
    return Pixels(fields.whole("tolerance", 0, 0, 255), fields.number("similarity", 1.0, 0, 1))


_KINDS: dict[str, Callable[[Fields], Comparator]] = {
    "exact": lambda fields: Exact(),
    "text": _text,
    "table": _table,
    "numeric": _numeric,
    "json": _json,
    "pixels": _pixels,
}


def read_precheck(fields: Fields, tests: Path) -> Precheck:
    duration, rows = fields.range("duration_sec"), fields.range("rows")
    precheck = Precheck(
        max_bytes=fields.whole("max_bytes", MAX_BYTES, 1, MAX_BYTES),
        format=fields.choice("format", tuple(FORMATS)) if "format" in fields else None,
        resolution=_resolution(fields),
        duration_seconds=None if duration is None else Between(*duration),
        columns=fields.texts("columns"),
        rows=None if rows is None else Between(*rows),
        schema=_schema(fields, tests),
    )
    fields.refuse_unknown()
    return precheck


def _resolution(fields: Fields) -> tuple[int, int] | None:
    value = fields.raw("resolution")
    if value is None:
        return None
    if isinstance(value, list) and len(value) == 2 and all(isinstance(each, int) and 0 < each < 1e6 for each in value):
        return value[0], value[1]
    fields.problem("resolution", "[width, height] in pixels")
    return None


def _schema(fields: Fields, tests: Path) -> Mapping[str, object] | None:
    """JSON Schema in a file of the tests."""
    value = fields.raw("schema_file")
    path = None if value is None else fields.test_file("schema_file", value, tests)
    if path is None:
        return None
    try:
        schema = read_json(tests / path)
    except SuiteError as error:
        fields.problem("schema_file", "a JSON schema", f"{error.place}: {error.message}")
        return None
    problem = schema_problem(schema) if isinstance(schema, dict) else "it is not a JSON object"
    if problem is None and isinstance(schema, dict):
        return schema
    fields.problem("schema_file", "a JSON schema of the words that are carried out", problem or "")
    return None
