"""The forest plot: every difference to the baseline with its primary interval, against the line of no difference.

A mark is filled only where the interval excludes 0.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from textwrap import wrap

from plotly import graph_objects as go

from benchapp.stats.metrics.amounts import render_signed
from benchapp.stats.metrics.metric import Better, TrialMetric
from inspector.charts.chart import Chart, ChartDrawing, ChartTable, TableColumn, name_columns
from inspector.charts.drawing.forest_rows import ForestRow, list_published_rows, own_rows, tell_apart
from inspector.charts.drawing.palette import INK, MUTED, ZERO, Style, of_group
from inspector.charts.drawing.panels import LETTER, lines, panels, plain, short
from inspector.charts.drawing.quantities import say_unit
from inspector.charts.drawing.traces import ChartPoint, plain_scatter
from inspector.charts.sheet import ChartSheet

ROW = 25  # px
NARROW_ROW = 44  # px of a row that has its numbers over its line
NARROWEST, NARROW_MARGIN = 300, 12  # px
BESIDE = {"x": 1, "xshift": 10}
ABOVE = {"x": 0, "yshift": 14}
MAX_ROWS = 60  # drawn in one panel
MAX_ROWS_OF_MANY = 30  # in several panels, the same in each
LABEL = 56  # characters
ACROSS = 3
LIFT = 0.3  # rows between a printed difference and the own one below it
PUBLISHED_FIRST = ("ESR", "completion", "accuracy")  # shown where no own run says which metric

# kind of row -> what the legend calls it, and its mark there; rows have the colour and shape of their condition
KINDS: dict[str, tuple[str, Style]] = {
    "excludes": ("interval excludes zero", Style(INK, "circle", "solid")),
    "includes": ("interval includes zero", Style(INK, "circle-open", "solid")),
    "bare": ("no interval: too few episodes, or no spread", Style(MUTED, "circle-x-open", "solid")),
    "printed": ("printed in a paper, no interval", Style(ZERO, "line-ns", "solid")),
}


def draw(sheet: ChartSheet) -> ChartDrawing:
    metrics = [sheet.metric] if sheet.metric else []
    if sheet.options.get("metrics") == "all":  # differences in other units have no common axis
        metrics = [metric for metric in sheet.metrics if metric.is_share]
    unit = "pp" if not metrics or metrics[0].is_share else metrics[0].unit.value
    rows = {metric.key: own_rows(sheet, metric) for metric in metrics}
    baseline = sheet.comparison.groups.baseline
    printed = {row.metric for row in sheet.printed}
    wanted = [key for key in (sheet.comparison.choices.metric, *PUBLISHED_FIRST) if key in printed]
    for key in list(rows) or wanted[:1]:
        rows.setdefault(key, []).extend(list_published_rows(sheet.printed, key, baseline))
    every = [row for of_metric in rows.values() for row in of_metric]
    table = ChartTable.of(_columns(unit), every)
    if not every:
        return ChartDrawing(None, table, absent=_absent(sheet))
    rows = {key: of_metric for key, of_metric in rows.items() if of_metric}
    limit = MAX_ROWS if len(rows) == 1 else MAX_ROWS_OF_MANY
    every.sort(key=lambda row: not row.is_own)
    is_own = every[0].is_own
    ours = {row.condition for row in every if row.is_own}
    kept = list(dict.fromkeys(row.name for row in every if row.is_own is is_own))[:limit]
    shown = {
        key: [row for row in of_metric if row.name in kept or (is_own and not row.is_own and row.condition in ours)]
        for key, of_metric in rows.items()
    }
    notes = tuple(_notes(sheet, metrics, rows, shown))
    return ChartDrawing(lambda: _figure(shown, unit, baseline), table, notes)


# --- the figure -----------------------------------------------------------------------------------------------------


def _figure(rows: dict[str, list[ForestRow]], unit: str, baseline: str) -> go.Figure:
    """A panel per metric. The rows of all panels are the same groups, so that a row can be read across.

    Printed differences are in the row of their condition, so that they never push own runs away; they have rows of
    their own only where there are no own runs."""
    every = [row for of_metric in rows.values() for row in of_metric]
    own = [row for row in every if row.is_own]
    listed = {row.name: row for row in own or every}.values()
    places = {row.name: place for place, row in enumerate(listed)}
    # A printed row is drawn just above the mark of the own row of its condition.
    first = {row.condition: places[row.name] for row in reversed(own)}
    shared = {row.name: first[row.condition] - LIFT for row in every if not row.is_own and row.condition in first}
    at = {**shared, **places}
    alone = len(rows) == 1
    kinds = {_kind(row) for row in every if row.is_own or not own or row.name in shared}
    titles, legend = [""] if alone else list(rows), [KINDS[kind][0] for kind in kinds]
    figure, place_of = panels(titles, across=ACROSS, height=max(3, len(places)) * ROW, legend=legend)
    for panel, of_metric in enumerate(rows.values()):
        found: dict[tuple[str, str], list[ForestRow]] = {}
        for row in of_metric:
            if row.name in at:
                found.setdefault((_kind(row), row.condition), []).append(row)
        for (kind, condition), of_kind in found.items():
            figure.add_trace(_marks(kind, condition, of_kind, at, overlaid=bool(shared)), **place_of(panel))
        figure.update_xaxes(title_text=f"difference to {short(baseline)}, {say_unit(unit)}", **place_of(panel))
    for kind, (name, style) in KINDS.items():
        if kind in kinds:  # an entry of the legend, without a mark in the figure
            mark = style.mark(9, line={"width": 1.6, "color": style.colour})
            entry = go.Scatter(x=[None], y=[None], mode="markers", marker=mark, name=name, hoverinfo="skip")
            figure.add_trace(entry, **place_of(0))
    drawn = [row for row in every if row.name in at]
    ends = [0.0, *(end for row in drawn for end in (row.low, row.high, row.delta) if end is not None)]
    low, high = min(ends), max(ends)
    room = 0.06 * (high - low) or 1.0
    figure.update_xaxes(range=[low - room, high + room], zeroline=True)
    # Own rows come first; the mark shows which are published, the hover and the table where.
    names = [*tell_apart(row for row in listed if row.is_own)[0], *(row.label for row in listed if not row.is_own)]
    figure.update_yaxes(
        range=[len(names) - 0.4, -0.6],
        tickvals=list(range(len(names))),
        ticktext=[short(name, LABEL) for name in names],
        showgrid=False,
        zeroline=False,
        ticks="",
    )
    figure.update_layout(barmode="overlay", showlegend=True, meta={"min_width": 700})
    if alone:
        _annotate_rows(figure, [row for row in every if row.name in places], places)
    return figure


def _kind(row: ForestRow) -> str:
    if not row.is_own:
        return "printed"
    if row.low is None or row.high is None:
        return "bare"
    return "excludes" if row.low > 0 or row.high < 0 else "includes"


def _marks(
    kind: str, condition: str, rows: Sequence[ForestRow], places: Mapping[str, float], *, overlaid: bool
) -> go.Scatter:
    """`overlaid`: printed rows are drawn in own rows."""
    style = of_group(condition)
    if kind == "printed" and overlaid:
        style = KINDS[kind][1]
    elif kind != "excludes":
        style = style.open
    around = {
        "type": "data",
        "symmetric": False,
        "array": [0 if row.high is None else row.high - row.delta for row in rows],
        "arrayminus": [0 if row.low is None else row.delta - row.low for row in rows],
        "color": style.colour,
        "thickness": 2,
        "width": 0,
        "visible": kind in {"excludes", "includes"},
    }
    points = [ChartPoint(row.delta, places[row.name], _hover(row), row.url) for row in rows]
    return plain_scatter(
        points,
        customdata=[row.url for row in rows],
        error_x=around,
        mode="markers",
        marker=style.mark(10, line={"width": 1.6, "color": style.colour}),
        name=plain(condition),
        showlegend=False,
    )


def _annotate_rows(figure: go.Figure, rows: Sequence[ForestRow], places: dict[str, int]) -> None:
    """The numbers of each row at its right, as forest plots have them: a reader without a pointer needs no hover.
    Over its line where there is no room on the right.

    All at once: plotly copies every annotation there is whenever it is given one more.
    """
    given = list(figure.layout.annotations)
    annotations = [_annotate(row, places[row.name], BESIDE) for row in rows]
    above = [_annotate(row, places[row.name], ABOVE) for row in rows]
    longest = max(len(str(each["text"])) for each in annotations) - len("<b></b>")
    room = 24 + LETTER * longest
    more = max(3, len(places)) * (NARROW_ROW - ROW)
    narrow = {
        "annotations": [*(each.to_plotly_json() for each in given), *above],
        "height": figure.layout.height + more,
        "margin": {**figure.layout.margin.to_plotly_json(), "r": NARROW_MARGIN},
        "meta": {"min_width": NARROWEST},
    }
    figure.update_layout(
        annotations=[*given, *annotations], margin={"r": room}, meta={**figure.layout.meta, "narrow": narrow}
    )


def _annotate(row: ForestRow, place: int, where: Mapping[str, object]) -> dict[str, object]:
    ends = "" if row.low is None or row.high is None else f"  {render_signed(row.low)} to {render_signed(row.high)}"
    counts = f"{row.own_count} to {row.other_count}" if row.own_count and row.other_count else ""
    return {
        **where,
        "xref": "paper",
        "xanchor": "left",
        "y": place,
        "yref": "y",
        "showarrow": False,
        "align": "left",
        "text": f"<b>{render_signed(row.delta)}</b>{ends}  {counts}",
        "font": {"size": 11, "color": INK},
    }


def _hover(row: ForestRow) -> str:
    tested = f"{row.method} ({row.clusters} episodes)" if row.is_own else row.method
    wrapped = " <br>".join(plain(line) for line in wrap(row.sentence, 88))
    return lines(f"<b>{plain(row.label)}</b> against {plain(row.against)}, {row.metric}", plain(tested), wrapped)


# --- the table, and the words -----------------------------------------------------------------------------------------


def _columns(unit: str) -> tuple[TableColumn, ...]:
    value = "%" if unit == "pp" else unit
    return (
        TableColumn("group", "group", read=lambda row: row.label),
        *name_columns("source", "metric"),
        TableColumn("against", "baseline"),
        TableColumn("value", "group", value, lambda row: row.own),
        TableColumn("count", "passed", read=lambda row: row.own_count or None),
        TableColumn("baseline_value", "baseline", value, lambda row: row.other),
        TableColumn("baseline_count", "passed", read=lambda row: row.other_count or None),
        TableColumn("tasks", "tasks compared"),
        TableColumn("difference", "difference", unit, lambda row: row.delta),
        TableColumn("low", "95 % from", unit),
        TableColumn("high", "to", unit),
        TableColumn("method", "method"),
        TableColumn("p", "p, corrected"),
        TableColumn("episodes", "episodes", read=lambda row: row.clusters),
        TableColumn("replicates", "replicates", read=lambda row: row.replicates or None),
        TableColumn("says", "in words", read=lambda row: row.sentence),
    )


def _absent(sheet: ChartSheet) -> str:
    groups, baseline = sheet.comparison.groups, sheet.comparison.groups.baseline
    if not groups.all:
        return "No run matches these choices."
    if sheet.metric is None:
        return "None of these runs has a trial that a metric covers."
    if not any(groups.baseline_of(group) for group in groups.all):
        return f"No group has a baseline here: no run under {baseline} is otherwise equal to one of them."
    return f"No group shares a scored task with its baseline under {baseline} in {sheet.metric.key}."


def _notes(
    sheet: ChartSheet,
    metrics: Sequence[TrialMetric],
    rows: dict[str, list[ForestRow]],
    shown: dict[str, list[ForestRow]],
) -> Iterable[str]:
    every = [row for of_metric in rows.values() for row in of_metric]
    _, shared = tell_apart(row for row in every if row.is_own)
    if shared:
        yield f"All own rows: {', '.join(shared)}."
    if any(row.is_own for row in every):
        yield (
            "Points are differences over the tasks scored on both sides. Intervals hold for all rows of an experiment "
            "together."
        )
    if any(not row.is_own for row in every):
        yield "Short lines are differences of printed values, over the row of their condition; papers print no interval."  # noqa: E501
    if metrics and metrics[0].better is Better.LOWER:
        yield f"{metrics[0].key}: lower is better."
    left = [metric.key for metric in sheet.metrics if not metric.is_share] if len(metrics) > 1 else []
    if left:
        yield f"In other units, each by its own choice: {', '.join(left)}."
    hidden = sum(len(of_metric) - len(shown[key]) for key, of_metric in rows.items())
    if hidden:
        yield f"{hidden} rows are in the table and not drawn; choose fewer groups to see them."


CHART = Chart(
    key="forest",
    title="Differences to the baseline",
    question="How far is each group from the baseline, and how sure?",
    draw=draw,
    uses_metric=True,
    papers=("skillevolbench", "skillflow", "skilllearnbench"),
    options={"metrics": ("chosen", "all")},
)
