"""Size of the finished library against success: does a richer library help?

Source: SkillEvolBench, figure 5: a panel per model, open marks for ordinary conditions, filled marks where tier-3 files
are demanded, lines to the no-skill run of the same model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from plotly import graph_objects as go

from benchapp.stats.comparing.choices import NO_SKILL
from benchapp.stats.comparing.comparison import MetricCell
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.shares import half_up
from benchapp.stats.learning.library_sizes import LibraryNumbers, read_library_numbers
from benchapp.stats.metrics.metric import TrialMetric
from benchapp.stats.metrics.metric_names import name_metric
from inspector.charts.chart import Chart, ChartDrawing, ChartTable, TableColumn
from inspector.charts.contrast import Answer
from inspector.charts.drawing.arms import ModelPanel, arms_of
from inspector.charts.drawing.gain import scale_value
from inspector.charts.drawing.palette import Style, by_name
from inspector.charts.drawing.panels import MAX_PANELS, lines, note_left_out, panels, plain
from inspector.charts.drawing.quantities import unit_of
from inspector.charts.drawing.traces import ChartPoint, Legend, reach, scatter
from inspector.charts.figures.libraries import COUNTED, Composition, composition, kind_columns
from inspector.charts.lacking import WITHOUT_LIBRARY, lacks_libraries
from inspector.charts.sheet import ChartSheet
from inspector.web.text.formats import number
from runner.protocols.conditions import CONDITIONS

TIER3 = "-tier3"
HEIGHT = 230  # px of a panel's inside
NOT_PUBLISHED = "The paper's own figure is not published as numbers."

COLUMNS = (
    TableColumn("panel", "model"),
    TableColumn("condition", "condition"),
    TableColumn("files", "files in the finished library", read=lambda row: round(row.whole.counted, 10)),
    *kind_columns(COUNTED, "files", 10),
    TableColumn("other", "other files, not counted", read=lambda row: round(row.whole.files["other"], 10)),
    TableColumn("skills", "skills", read=lambda row: row.whole.skills),
    TableColumn("libraries", "libraries added up per run", read=lambda row: row.whole.libraries / row.whole.runs),
    TableColumn("replicates", "replicates with a library", read=lambda row: row.whole.runs),
    TableColumn("value", "metric"),
    TableColumn("passed", "passed", read=lambda row: row.cell.rate.passed if row.cell.metric.is_share else None),
    TableColumn("scored", "scored", read=lambda row: row.cell.rate.scored),
    TableColumn("planned", "planned", read=lambda row: row.cell.rate.planned),
)


@dataclass(frozen=True, slots=True)
class SizeRow:
    """One group: its libraries and its value. `condition`: what it is called in its panel."""

    panel: str
    condition: str
    group: Group
    url: str
    whole: Composition
    cell: MetricCell

    @property
    def value(self) -> float | None:
        """As shown: percent for a share."""
        return None if self.cell.value is None else scale_value(self.cell.metric, self.cell.value)

    @property
    def around(self) -> tuple[float, float] | None:
        ends = self.cell.spread
        return (scale_value(self.cell.metric, ends[0]), scale_value(self.cell.metric, ends[1])) if ends else None

    @property
    def point(self) -> ChartPoint:
        files = ", ".join(f"{self.whole.files[kind]:g} {kind}" for kind in COUNTED)
        hover = lines(
            plain(self.panel),
            f"<b>{plain(self.condition)}</b>",
            f"{self.whole.counted:g} files: {files}",
            _counts(self.cell, self.group),
        )
        return ChartPoint(self.whole.counted, self.value, hover, self.url)


def draw(sheet: ChartSheet) -> ChartDrawing:
    metric = sheet.metric
    if metric is None or not sheet.comparison.runs:
        return ChartDrawing(None, ChartTable(COLUMNS), absent=f"No run is chosen. {NOT_PUBLISHED}")
    libraries = read_library_numbers(sheet.comparison.runs, sheet.comparison.choices.as_of)

    def rows_of(groups: Sequence[Group]) -> list[tuple[ModelPanel, list[SizeRow]]]:
        return [(arm, list(_rows(sheet, metric, arm, libraries))) for arm in arms_of(groups)]

    owning = [(arm, rows) for arm, rows in rows_of(sheet.groups) if rows]
    # Arms are named apart from those they are drawn beside.
    apart = (
        [group for arm, rows in owning if _has_value(rows) is has for group in arm.groups] for has in (True, False)
    )
    drawn, bare = map(rows_of, apart)
    table = ChartTable.of(_columns(metric), [row for _, rows in (*drawn, *bare) for row in rows])
    if not drawn:
        return ChartDrawing(
            None, table, absent=f"None of the chosen runs has both a library and a value for {metric.key}."
        )
    answers = tuple(
        Answer(
            row.condition,
            row.whole.counted,
            str(number(row.whole.counted, 1)),
            f"files, {arm.title}" if len(drawn) > 1 else "files",
        )
        for arm, rows in drawn
        for row in rows
    )
    return ChartDrawing(lambda: _figure(sheet, metric, drawn), table, _notes(len(drawn)), answers=answers)


def _rows(
    sheet: ChartSheet, metric: TrialMetric, arm: ModelPanel, libraries: Mapping[int, LibraryNumbers]
) -> Iterator[SizeRow]:
    """Of every group of the arm that has a library; empty ones count."""
    for group, name in zip(arm.groups, arm.rows, strict=True):
        whole = composition([libraries[run.pk].sizes for run in group.runs])
        if whole is not None and group.condition not in WITHOUT_LIBRARY:
            url, cell = sheet.trials_url(group, metric=metric), sheet.comparison.cell(group, metric)
            yield SizeRow(arm.title, name, group, url, whole, cell)


def _has_value(rows: Sequence[SizeRow]) -> bool:
    return any(row.value is not None for row in rows)


def _figure(sheet: ChartSheet, metric: TrialMetric, arms: Sequence[tuple[ModelPanel, Sequence[SizeRow]]]) -> go.Figure:
    shown_arms = arms[:MAX_PANELS]
    styles = by_name(row.group.condition for _, rows in arms for row in rows)
    figure, place_of = panels([arm.title for arm, _ in shown_arms], across=2, height=HEIGHT, legend=styles)
    named = Legend()
    for place, (arm, rows) in enumerate(shown_arms):
        points = [(row, row.point) for row in rows if row.value is not None]
        base = arm.find(NO_SKILL)
        start = _no_skill(sheet, metric, base) if base else None
        if start:
            figure.add_trace(_trace(NO_SKILL, start, styles[NO_SKILL], named), **place_of(place))
        for row, point in points:
            condition = row.group.condition
            style = styles[condition] if is_tier3(condition) else styles[condition].open
            figure.add_trace(_trace(condition, point, style, named, row.around), **place_of(place))
    few = max(row.whole.counted for _, rows in shown_arms for row in rows) <= 10
    figure.update_xaxes(rangemode="tozero", dtick=1 if few else None, title_text="files in the finished library")
    figure.update_yaxes(title_text=f"{plain(name_metric(metric).title)}, {unit_of(metric.unit)}", col=1)
    return figure


def _no_skill(sheet: ChartSheet, metric: TrialMetric, group: Group) -> ChartPoint | None:
    cell = sheet.comparison.cell(group, metric)
    if cell.value is None:
        return None
    hover = lines(f"<b>{NO_SKILL}</b>", _counts(cell, group))
    return ChartPoint(0, scale_value(metric, cell.value), hover, sheet.trials_url(group, metric=metric))


def _trace(
    name: str, point: ChartPoint, style: Style, named: Legend, around: tuple[float, float] | None = None
) -> go.Scatter:
    """One mark with its interval; a condition stands in the legend once."""
    return scatter(
        [point],
        mode="markers",
        marker=style.mark(11, line={"width": 2}),
        error_y=reach(point.y, around, style.colour),
        **named.enter(name),
    )


def is_tier3(condition: str) -> bool:
    known = CONDITIONS.get(condition)
    return known.tier3_required if known else condition.endswith(TIER3)


def _counts(cell: MetricCell, group: Group) -> str:
    metric = cell.metric
    mean = (
        "no value"
        if cell.value is None
        else f"{half_up(scale_value(metric, cell.value), 1)}{' %' if metric.is_share else ''}"
    )
    counted = f"{cell.rate.passed}/{cell.rate.scored}" if metric.is_share else f"{cell.rate.scored} trials"
    runs = f", {group.replicates} replicates" if group.replicates > 1 else ""
    return f"{plain(metric.key)} {mean} ({counted}{runs})"


def _columns(metric: TrialMetric) -> tuple[TableColumn, ...]:
    value = TableColumn("value", metric.key, unit_of(metric.unit))
    return tuple(value if column.key == "value" else column for column in COLUMNS)


def _notes(total: int) -> tuple[str, ...]:
    return (
        "Filled marks: conditions that demand tier-3 files (references, scripts, assets). Open marks: all others.",
        f"The no-skill run of the same model has 0 files. {', '.join(COUNTED)} count; a run's libraries are added up; "
        f"with several replicates both axes show the mean over them. Bars are 95 % intervals. Size was not assigned: this is association.",
        NOT_PUBLISHED,
        *note_left_out(total, "an agent model"),
    )


CHART = Chart(
    key="library-size",
    title="Library size and success",
    question="Does a larger library help?",
    draw=draw,
    lacks=lacks_libraries,
    after="SkillEvolBench, figure 5",
    uses_metric=True,
)
