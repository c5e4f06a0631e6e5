"""pass@k where tasks have several samples. After SkillGenBench, figure 7 (pass@3 of methods and backbones)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import isnan

from plotly import graph_objects as go

from benchapp.papers.published_rows import PrintedNumber
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.shares import half_up
from benchapp.stats.metrics.passk import LIMITS, count_solved_within, pass_curve
from inspector.charts.chart import Answer, Chart, ChartDrawing, ChartTable, TableColumn, interval_columns, name_columns
from inspector.charts.drawing.lineup import LinePanel, crowd_notes, curves, split_panels
from inspector.charts.drawing.palette import MUTED
from inspector.charts.drawing.panels import lines, panels, plain
from inspector.charts.drawing.quantities import Ends, in_percent, write_interval
from inspector.charts.drawing.traces import ChartPoint, lay_rows, plain_scatter
from inspector.charts.sheet import ChartSheet, lacks_samples
from runner.base.text import plural

PAPER = "skillgenbench"
MAX_K = 10
NOT_PUBLISHED = "SkillGenBench's figure 7 is not published as numbers; its text prints some of its cells."
COLUMNS = (
    *name_columns("group", "k"),
    TableColumn("value", "pass@k, unbiased", "%"),
    *interval_columns("%"),
    TableColumn("tasks", "tasks with k scored samples", "tasks, all replicates"),
    TableColumn("samples", "their scored samples", "samples"),
    TableColumn("left_out", "tasks with fewer", "tasks, all replicates"),
    TableColumn("any_passed", "tasks with a pass among the first k", "tasks, all replicates"),
    TableColumn("any_tried", "tasks tried", "tasks, all replicates"),
    TableColumn("source", "source"),
)


@dataclass(frozen=True, slots=True)
class PassRow:
    """pass@k of a group, or as it is printed; `value` and its interval `around` in percent."""

    group: str
    source: str
    k: int
    value: float | None
    tasks: int | None = None
    samples: int | None = None
    left_out: int | None = None
    any_passed: int | None = None
    any_tried: int | None = None
    url: str = ""
    around: Ends | None = None

    @property
    def point(self) -> ChartPoint:
        hover = lines(
            plain(self.group),
            f"pass@{self.k}: {half_up(self.value or 0, 1)} %{write_interval(self.around)}",
            f"{plural(self.tasks or 0, 'task')}, {plural(self.samples or 0, 'sample')}",
            f"{plural(self.left_out, 'task')} with fewer samples left out" if self.left_out else "",
        )
        return ChartPoint(self.k, self.value, hover, self.url, self.around)


def draw(sheet: ChartSheet) -> ChartDrawing:
    found = {group: points for group in sheet.groups if (points := curve_of(sheet, group))}
    # pass@3 of a generator with a backbone, or averaged over backbones.
    of_paper = [row for row in sheet.printed if row.paper == PAPER and row.metric == "pass@3"]
    published = [row for row in of_paper if row.value is not None and row.condition]
    if not found and not published:
        absent = "No task of these runs has two scored samples, so there is no pass@k beyond the plain rate."
        return ChartDrawing(None, ChartTable(COLUMNS), absent=f"{absent} {NOT_PUBLISHED}")
    own = [*chain(*found.values())]
    printed = (PassRow(label_of(row), f"SkillGenBench, {row.row}", 3, row.value) for row in published)
    table = ChartTable.of(COLUMNS, [*own, *printed])
    if not found:
        return ChartDrawing(lambda: _draw_printed(published), table, (NOT_PUBLISHED, LIMITS[0]))
    facets = split_panels(found)
    answers = tuple(
        Answer(row.group, row.value, f"{half_up(row.value)} %", str(row.k)) for row in own if row.value is not None
    )
    notes = (*_notes(bool(published)), *crowd_notes(facets))
    return ChartDrawing(lambda: _draw_curves(facets, found, published), table, notes, answers=answers)


def _draw_curves(
    facets: Sequence[LinePanel[Group]], found: Mapping[Group, Sequence[PassRow]], published: Sequence[PrintedNumber]
) -> go.Figure:
    figure = curves(facets, lambda group: [row.point for row in found[group]])
    if published and len(facets) == 1:  # open squares at k = 3, the only k the paper uses
        figure.add_trace(_marks([ChartPoint(3, row.value, _write_printed_hover(row)) for row in published]))
        figure.update_layout(showlegend=True)
    figure.update_xaxes(title={"text": "k, samples allowed"}, dtick=1)
    figure.update_yaxes(range=[-3, 103], tickvals=[0, 25, 50, 75, 100])
    return figure.update_yaxes(title={"text": "pass@k, %"}, col=1)


def curve_of(sheet: ChartSheet, group: Group) -> list[PassRow]:
    """k from 1 on while tasks have k scored samples; empty where no task has two."""
    runs, url = sheet.comparison.of_group(group), sheet.trials_url(group)
    known = [point for point in pass_curve(runs, range(1, MAX_K + 1)) if not isnan(point.value)]
    rows = []
    for point in known if len(known) > 1 else ():
        counted = [count_solved_within(outcomes, point.k) for outcomes in runs]
        passed, tried = (sum(column) for column in zip(*counted, strict=True))
        numbers = (100 * point.value, point.tasks, point.samples, point.left_out, passed, tried)
        rows.append(PassRow(group.label, "own", point.k, *numbers, url, in_percent(point.interval)))
    return rows


def label_of(row: PrintedNumber) -> str:
    return " · ".join(text for text in (row.condition, row.model, row.group) if text)


def _draw_printed(published: Sequence[PrintedNumber]) -> go.Figure:
    ordered = sorted(published, key=lambda row: -(row.value or 0))
    figure, _ = panels(["Published: pass@3, SkillGenBench"], across=1, height=30 * len(ordered))
    trace = _marks([ChartPoint(row.value, place, _write_printed_hover(row)) for place, row in enumerate(ordered)])
    trace.update(mode="markers+text", text=[f" {row.printed}" for row in ordered], textposition="middle right")
    figure.add_trace(trace)
    figure.update_yaxes(**lay_rows([label_of(row) for row in ordered]), zeroline=False)
    highest = max(row.value or 0 for row in ordered)
    figure.update_xaxes(range=[0, 1.15 * highest], ticksuffix=" %", title={"text": "pass@3, as printed"})
    return figure.update_layout(showlegend=False)


def _marks(points: Sequence[ChartPoint]) -> go.Scatter:
    return plain_scatter(
        points,
        mode="markers",
        name="published pass@3 (SkillGenBench)",
        marker={"color": MUTED, "symbol": "square-open", "size": 10, "line": {"width": 2}},
    )


def _write_printed_hover(row: PrintedNumber) -> str:
    return lines(plain(label_of(row)), f"pass@3: {row.printed} %", plain(f"{row.row}. {row.note}"))


def _notes(published: bool) -> Iterable[str]:
    yield (
        "The unbiased estimator over a task's scored samples, the mean over tasks, then over replicates; tasks with "
        "fewer than k scored samples are left out at k, so neighbouring points may rest on different tasks."
    )
    yield "Lines are 95 % intervals: over replicates where there are two or more, else over ten tasks or more, drawn again."  # noqa: E501
    yield "The table also counts tasks with a pass among the first k samples, as SkillGenBench does."
    yield from LIMITS
    if published:
        yield "Published marks: other tasks, agents and verifiers; not directly comparable."
    yield NOT_PUBLISHED


CHART = Chart(
    key="pass-at-k",
    title="pass@k",
    question="What do more tries at a task gain?",
    draw=draw,
    lacks=lacks_samples,
    after="SkillGenBench, Figure 7",
    finding="pass@{what}: {high} {most}; {low} {least}",
    papers=(PAPER,),
)
