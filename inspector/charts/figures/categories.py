"""Success by category: one bar per group, one panel per environment or family."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchapp.papers.published_rows import PrintedNumber
from benchapp.stats.comparing.groups import Group
from benchapp.stats.metrics.metric import TrialMetric
from benchapp.stats.metrics.outcomes import Outcomes
from benchapp.stats.metrics.rates import Rate
from inspector.charts.chart import Chart, ChartDrawing, ChartTable, TableColumn, TableRow
from inspector.charts.drawing.bars import LOOKS, MAX_BARS, Bar, BarPanel, BarPart, Look, note_crowd, rows_of, stack_bars
from inspector.charts.drawing.palette import BACKGROUND, MUTED
from inspector.charts.drawing.panels import MAX_PANELS, lines, note_left_out, plain
from inspector.charts.drawing.places import SuitePlace, read_environments, read_families
from inspector.charts.drawing.quantities import unit_of, write_value
from inspector.charts.sheet import ChartSheet

MAX_BARS_OF_MANY = 18  # in each of several panels
PAPER = "skilllearnbench"
TABLE = "Table 3"  # accuracy by category
OWN, BASELINE, PUBLISHED = "own runs", "baseline", "published"
KINDS = {OWN: LOOKS[0], BASELINE: Look(MUTED, "-", BACKGROUND), PUBLISHED: LOOKS[1]}
COLUMNS = (
    TableColumn("category", "Category"),
    TableColumn("group", "Group"),
    TableColumn("source", "Source"),
    TableColumn("value", "Value"),
    TableColumn("unit", "Unit"),
    TableColumn("passed", "Passed", "trials"),
    TableColumn("scored", "Scored", "trials"),
    TableColumn("planned", "Planned", "trials"),
    TableColumn("runs", "Runs"),
)


@dataclass(frozen=True, slots=True)
class CategoryResult:
    """One group in one category. `value`: the mean of the replicates' means, in the metric's unit."""

    value: float | None
    rate: Rate
    runs: int


def by_place(runs: Sequence[Outcomes], metric: TrialMetric, column: str) -> dict[int, CategoryResult]:
    """Key of the environment or family -> what the metric is there, over the replicates of a group."""
    means: dict[int, list[float]] = {}
    rates: dict[int, Rate] = {}
    for outcomes in runs:
        for place, rate, mean in metric.parts(outcomes, column):
            rates[place] = rates.get(place, Rate()) + rate
            if mean is not None:
                means.setdefault(place, []).append(mean)
    return {
        place: CategoryResult(fmean(means[place]) if place in means else None, rate, len(means.get(place, [])))
        for place, rate in rates.items()
    }


def draw(sheet: ChartSheet) -> ChartDrawing:
    if sheet.metric is None and not select_printed(sheet):
        return ChartDrawing(None, ChartTable(COLUMNS), absent="No trial of these runs is covered by a metric.")
    by = sheet.options.get("by", "environment")
    found = (
        {group.identity: _find_results(sheet, group, by) for group in sheet.comparison.groups.all}
        if sheet.metric
        else {}
    )
    names = _names(by, {place for each in found.values() for place in each})
    published = _by_category(select_printed(sheet))
    if not names and not published:
        return ChartDrawing(
            None, ChartTable(COLUMNS), absent=f"The tasks of these runs belong to no {by} that the record knows."
        )
    groups = [group for group in sheet.comparison.groups.all if found.get(group.identity)]
    limit = MAX_BARS if len(names) <= 2 else MAX_BARS_OF_MANY
    own = [_block(sheet, place, told, groups, found, by, limit) for place, told in names.items()]
    laid_over = [_draw_printed_panel(category, rows) for category, rows in published.items()]
    drawn = own[: MAX_PANELS - len(laid_over)] if laid_over else own
    figure = stack_bars(rows_of(2, drawn, laid_over), KINDS, share_x=not laid_over or not own)
    table = ChartTable(COLUMNS, (*_rows(sheet, names, groups, found, by), *_list_printed_rows(published)))
    notes = (*_notes(sheet, by, len(names), bool(published)), *note_crowd(len(groups), "groups", limit))
    return ChartDrawing(figure, table, notes)


def select_printed(sheet: ChartSheet) -> list[PrintedNumber]:
    return [row for row in sheet.published if row.paper == PAPER and row.table == TABLE and row.group]


def _find_results(sheet: ChartSheet, group: Group, by: str) -> dict[int, CategoryResult]:
    assert sheet.metric is not None
    return by_place(sheet.comparison.of_group(group), sheet.metric, by)


def _names(by: str, places: set[int]) -> dict[int, SuitePlace]:
    """In the order of the suite."""
    return read_environments(places) if by == "environment" else read_families(places)


def _by_category(rows: Iterable[PrintedNumber]) -> dict[str, list[PrintedNumber]]:
    found: dict[str, list[PrintedNumber]] = {}
    for row in rows:
        found.setdefault(row.group, []).append(row)
    return found


def _block(
    sheet: ChartSheet,
    place: int,
    told: SuitePlace,
    groups: Sequence[Group],
    found: Mapping[tuple[object, ...], Mapping[int, CategoryResult]],
    by: str,
    limit: int,
) -> BarPanel:
    assert sheet.metric is not None
    metric, bars = sheet.metric, []
    for group in groups[:limit]:
        one = found[group.identity].get(place)
        kind = BASELINE if sheet.comparison.groups.is_baseline(group) else OWN
        if one is None or one.value is None:
            bars.append(Bar(group.label, (), "no trial" if one is None else f"0 of {one.rate.planned} scored"))
            continue
        text = write_value(one.value, metric.unit)
        count = f"{one.rate.passed}/{one.rate.scored}" if metric.is_share else f"n {one.rate.scored}"
        hover = lines(
            plain(told.name), plain(group.label), f"{metric.key} {text}", f"{count} {metric.counted}, {one.runs} runs"
        )
        url = sheet.trials_url(group, metric=metric, **{by: told.key})
        bars.append(
            Bar(group.label, (BarPart(kind, _scale_value(one.value, metric), "", hover, url),), f"{text} · {count}")
        )
    return BarPanel(told.name, f"{metric.key}, {unit_of(metric.unit)}", tuple(bars), 100 if metric.is_share else None)


def _scale_value(value: float, metric: TrialMetric) -> float:
    return 100 * value if metric.is_share else value


def _draw_printed_panel(category: str, rows: Sequence[PrintedNumber]) -> BarPanel:
    bars = [
        Bar(row.row, (), "blank")
        if row.value is None
        else Bar(row.row, (_draw_printed_part(category, row),), f"{row.printed} %")
        for row in rows
    ]
    return BarPanel(f"{category} (published)", "accuracy, %, as printed", tuple(bars), 100)


def _draw_printed_part(category: str, row: PrintedNumber) -> BarPart:
    source = f"SkillLearnBench, {row.table}" + (f", {row.model}" if row.model else "")
    return BarPart(PUBLISHED, row.value, "", lines(plain(category), plain(row.row), f"{row.printed} %", plain(source)))


def _rows(
    sheet: ChartSheet,
    names: Mapping[int, SuitePlace],
    groups: Sequence[Group],
    found: Mapping[tuple[object, ...], Mapping[int, CategoryResult]],
    by: str,
) -> Iterable[TableRow]:
    assert sheet.metric is not None or not names
    for place, told in names.items():
        for group in groups:
            one = found[group.identity].get(place)
            if one is None or sheet.metric is None:
                continue
            metric, rate = sheet.metric, one.rate
            value = None if one.value is None else _scale_value(one.value, metric)
            passed = rate.passed if metric.is_share else None
            numbers = (value, unit_of(metric.unit), passed, rate.scored, rate.planned, one.runs)
            url = sheet.trials_url(group, metric=metric, **{by: told.key})
            yield TableRow((told.name, group.label, "own", *numbers), url)


def _list_printed_rows(published: Mapping[str, Sequence[PrintedNumber]]) -> Iterable[TableRow]:
    for category, rows in published.items():
        for row in rows:
            label = f"{row.row} ({row.model})" if row.model else row.row
            source = f"SkillLearnBench, {row.table}"
            yield TableRow((category, label, source, row.value, row.unit, None, None, None, None))


def _notes(sheet: ChartSheet, by: str, panels_total: int, published: bool) -> tuple[str, ...]:
    notes: list[str] = []
    if sheet.metric and panels_total:
        notes.append(f"{sheet.metric.key}: {sheet.metric.meaning}.")
        notes.append("A bar is the mean over the replicates of a group; the counts add its replicates up.")
    if published:
        notes.append(
            "Published: task accuracy by category, averaged over the paper's six models; other tasks, agents and "
            "verifiers than in runs of one's own, so the levels are not directly comparable."
        )
    return (*notes, *note_left_out(panels_total, f"{by}s by suite or experiment"))


CHART = Chart(
    key="categories",
    title="Success by category",
    question="In which kinds of task does each condition succeed?",
    draw=draw,
    after="SkillLearnBench, Table 3",
    uses_metric=True,
    published=(PAPER,),
    options={"by": ("environment", "family")},
)
