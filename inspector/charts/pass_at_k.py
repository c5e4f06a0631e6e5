"""pass@k where tasks have several samples. After SkillGenBench, figure 7 (pass@3 of methods and backbones)."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from math import isnan

from plotly import graph_objects as go

from benchapp.comparing.groups import Group
from benchapp.metrics.passing import LIMITS, PassPoint, pass_curve, solved_within
from benchapp.published.rows import Printed
from inspector.charts.drawing import Chart, Column, Drawing, Row, Table
from inspector.charts.lineup import crowd_notes, curves, facets_of
from inspector.charts.palette import MUTED
from inspector.charts.panels import lines, panels, plain, short
from inspector.charts.quantities import plural
from inspector.charts.sheet import Sheet
from inspector.charts.traces import Point

PAPER = "skillgenbench"
MAX_K = 10
NOT_PUBLISHED = "SkillGenBench's figure 7 is not published as numbers; its text prints some of its cells."
COLUMNS = (
    Column("group", "group"),
    Column("k", "k"),
    Column("value", "pass@k, unbiased", "%"),
    Column("tasks", "tasks with k scored samples", "tasks, all replicates"),
    Column("samples", "their scored samples", "samples"),
    Column("left_out", "tasks with fewer", "tasks, all replicates"),
    Column("any_passed", "tasks with a pass among the first k", "tasks, all replicates"),
    Column("any_tried", "tasks tried", "tasks, all replicates"),
    Column("source", "source"),
)


def draw(sheet: Sheet) -> Drawing:
    found = {group: points for group in sheet.comparison.groups.all if (points := curve_of(sheet, group))}
    published = printed(sheet)
    if not found and not published:
        absent = "No task of these runs has two scored samples, so there is no pass@k beyond the plain rate."
        return Drawing(None, Table(COLUMNS), absent=f"{absent} {NOT_PUBLISHED}")
    rows = (
        *(_row(sheet, group, point) for group, points in found.items() for point in points),
        *(_printed_row(row) for row in published),
    )
    if not found:
        return Drawing(_printed_figure(published), Table(COLUMNS, rows), (NOT_PUBLISHED, LIMITS[0]))
    facets = facets_of(found)
    figure = curves(facets, lambda group: _points(sheet, group, found[group]))
    if published and len(facets) == 1:
        _lay_over(figure, published)
    figure.update_xaxes(title={"text": "k, samples allowed"}, dtick=1)
    figure.update_yaxes(range=[-3, 103], tickvals=[0, 25, 50, 75, 100])
    figure.update_yaxes(title={"text": "pass@k, %"}, col=1)
    return Drawing(figure, Table(COLUMNS, rows), (*_notes(bool(published)), *crowd_notes(facets)))


def curve_of(sheet: Sheet, group: Group) -> list[PassPoint]:
    """k from 1 on while tasks have so many scored samples; nothing where none has two."""
    points = pass_curve(sheet.comparison.of_group(group), range(1, MAX_K + 1))
    known = [point for point in points if not isnan(point.value)]
    return known if len(known) > 1 else []


def _points(sheet: Sheet, group: Group, points: Sequence[PassPoint]) -> list[Point]:
    url = sheet.trials_url(group)
    return [Point(point.k, 100 * point.value, _hover(group, point), url) for point in points]


def _hover(group: Group, point: PassPoint) -> str:
    return lines(
        plain(group.label),
        f"pass@{point.k}: {100 * point.value:.1f} %",
        f"{plural(point.tasks, 'task')}, {plural(point.samples, 'sample')}",
        f"{plural(point.left_out, 'task')} with fewer samples left out" if point.left_out else "",
    )


def _row(sheet: Sheet, group: Group, point: PassPoint) -> Row:
    counted = [solved_within(outcomes, point.k) for outcomes in sheet.comparison.of_group(group)]
    passed, tried = (sum(column) for column in zip(*counted, strict=True))
    values = (group.label, point.k, 100 * point.value, point.tasks, point.samples, point.left_out, passed, tried)
    return Row((*values, "own"), sheet.trials_url(group))


def printed(sheet: Sheet) -> list[Printed]:
    """pass@3 of a generator with a backbone, or averaged over backbones."""
    return [
        row
        for row in sheet.published
        if row.paper == PAPER and row.metric == "pass@3" and row.value is not None and row.condition
    ]


def label_of(row: Printed) -> str:
    return " · ".join(text for text in (row.condition, row.model, row.group) if text)


def _printed_row(row: Printed) -> Row:
    return Row((label_of(row), 3, row.value, None, None, None, None, None, f"SkillGenBench, {row.row}"))


def _lay_over(figure: go.Figure, published: Sequence[Printed]) -> None:
    """Open squares at k = 3, the only k the paper uses."""
    figure.add_trace(_marks(published, [3] * len(published), [row.value for row in published]))
    figure.update_layout(showlegend=True)


def _printed_figure(published: Sequence[Printed]) -> go.Figure:
    ordered = sorted(published, key=lambda row: -(row.value or 0))
    figure, _ = panels(["Published: pass@3, SkillGenBench"], across=1, height=30 * len(ordered))
    trace = _marks(ordered, [row.value for row in ordered], list(range(len(ordered))))
    trace.update(mode="markers+text", text=[f" {row.printed}" for row in ordered], textposition="middle right")
    figure.add_trace(trace)
    figure.update_yaxes(
        tickvals=list(range(len(ordered))),
        ticktext=[short(label_of(row)) for row in ordered],
        range=[len(ordered) - 0.5, -0.5],
        zeroline=False,
    )
    highest = max(row.value or 0 for row in ordered)
    figure.update_xaxes(range=[0, 1.15 * highest], ticksuffix=" %", title={"text": "pass@3, as printed"})
    return figure.update_layout(showlegend=False)


def _marks(rows: Sequence[Printed], x: Sequence[float | None], y: Sequence[float | None]) -> go.Scatter:
    return go.Scatter(
        x=list(x),
        y=list(y),
        mode="markers",
        name="published pass@3 (SkillGenBench)",
        marker={"color": MUTED, "symbol": "square-open", "size": 10, "line": {"width": 2}},
        hovertext=[
            lines(plain(label_of(row)), f"pass@3: {row.printed} %", plain(f"{row.row}. {row.note}")) for row in rows
        ],
        hoverinfo="text",
    )


def _notes(published: bool) -> Iterable[str]:
    yield (
        "The unbiased estimator over a task's scored samples, the mean over tasks, then over replicates; tasks with fewer "
        "than k scored samples are left out at k, so neighbouring points may rest on different tasks."
    )
    yield "The table also counts tasks with a pass among the first k samples, as SkillGenBench does."
    yield from LIMITS
    if published:
        yield "Published marks: other tasks, agents and verifiers; not directly comparable."
    yield NOT_PUBLISHED


CHART = Chart(
    key="pass-at-k",
    title="pass@k",
    question="How much would more tries at the same task bring?",
    draw=draw,
    after="SkillGenBench, Figure 7",
    published=(PAPER,),
)
