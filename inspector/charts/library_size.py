"""Size of the finished library against success: does a richer library help?

Source: SkillEvolBench, figure 5: a panel per model, open marks for ordinary conditions, filled marks where tier-3 files
are demanded, lines to the no-skill run of the same model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from plotly import graph_objects as go

from benchapp.comparing.choices import NO_SKILL
from benchapp.comparing.groups import Group
from benchapp.metrics.libraries import LibrarySize, final_libraries
from benchapp.metrics.metric import Metric
from inspector.charts.arms import Arm, arms_of
from inspector.charts.drawing import Chart, Column, Drawing, Row, Table
from inspector.charts.gain import shown
from inspector.charts.palette import MUTED, Style, by_name
from inspector.charts.panels import MAX_PANELS, left_out, lines, panels, plain, short
from inspector.charts.sheet import Sheet
from inspector.charts.sizes import COUNTED, Size, mean_of, sum_of
from runner.protocols.conditions import CONDITIONS, conditions_without_library

TIER3 = "-tier3"
HEIGHT = 230  # px of a panel's inside
WITHOUT_LIBRARY = conditions_without_library()
NOT_PUBLISHED = "The paper's own figure is not published as numbers."

TABLE = (
    Column("panel", "model"),
    Column("condition", "condition"),
    Column("files", "files in the finished library"),
    *(Column(kind.lower().replace(".", "_"), kind, "files") for kind in COUNTED),
    Column("other", "other files, not counted"),
    Column("skills", "skills"),
    Column("libraries", "libraries added up per run"),
    Column("replicates", "replicates with a library"),
    Column("value", "metric"),
    Column("passed", "passed"),
    Column("scored", "scored"),
    Column("planned", "planned"),
)


@dataclass(frozen=True, slots=True)
class Point:
    name: str
    group: Group
    size: Size
    value: float | None  # as shown: percent for a share


def draw(sheet: Sheet) -> Drawing:
    metric = sheet.metric
    if metric is None or not sheet.comparison.runs:
        return Drawing(None, Table(TABLE), absent=f"No run is chosen. {NOT_PUBLISHED}")
    libraries = final_libraries(sheet.comparison.runs, sheet.comparison.choices.as_of)
    owning = [arm for arm in arms_of(sheet.comparison.groups.all) if any(_points(sheet, metric, arm, libraries))]
    told = [any(point.value is not None for point in _points(sheet, metric, arm, libraries)) for arm in owning]
    # Arms are named apart from those they are drawn beside.
    arms = [
        renamed
        for drawn in (True, False)
        for renamed in arms_of([g for arm, has in zip(owning, told, strict=True) if has is drawn for g in arm.groups])
    ]
    found = [(arm, list(_points(sheet, metric, arm, libraries))) for arm in arms]
    rows = tuple(_row(sheet, metric, arm, point) for arm, points in found for point in points)
    table = Table(_columns(metric), rows)
    drawn = [(arm, points) for arm, points in found if any(point.value is not None for point in points)]
    if not drawn:
        return Drawing(None, table, absent=f"None of the chosen runs has both a library and a value for {metric.key}.")
    return Drawing(_figure(sheet, metric, drawn), table, _notes(metric, len(drawn)))


def _points(sheet: Sheet, metric: Metric, arm: Arm, libraries: Mapping[int, Sequence[LibrarySize]]) -> Iterator[Point]:
    """Of every group of the arm that has a library; empty ones count."""
    for group, name in zip(arm.groups, arm.rows, strict=True):
        kept = [[each for each in libraries.get(run.pk, ()) if not each.tainted] for run in group.runs]
        sizes = [sum_of(found) for found in kept if found]
        value = sheet.comparison.cell(group, metric).value
        if sizes and group.condition not in WITHOUT_LIBRARY:
            yield Point(name, group, mean_of(sizes), None if value is None else shown(metric, value))


def _figure(sheet: Sheet, metric: Metric, arms: Sequence[tuple[Arm, Sequence[Point]]]) -> go.Figure:
    shown_arms = arms[:MAX_PANELS]
    styles = by_name(mechanism(point.group.condition) for _, points in arms for point in points)
    figure, place_of = panels([arm.title for arm, _ in shown_arms], across=3, height=HEIGHT, legend=styles)
    named: set[str] = set()
    for place, (arm, points) in enumerate(shown_arms):
        base = arm.find(NO_SKILL)
        value = sheet.comparison.cell(base, metric).value if base else None
        if base and value is not None:
            start = shown(metric, value)
            figure.add_trace(_lines(start, points), **place_of(place))
            figure.add_trace(_no_skill(sheet, metric, base, start, styles, named), **place_of(place))
        for point in points:
            if point.value is not None:
                figure.add_trace(_mark(sheet, metric, arm, point, styles, named), **place_of(place))
    unit = "%" if metric.is_share else metric.unit.value
    few = max(point.size.counted for _, points in shown_arms for point in points) <= 10
    figure.update_xaxes(rangemode="tozero", dtick=1 if few else None, title_text="files in the finished library")
    figure.update_yaxes(title_text=f"{plain(metric.key)}, {unit}", col=1)
    return figure


def _lines(start: float, points: Sequence[Point]) -> go.Scatter:
    ends = [point for point in points if point.value is not None]
    return go.Scatter(
        x=[x for point in ends for x in (0, point.size.counted, None)],
        y=[y for point in ends for y in (start, point.value, None)],
        mode="lines",
        line={"color": MUTED, "width": 1, "dash": "dot"},
        hoverinfo="skip",
        showlegend=False,
    )


def _no_skill(
    sheet: Sheet, metric: Metric, group: Group, value: float, styles: Mapping[str, Style], named: set[str]
) -> go.Scatter:
    counts = _counts(sheet, metric, group)
    return _trace(
        NO_SKILL,
        0,
        value,
        lines(f"<b>{NO_SKILL}</b>", counts),
        sheet.trials_url(group, metric=metric),
        styles[NO_SKILL],
        named,
    )


def _mark(
    sheet: Sheet, metric: Metric, arm: Arm, point: Point, styles: Mapping[str, Style], named: set[str]
) -> go.Scatter:
    condition = point.group.condition
    style = styles[mechanism(condition)]
    files = ", ".join(f"{point.size.files[kind]:g} {kind}" for kind in COUNTED)
    hover = lines(
        plain(arm.title),
        f"<b>{plain(point.name)}</b>",
        f"{point.size.counted:g} files: {files}",
        _counts(sheet, metric, point.group),
    )
    url = sheet.trials_url(point.group, metric=metric)
    style = style if is_tier3(condition) else style.open
    return _trace(condition, point.size.counted, point.value, hover, url, style, named)


def _trace(name: str, x: float, y: float | None, hover: str, url: str, style: Style, named: set[str]) -> go.Scatter:
    """One mark; a condition stands in the legend once."""
    first = name not in named
    named.add(name)
    return go.Scatter(
        x=[x],
        y=[y],
        mode="markers",
        marker={"color": style.colour, "symbol": style.symbol, "size": 11, "line": {"width": 2}},
        name=short(name),
        legendgroup=plain(name),
        showlegend=first,
        hovertext=[hover],
        hoverinfo="text",
        customdata=[url],
        cliponaxis=False,
    )


def mechanism(condition: str) -> str:
    """What a condition is called with or without the demand for tier-3 files."""
    return condition.removesuffix(TIER3) if is_tier3(condition) else condition


def is_tier3(condition: str) -> bool:
    known = CONDITIONS.get(condition)
    return known.tier3_required if known else condition.endswith(TIER3)


def _counts(sheet: Sheet, metric: Metric, group: Group) -> str:
    cell = sheet.comparison.cell(group, metric)
    mean = "no value" if cell.value is None else f"{shown(metric, cell.value):.1f}{' %' if metric.is_share else ''}"
    counted = f"{cell.rate.passed}/{cell.rate.scored}" if metric.is_share else f"{cell.rate.scored} trials"
    runs = f", {group.replicates} replicates" if group.replicates > 1 else ""
    return f"{plain(metric.key)} {mean} ({counted}{runs})"


def _row(sheet: Sheet, metric: Metric, arm: Arm, point: Point) -> Row:
    size, cell = point.size, sheet.comparison.cell(point.group, metric)
    kinds = [round(size.files[kind], 10) for kind in COUNTED]
    return Row(
        (
            arm.title,
            point.name,
            round(size.counted, 10),
            *kinds,
            round(size.files["other"], 10),
            size.skills,
            size.libraries,
            size.replicates,
            point.value,
            cell.rate.passed if metric.is_share else None,
            cell.rate.scored,
            cell.rate.planned,
        ),
        sheet.trials_url(point.group, metric=metric),
    )


def _columns(metric: Metric) -> tuple[Column, ...]:
    unit = "%" if metric.is_share else metric.unit.value
    return tuple(Column("value", metric.key, unit) if column.key == "value" else column for column in TABLE)


def _notes(metric: Metric, total: int) -> tuple[str, ...]:
    return (
        "Filled marks: conditions that demand tier-3 files (references, scripts, assets). Open marks: all others.",
        f"Lines lead from the no-skill run of the same model. {', '.join(COUNTED)} count; a run's libraries are added up; "
        f"with several replicates both axes show the mean over them. Size was not assigned: this is association.",
        NOT_PUBLISHED,
        *left_out(total, "an agent model"),
    )


CHART = Chart(
    key="library-size",
    title="Library size and success",
    question="Does a larger library help?",
    draw=draw,
    after="SkillEvolBench, figure 5",
    uses_metric=True,
)
