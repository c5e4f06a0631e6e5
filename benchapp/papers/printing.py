"""Printed numbers for other programs (flat rows) and for a reader in a terminal (tables as the papers lay them out)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from itertools import groupby
from typing import Any

from benchapp.papers.published_rows import PrintedNumber, References

MARK = "*"  # next to a delta that its own columns contradict
LABELS = ("row", "harness", "model", "condition", "group")
Number = Mapping[str, Any]  # one printed number, flat


def flatten_rows(rows: Sequence[PrintedNumber]) -> Iterator[Number]:
    """Return one mapping per printed number: the stored fields, the recomputed delta, k and n where known."""
    references = References(rows)
    for row in rows:
        delta = references.recompute(row)
        yield {
            **asdict(row),
            "recomputed_delta": delta.text if delta else "",
            "delta_adds_up": delta.adds_up if delta else None,
            "k": row.k,
            "n": row.n,
        }


@dataclass(frozen=True, slots=True)
class PrintedLine:
    """A row of a printed table: its labels, and its numbers in the order of the columns, None where none is printed."""

    labels: tuple[str, ...]
    cells: tuple[Number | None, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """One table of a paper, or its running text, as the paper lays it out. columns: (metric, unit)."""

    labels: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    lines: tuple[PrintedLine, ...]


def lay_out(numbers: Sequence[Number]) -> Layout:
    """Arrange the flat numbers of one table: a line per label, a column per metric."""
    labels, lines = _choose_labels(numbers), dict[tuple[str, ...], dict[tuple[str, str], Number]]()
    columns = tuple(dict.fromkeys((number["metric"], number["unit"]) for number in numbers))
    for number in numbers:
        key = tuple(number[name] for name in labels)
        lines.setdefault(key, {})[number["metric"], number["unit"]] = number
    body = (PrintedLine(key, tuple(cells.get(column) for column in columns)) for key, cells in lines.items())
    return Layout(labels, columns, tuple(body))


def _choose_labels(numbers: Sequence[Number]) -> tuple[str, ...]:
    """Choose the names that distinguish rows: all that some row has, the printed label only if no other repeats it."""
    names = tuple(name for name in LABELS if any(number[name] for number in numbers))
    others = tuple(name for name in names if name != "row")
    repeated = all(number["row"] in {number[name] for name in others} for number in numbers)
    return others if repeated and others else names


def render_tables(rows: Sequence[PrintedNumber]) -> Iterator[str]:
    """Render each table as text: one line per label, one column per metric with value and printed delta."""
    for (paper, table), group in groupby(flatten_rows(rows), key=lambda number: (number["paper"], number["table"])):
        numbers = list(group)
        yield from (f"{paper}, {table}", "")
        yield from align_columns(
            _build_text_lines(numbers) if table == "Text" else _build_table_lines(lay_out(numbers))
        )
        yield ""


def _build_table_lines(layout: Layout) -> Iterator[list[str]]:
    yield [*layout.labels, *(f"{metric} ({unit})" for metric, unit in layout.columns)]
    for line in layout.lines:
        yield [*line.labels, *map(_render_cell, line.cells)]


def _build_text_lines(numbers: Sequence[Number]) -> Iterator[list[str]]:
    yield ["place", "model", "condition", "group", "metric", "printed", "unit"]
    for number in numbers:
        yield [number[name] for name in ("row", "model", "condition", "group", "metric", "printed", "unit")]


def _render_cell(number: Number | None) -> str:
    if number is None or not number["printed_delta"]:
        return number["printed"] if number else ""
    return f"{number['printed']} {number['printed_delta']}{'' if number['delta_adds_up'] else MARK}"


def align_columns(lines: Iterable[list[str]]) -> Iterator[str]:
    """Align columns left, drop empty ones, and draw a rule under the heading."""
    columns = [column for column in zip(*lines, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    for number, line in enumerate(zip(*columns, strict=True)):
        yield "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        if number == 0:
            yield "  ".join("-" * width for width in widths)
