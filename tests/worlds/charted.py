"""Drawing a chart in a test as its page does, and reading the figure back."""

from __future__ import annotations

from typing import Any

from django.db import connection
from django.http import QueryDict
from django.test.utils import CaptureQueriesContext

from benchapp.stats.comparing.choices import parse_choices
from benchapp.stats.comparing.condition_names import KNOWN as CONDITIONS
from benchapp.stats.metrics.catalogue import METRIC_NAMES as METRICS
from inspector.charts.chart import Chart, ChartDrawing
from inspector.charts.chart_request import build_sheet


def drawn(chart: Chart, query: str = "") -> ChartDrawing:
    """What the chart draws for this address."""
    choices, problems = parse_choices(QueryDict(query))
    assert not problems
    return chart.draw(build_sheet(choices, chart))


CODES = {
    **{name.short: code for code, name in METRICS.items()},
    **{name.short: code for code, name in reversed(CONDITIONS.items())},
}


def coded_cells(drawing: ChartDrawing) -> list[dict[str, Any]]:
    """Every cell of every heatmap, its row and column by the codes of the condition and the metric they name."""
    return [
        {**cell, "row": CODES.get(cell["row"], cell["row"]), "column": CODES.get(cell["column"], cell["column"])}
        for cell in heat_cells(drawing)
    ]


def key_of(label: object) -> str:
    """Of "Tables (E1)": a place is labelled with its name, its key behind it."""
    return str(label).removesuffix(")").rpartition("(")[2]


def heat_cells(drawing: ChartDrawing) -> list[dict[str, Any]]:
    """Every cell of every heatmap: panel, row and column as labelled, value, text, hover, url."""
    assert drawing.figure is not None
    rows, columns = drawing.figure.layout.yaxis.ticktext, drawing.figure.layout.xaxis.ticktext
    return [
        {
            "panel": trace.name,
            "row": rows[y],
            "column": columns[x],
            "value": value,
            "text": trace.text[y][x],
            "hover": trace.hovertext[y][x],
            "url": trace.customdata[y][x],
        }
        for trace in drawing.figure.data
        for y, values in enumerate(trace.z)
        for x, value in enumerate(values)
    ]


def queries_of(chart: Chart, query: str = "") -> int:
    with CaptureQueriesContext(connection) as captured:
        drawn(chart, query)
    return len(captured)
