"""A chart drawn once and kept as the bytes that are sent: the figure as JSON, and the table."""

from __future__ import annotations

import re
from collections.abc import Hashable
from dataclasses import dataclass, replace

from plotly import graph_objects as go
from plotly.io import to_json

from benchapp.models.stand_ins import StandIn
from benchapp.record.visible import spell_out
from benchapp.stats.comparing.groups import experiment_names
from benchapp.stats.metrics.catalogue import name_metric
from benchapp.stats.metrics.tally import TrialTally
from inspector.charts.chart import Chart, ChartDrawing
from inspector.charts.drawing.panels import plain
from inspector.charts.sheet import ChartSheet
from runner.base.recent import Recent

MAX_NAMED = 4  # unfinished groups in a note, experiments in a caption
MAX_BYTES = 24 * 2**20  # of figures kept in one process
# Plotly reads a little HTML in its texts. What charts write themselves stays; any other tag is a name of somebody's,
# shown as it is. In plotly's JSON "<" is \u003c and "/" is \u002f; an escaped backslash before it is matched first
# and left alone.
TAG = re.compile(rb"(?P<backslash>\\\\)|\\u003c(?!(?:\\u002f)?(?:b|i|br|sub|sup|extra)\\u003e)")
CONTROL = re.compile(r"(\\\\)|\\u(00[01][0-9a-f]|007f)")  # as JSON writes them


@dataclass(frozen=True, slots=True)
class DrawnChart:
    """The drawing holds no picture but one that the server draws:
    what plotly's is built from would keep a whole comparison in memory."""

    drawing: ChartDrawing
    figure: bytes | None  # the bytes of plotly's JSON, None where there is nothing to draw or nobody asked for it


# The last drawn charts by what they show: a figure of a large comparison takes a second to make.
KEPT: Recent[Hashable, DrawnChart] = Recent(
    MAX_BYTES, lambda drawn: len(drawn.figure or b"") + 200 * len(drawn.drawing.table.rows)
)


def draw_chart(chart: Chart, sheet: ChartSheet, *, with_figure: bool = True) -> DrawnChart:
    """Draw the chart, or take it from the cache if neither the runs nor the choices have changed. Building plotly's
    figure takes ten times as long as its numbers: a page goes without."""
    comparison = sheet.comparison
    runs = tuple((run.pk, run.revision, run.status) for run in (*comparison.runs, *chart.rests_on(sheet)))
    key = with_figure, chart.key, comparison.choices.but(q="", seen=""), comparison.truncated, runs
    found = KEPT.get(key) if chart.is_kept else None
    if found is None:
        drawing = _add_notes(chart.draw(sheet), chart, sheet)
        figure = drawing.figure if with_figure else None
        found = DrawnChart(replace(drawing, picture=drawing.html), figure_json(figure) if figure is not None else None)
        if chart.is_kept:
            KEPT.put(key, found)
    return found


def write_caption(chart: Chart, sheet: ChartSheet) -> dict[str, object]:
    """What a picture of a chart says over itself: it is passed on without its page. `lines` below the title: what is
    compared, and what replaced a model. Clean for plotly."""
    comparison = sheet.comparison
    one_metric = chart.uses_metric and sheet.metric is not None and sheet.options.get("metrics") != "all"
    title = f"{name_metric(sheet.metric).title}: {chart.title.lower()}" if one_metric and sheet.metric else chart.title
    names = [*experiment_names(comparison.groups.all).values()]
    more = f" and {len(names) - MAX_NAMED} more experiments" if len(names) > MAX_NAMED else ""
    compared = f"{'; '.join(names[:MAX_NAMED])}{more}"
    caveats = (each.sentence for each in StandIn if each in comparison.stand_ins)
    lines = [plain(line) for line in (compared, chart.question, *caveats) if line]
    return {"title": plain(title), "lines": lines}


def _add_notes(drawing: ChartDrawing, chart: Chart, sheet: ChartSheet) -> ChartDrawing:
    """Say under every chart of unfinished runs that they are, as a picture travels without its page;
    and under every chart of a judged metric who judged."""
    if drawing.absent:
        return drawing
    comparison, notes = sheet.comparison, list(drawing.notes)
    unfinished = [group for group in comparison.groups.all if group.is_unfinished]
    if unfinished:
        tally = sum(map(comparison.tally, unfinished), TrialTally())
        named = "; ".join(group.label for group in unfinished[:MAX_NAMED])
        named += " and others" if len(unfinished) > MAX_NAMED else ""
        notes.append(f"{named}: {tally.done:,} of {tally.total:,} trials ended so far.")
    is_judged = chart.uses_metric and sheet.metric is not None and sheet.metric.is_judged
    if is_judged and comparison.judged_by not in notes:
        notes.append(comparison.judged_by)
    return replace(drawing, notes=tuple(notes))


def figure_json(figure: go.Figure) -> bytes:
    """Plotly's own JSON (orjson, arrays as base64), with no tag left in it that has an address or a style, and no
    character that a reader could not see."""
    text = spell_out(to_json(figure, validate=False, engine="orjson"))
    text = CONTROL.sub(lambda found: found[1] or spell_out(chr(int(found[2], 16))), text)
    return TAG.sub(lambda found: found[0] if found["backslash"] else b"&lt;", text.encode())
