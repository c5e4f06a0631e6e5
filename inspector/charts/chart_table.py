"""The table of a chart as text: for the page, and as CSV."""

from __future__ import annotations

import csv
from collections.abc import Callable
from io import StringIO

from benchapp.exports.formats import escape_formula
from benchapp.stats.comparing.condition_names import say_label
from benchapp.stats.inference.shares import percent_text
from benchapp.stats.metrics.amounts import MINUS, render_signed
from benchapp.stats.metrics.catalogue import METRIC_NAMES
from inspector.charts.chart import ChartTable
from runner.evaluating.comparisons.values import is_number

NAMED = frozenset({"group", "condition", "against", "baseline", "metric"})  # columns that hold keys
MAX_ROWS = 400  # on a page; CSV and JSON have all


def text_rows(table: ChartTable) -> list[tuple[list[tuple[str, bool]], str]]:
    """The first `MAX_ROWS`, as the page shows them: of each its cells and the address of the trials behind it, empty
    where none are. A cell is its text, empty where the value is unknown, and whether it is a number."""
    keys, units = [column.key for column in table.columns], [column.unit for column in table.columns]
    numeric = numeric_columns(table)
    return [
        (
            [
                (_name_value(value) if key in NAMED else value_text(value, unit), is_number)
                for key, value, unit, is_number in zip(keys, row.values, units, numeric, strict=True)
            ],
            row.url,
        )
        for row in table.rows[:MAX_ROWS]
    ]


def _name_value(value: object) -> str:
    """A condition or a metric by its name, as everywhere on the pages; files keep the key."""
    text = value_text(value)
    return METRIC_NAMES[text].title if text in METRIC_NAMES else say_label(text) if text else ""


def numeric_columns(table: ChartTable) -> list[bool]:
    """Which columns hold numbers and nothing else."""
    columns = zip(*(row.values for row in table.rows), strict=True) if table.rows else ((),) * len(table.columns)
    known = ([value for value in column if value is not None] for column in columns)
    return [bool(values) and all(is_number(value) for value in values) for values in known]


def value_text(value: object, unit: str = "") -> str:
    """Percentages and points with one digit, points with their sign; others with two behind the point,
    below one with four."""
    if value is None or value == "":
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if not is_number(value):
        return str(value)
    if unit == "pp":
        text = render_signed(value, 1)
    elif unit == "%":
        text = percent_text(value / 100, 1)
    else:
        text = _short(value)
    return text.replace("-", MINUS)


def _short(value: float) -> str:
    if isinstance(value, int) or abs(value) >= 1000:
        return f"{value:,.0f}"
    if abs(value) < 1e-4 and value:
        return f"{value:.4g}"
    return f"{value:.{2 if abs(value) >= 1 else 4}f}".rstrip("0").rstrip(".") or "0"


def csv_text(table: ChartTable, absolute: Callable[[str], str]) -> str:
    """A header with units, then one line per row in full precision; a last column leads to the trials where rows do."""
    linked = any(row.url for row in table.rows)
    file = StringIO(newline="")
    writer = csv.writer(file)
    heads = (f"{column.key} ({column.unit})" if column.unit else column.key for column in table.columns)
    writer.writerow([*map(escape_formula, heads), *(["trials"] if linked else [])])
    for row in table.rows:
        # Text that a spreadsheet would run gets an apostrophe in front.
        cells = (escape_formula(value) if isinstance(value, str) else value for value in row.values)
        writer.writerow([*cells, *([absolute(row.url) if row.url else ""] if linked else [])])
    return file.getvalue()
