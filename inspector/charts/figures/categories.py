"""Success by category: one bar per group, one panel per environment or family."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean

from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.interval import share_interval
from benchapp.stats.metrics.metric import TrialMetric
from benchapp.stats.metrics.metric_names import name_metric
from benchapp.stats.metrics.outcomes import Outcomes
from benchapp.stats.metrics.rates import Rate
from benchapp.stats.metrics.splits import PLACES, Split, name_attribute
from inspector.charts.chart import BY, Answer, Chart, ChartDrawing, ChartTable, TableColumn, entry
from inspector.charts.drawing.bars import LOOKS, MAX_BARS, Bar, BarPanel, BarPart, Bars, Look, note_crowd
from inspector.charts.drawing.palette import BACKGROUND, of_group
from inspector.charts.drawing.panels import MAX_PANELS, lines, note_left_out, plain
from inspector.charts.drawing.places import SuitePlace, count_parts, note_split, read_parts
from inspector.charts.drawing.quantities import Ends, in_percent, unit_of, write_value
from inspector.charts.sheet import ChartSheet
from runner.protocols.conditions import count_seeds

MAX_BARS_OF_MANY = 18  # in each of several panels
PAPER = "skilllearnbench"
TABLE = "Table 3"  # accuracy by category
SEEDS = "Table 4"  # one-shot in one category, by seed instances: shown with own groups that differ in these
PUBLISHED = "published"
COLUMNS = (
    TableColumn("category", "Category"),
    TableColumn("group", "Group", read=lambda row: f"{row.group} ({row.model})" if row.model else row.group),
    TableColumn("source", "Source"),
    TableColumn("value", "Value"),
    TableColumn("unit", "Unit"),
    TableColumn("passed", "Passed", "trials", entry("counted", 0)),
    TableColumn("scored", "Scored", "trials", entry("counted", 1)),
    TableColumn("planned", "Planned", "trials", entry("counted", 2)),
    TableColumn("runs", "Runs"),
)


@dataclass(frozen=True, slots=True)
class CategoryRow:
    """One group, or one printed line, in one category. `value`: as shown, in `unit`; `after` is written behind its bar.
    `counted`: passed, scored and planned trials."""

    category: str
    group: str
    source: str
    kind: str
    value: float | None
    unit: str
    after: str
    hover: str
    url: str = ""
    counted: tuple[int | None, int, int] | None = None
    runs: int | None = None
    model: str = ""
    around: Ends | None = None

    @property
    def bar(self) -> Bar:
        parts = () if self.value is None else (BarPart(self.kind, self.value, "", self.hover, self.url),)
        return Bar(self.group, parts, self.after, self.around)


def draw(sheet: ChartSheet) -> ChartDrawing:
    split, metric, printed = sheet.split, sheet.metric, _list_printed_rows(sheet)
    by = name_attribute(split.by)
    if metric is None and not printed:
        return ChartDrawing(None, ChartTable(COLUMNS), absent="No metric covers a trial of these runs.")
    own = _list_own_rows(sheet, metric, split) if metric else {}
    if not own and not printed:
        absent = f"The record has no {by} for the tasks of these runs."
        return ChartDrawing(None, ChartTable(COLUMNS), absent=absent)
    groups = [group for group in sheet.groups if any(group in rows for rows in own.values())]
    limit = MAX_BARS if len(own) <= 2 else MAX_BARS_OF_MANY
    laid_over = [
        BarPanel(f"{category} (published)", "accuracy, %, as printed", tuple(row.bar for row in rows), 100)
        for category, rows in printed.items()
    ]
    panels = []
    for place, of_place in own.items():
        bars = [
            of_place[group].bar if group in of_place else Bar(group.label, (), "no trial") for group in groups[:limit]
        ]
        axis = f"{name_metric(metric).title}, {unit_of(metric.unit)}" if metric else ""
        panels.append(BarPanel(place.name, axis, tuple(bars), 100 if metric and metric.is_share else None))
    # Every condition in its own colour, and what papers print hatched.
    looks = {
        code: Look(of_group(code).colour, "", BACKGROUND, f"c-{name_condition(code).colour or 'ink'}")
        for code in (group.condition for group in groups)
    }
    looks[PUBLISHED] = LOOKS[4]
    drawn = panels[: MAX_PANELS - len(laid_over)] if laid_over else panels
    picture = Bars(drawn, looks, share_x=not laid_over or not own, legend=False, laid_over=laid_over)
    table = ChartTable.of(COLUMNS, chain(*(rows.values() for rows in own.values()), *printed.values()))
    answers = tuple(
        Answer(row.group, row.value, row.after.partition(" · ")[0], place.name)
        for place, rows in own.items()
        for row in rows.values()
        if row.value is not None
    )
    notes = (*_notes(sheet, split, len(own), printed), *note_crowd(len(groups), "groups", limit))
    return ChartDrawing(picture, table, notes, answers=answers)


def _list_own_rows(sheet: ChartSheet, metric: TrialMetric, split: Split) -> dict[SuitePlace, dict[Group, CategoryRow]]:
    """By part of the split in its order, then by group in that of the comparison; without groups that have no trial there."""
    groups = sheet.groups
    found = {group: measure_places(sheet.comparison.of_group(group), metric, split) for group in groups}
    places = read_parts(split, {key for of_group in found.values() for key in of_group})
    return {
        place: {
            group: _build_row(sheet, metric, group, place, *of_group[key])
            for group, of_group in found.items()
            if key in of_group
        }
        for key, place in places.items()
    }


def measure_places(runs: Sequence[Outcomes], metric: TrialMetric, split: Split) -> dict[int, tuple[Rate, list[float]]]:
    """Part of the split -> counts over the replicates of a group, and the mean of each that has one."""
    found: dict[int, tuple[Rate, list[float]]] = {}
    for outcomes in runs:
        for place, rate, mean in metric.parts(outcomes, split.cut(outcomes)):
            total, means = found.get(place, (Rate(), []))
            found[place] = total + rate, means if mean is None else [*means, mean]
    return found


def _build_row(
    sheet: ChartSheet, metric: TrialMetric, group: Group, place: SuitePlace, rate: Rate, means: Sequence[float]
) -> CategoryRow:
    value = fmean(means) if means else None
    text = write_value(value, metric.unit)
    count = f"{rate.passed}/{rate.scored}" if metric.is_share else f"n {rate.scored}"
    ends = None  # Student's over replicates; of a single run Wilson's, where all its trials have one and the share is theirs
    if metric.is_share and group.replicates > 1:
        ends = share_interval(means)
    elif metric.is_share and sheet.comparison.cell(group, metric).interval and not metric.macro:
        ends = rate.interval
    return CategoryRow(
        category=place.name,
        group=group.label,
        source="own",
        kind=group.condition,
        value=100 * value if value is not None and metric.is_share else value,
        unit=unit_of(metric.unit),
        after=f"0 of {rate.planned} scored" if value is None else f"{text} · {count}",
        hover=lines(
            plain(place.name),
            plain(group.label),
            f"{metric.key} {text}",
            f"{count} {metric.counted}, {len(means)} runs",
        ),
        url=sheet.trials_url(group, metric=metric, **place.narrowing),
        counted=(rate.passed if metric.is_share else None, rate.scored, rate.planned),
        runs=len(means),
        around=in_percent(ends),
    )


def _list_printed_rows(sheet: ChartSheet) -> dict[str, list[CategoryRow]]:
    """By category, in the order of the paper."""
    found: dict[str, list[CategoryRow]] = {}
    tables = (TABLE, SEEDS) if any(count_seeds(group.condition) > 1 for group in sheet.groups) else (TABLE,)
    for row in sheet.published:
        if row.paper == PAPER and row.table in tables and row.group and row.metric == "accuracy":
            source = f"SkillLearnBench, {row.table}"
            label = f"One-Shot, {row.row}" if row.table == SEEDS else row.row
            by_model = f"{source}, {row.model}" if row.model else source
            hover = lines(plain(row.group), plain(label), f"{row.printed} %", plain(by_model))
            after = "blank" if row.value is None else f"{row.printed} %"
            found.setdefault(row.group, []).append(
                CategoryRow(row.group, label, source, PUBLISHED, row.value, row.unit, after, hover, model=row.model)
            )
    return found


def _notes(
    sheet: ChartSheet, split: Split, panels_total: int, printed: Mapping[str, Sequence[CategoryRow]]
) -> tuple[str, ...]:
    notes: list[str] = []
    if sheet.metric and panels_total:
        notes.append(f"{sheet.metric.key}: {sheet.metric.meaning}.")
        notes.append(
            "A bar is the mean over a group's replicates; counts add them up. Lines are 95 % intervals: over "
            "replicates where there are two or more, else over ten trials or more."
        )
    if printed:
        notes.append(
            "Published: task accuracy by category, averaged over the paper's six models; other tasks, agents and "
            "verifiers than in your own runs, so the levels are not directly comparable."
        )
    if any(row.source.endswith(SEEDS) for rows in printed.values() for row in rows):
        notes.append(f"Published seed counts ({SEEDS}): skills by Claude Sonnet 4.6 alone.")
    if panels_total:
        notes += note_split(split)
    return (*notes, *note_left_out(panels_total, f"{count_parts(split.by)} by suite or experiment"))


CHART = Chart(
    key="categories",
    title="Success by category",
    question="Which kinds of task does each condition solve?",
    draw=draw,
    after="SkillLearnBench, Table 3",
    uses_metric=True,
    published=(PAPER,),
    options={BY: PLACES},
    finding="{what}: {high} {most}; {low} {least}",
)
