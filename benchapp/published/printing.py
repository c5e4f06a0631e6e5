"""Printed numbers for other programs (flat rows) and for a reader in a terminal (tables as the papers lay them out)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict
from itertools import groupby
from typing import Any

from benchapp.published.deltas import References
from benchapp.published.rows import Printed

MARK = "*"  # beside a delta that its own columns contradict
LABELS = ("row", "harness", "model", "condition", "group")


def flat(rows: Sequence[Printed]) -> Iterator[dict[str, Any]]:
    """One mapping per printed number: the stored fields, the recomputed delta, k and n where known."""
    references = References(rows)
    for row in rows:
        delta = references.recomputed(row)
        yield {
            **asdict(row),
            "recomputed_delta": delta.text if delta else "",
            "delta_adds_up": delta.adds_up if delta else None,
            "k": row.k,
            "n": row.n,
        }


def plain(rows: Sequence[Printed]) -> Iterator[str]:
    """Lines of text: for each table of a paper one line per label, one column per metric, value and printed delta."""
    references = References(rows)
    for (paper, table), group in groupby(rows, key=lambda row: (row.paper, row.table)):
        cells = list(group)
        yield from (f"{paper}, {table}", "")
        yield from aligned(_build_text_lines(cells) if table == "Text" else _build_table_lines(cells, references))
        yield ""


def _build_table_lines(cells: Sequence[Printed], references: References) -> list[list[str]]:
    metrics = list(dict.fromkeys(_name_column(cell) for cell in cells))
    labels = [name for name in LABELS if any(getattr(cell, name) for cell in cells)]
    if all(cell.row == cell.model for cell in cells):
        labels.remove("row")
    lines: dict[tuple[str, ...], dict[str, str]] = {}
    for cell in cells:
        key = tuple(getattr(cell, name) for name in labels)
        lines.setdefault(key, {})[_name_column(cell)] = _render_cell(cell, references)
    body = [[*key, *(found.get(metric, "") for metric in metrics)] for key, found in lines.items()]
    return [[*labels, *metrics], *body]


def _build_text_lines(cells: Sequence[Printed]) -> list[list[str]]:
    body = [[cell.row, cell.model, cell.condition, cell.group, cell.metric, cell.printed, cell.unit] for cell in cells]
    return [["place", "model", "condition", "group", "metric", "printed", "unit"], *body]


def _name_column(cell: Printed) -> str:
    return f"{cell.metric} ({cell.unit})"


def _render_cell(cell: Printed, references: References) -> str:
    delta = references.recomputed(cell)
    if delta is None:
        return cell.printed
    return f"{cell.printed} {cell.printed_delta}{'' if delta.adds_up else MARK}"


def aligned(lines: Iterable[list[str]]) -> Iterator[str]:
    """Left-aligned columns, empty ones dropped, a rule under the heading."""
    columns = [column for column in zip(*lines, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    for number, line in enumerate(zip(*columns, strict=True)):
        yield "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        if number == 0:
            yield "  ".join("-" * width for width in widths)
