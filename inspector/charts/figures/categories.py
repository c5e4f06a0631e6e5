"""Success by environment, by family or by group of tasks: one bar per group in a panel for each, and a heatmap per
metric.

Sources: SkillLearnBench, Tables 3 and 4 (accuracy by category) and Tables 8, 9 and 13 to 15 (by family, each method
over all models that wrote its skills; so usage and a judge's scores have panels too); SkillEvolBench, figure 6 (every
cell is averaged over runs, the panels share their scale).
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean

from benchapp.models import Run
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.interval import share_interval
from benchapp.stats.inference.shares import Rate, half_up, percent_text
from benchapp.stats.metrics.catalogue import name_metric
from benchapp.stats.metrics.metric import MetricUnit, TrialMetric
from benchapp.stats.metrics.outcomes import Outcomes
from benchapp.stats.metrics.splits import PLACES, Split, name_attribute
from inspector.charts.chart import BY, Answer, Chart, ChartDrawing, ChartTable, TableColumn, entry
from inspector.charts.drawing.bars import LOOKS, MAX_BARS, Bar, BarPanel, BarPart, Bars, Look, note_crowd
from inspector.charts.drawing.palette import BACKGROUND, of_group
from inspector.charts.drawing.panels import MAX_PANELS, Heat, HeatCell, Heats, Scale, lines, note_left_out, plain
from inspector.charts.drawing.places import SuitePlace, count_parts, note_split, read_parts
from inspector.charts.drawing.quantities import Ends, in_percent, unit_of, write_value
from inspector.charts.sheet import ChartSheet
from runner.base.text import plural
from runner.protocols.conditions import count_seeds

MAX_BARS_OF_MANY = 18  # in each of several panels
PAPER = "skilllearnbench"
TABLE = "Table 3"  # accuracy by category
SEEDS = "Table 4"  # one-shot in one category, by seed instances: shown with own groups that differ in these
PUBLISHED = "published"
CATEGORY_COLUMNS = (
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


def draw_categories(sheet: ChartSheet) -> ChartDrawing:
    split, metric, printed = sheet.split, sheet.metric, _list_printed_rows(sheet)
    by = name_attribute(split.by)
    if metric is None and not printed:
        return ChartDrawing(None, ChartTable(CATEGORY_COLUMNS), absent="No metric covers a trial of these runs.")
    own = _list_own_rows(sheet, metric, split) if metric else {}
    if not own and not printed:
        absent = f"The record has no {by} for the tasks of these runs."
        return ChartDrawing(None, ChartTable(CATEGORY_COLUMNS), absent=absent)
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
    table = ChartTable.of(CATEGORY_COLUMNS, chain(*(rows.values() for rows in own.values()), *printed.values()))
    answers = tuple(
        Answer(row.group, row.value, row.after.partition(" · ")[0], place.name)
        for place, rows in own.items()
        for row in rows.values()
        if row.value is not None
    )
    notes = (*_note_categories(sheet, split, len(own), printed), *note_crowd(len(groups), "groups", limit))
    return ChartDrawing(picture, table, notes, answers=answers)


def _list_own_rows(sheet: ChartSheet, metric: TrialMetric, split: Split) -> dict[SuitePlace, dict[Group, CategoryRow]]:
    """By part of the split in its order, then by group in that of the comparison;
    without groups that have no trial there."""
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
    # Student's over replicates; of a single run Wilson's, where all its trials have one and the share is theirs
    ends = None
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
    for row in sheet.printed:
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


def _note_categories(
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


CATEGORIES_CHART = Chart(
    key="categories",
    title="Success by category",
    question="Which kinds of task does each condition solve?",
    draw=draw_categories,
    after="SkillLearnBench, Table 3",
    uses_metric=True,
    papers=(PAPER,),
    options={BY: PLACES},
    finding="{what}: {high} {most}; {low} {least}",
)


# --- a heatmap per metric ---


# Unit of a metric that ends at 100 -> what its values are taken times for that.
HUNDREDS = {MetricUnit.SHARE: 100.0, MetricUnit.SCORE: 100.0, MetricUnit.OF_HUNDRED: 1.0}
PRINTED = (
    "The paper's figure is not published as numbers. Its text prints, for its ten models, a gap between the easiest "
    "and the hardest environment of 67.3 points for LSR and 42.1 points for ESR."
)


class Average:
    """One metric of one condition in one environment. `values`: the mean of each run that has one, 0 to 100. `total`:
    counts of all runs that have a trial there."""

    def __init__(
        self,
        metric: TrialMetric,
        condition: str,
        place: SuitePlace,
        url: str,
        parts: Sequence[tuple[Run, Rate, float | None]],
    ) -> None:
        self.metric, self.condition, self.place, self.url = metric, condition, place, url
        self.values = [HUNDREDS[metric.unit] * mean for *_, mean in parts if mean is not None]
        self.total, self.models = (
            sum((rate for _, rate, _ in parts), Rate()),
            len({run.agent_model for run, *_ in parts}),
        )


def draw_environments(sheet: ChartSheet) -> ChartDrawing:
    metrics, split = [metric for metric in sheet.metrics if metric.unit in HUNDREDS], sheet.split
    averages, places = _averages(sheet, metrics, split)
    table = ChartTable.of(_name_columns(split), averages)
    if not any(average.values for average in averages):
        return ChartDrawing(None, table, absent=_explain_nothing(sheet))
    conditions = list(dict.fromkeys(average.condition for average in averages))
    heats = []
    for metric in metrics:
        of_metric = [average for average in averages if average.metric == metric]
        if any(average.values for average in of_metric):
            cells = {(average.condition, average.place.label): _cell(average) for average in of_metric}
            heats.append(Heat(metric.key, cells))
    columns = [place.label for place in places]
    scale = Scale(0, 100, diverging=False, unit="%")
    figure = Heats(heats, conditions, columns, scale, across=3 if len(columns) < 8 else 2)
    notes = (*_note_environments(sheet, metrics, averages, places), *note_left_out(len(heats), "fewer metrics"))
    return ChartDrawing(figure, table, notes)


def _name_columns(split: Split) -> tuple[TableColumn, ...]:
    return (
        TableColumn("metric", "metric", read=lambda row: row.metric.key),
        TableColumn("condition", "condition"),
        TableColumn(split.by, name_attribute(split.by), read=lambda row: row.place.full),
        TableColumn("value", "mean over runs", "%", lambda row: fmean(row.values) if row.values else None),
        TableColumn("lowest", "lowest run", "%", lambda row: min(row.values, default=None)),
        TableColumn("highest", "highest run", "%", lambda row: max(row.values, default=None)),
        TableColumn("runs", "runs", read=lambda row: len(row.values)),
        TableColumn("models", "agent models"),
        TableColumn("passed", "passed, all runs", read=lambda row: row.total.passed if row.metric.is_share else None),
        TableColumn("scored", "scored", read=lambda row: row.total.scored),
        TableColumn("planned", "planned", read=lambda row: row.total.planned),
    )


def _averages(
    sheet: ChartSheet, metrics: Sequence[TrialMetric], split: Split
) -> tuple[list[Average], list[SuitePlace]]:
    """With the environments, or other parts, in their order."""
    found: dict[tuple[TrialMetric, str, int], list[tuple[Run, Rate, float | None]]] = {}
    outcomes = sheet.comparison.outcomes
    pieces = {run.pk: split.cut(outcomes[run.pk]) for run in sheet.comparison.runs}
    in_order = [(group, run) for group in sorted(sheet.groups, key=lambda group: group.order) for run in group.runs]
    for metric in metrics:
        for group, run in in_order:
            for part, rate, mean in metric.parts(outcomes[run.pk], pieces[run.pk]):
                found.setdefault((metric, group.condition, part), []).append((run, rate, mean))
    places = read_parts(split, {part for _, _, part in found})
    averages = []
    for (metric, condition, part), parts in found.items():
        place = places[part]
        url = sheet.trials_url(metric=metric, condition=condition, **place.narrowing)
        averages.append(Average(metric, condition, place, url, parts))
    return averages, list(places.values())


def _cell(average: Average) -> HeatCell:
    total, values, counted = average.total, average.values, average.metric.counted
    head = f"{plain(average.place.full)}<br><b>{plain(average.condition)}</b>, {plain(average.metric.key)}"
    if not values:
        return HeatCell(None, "", lines(head, f"none of {total.planned} {counted} is scored"), average.url)
    value = fmean(values)
    known = f"{total.passed}/{total.scored}" if average.metric.is_share else f"{total.scored}"
    counts = f"{known} {counted}" + (f", {total.missing} without a verdict" if total.missing else "")
    spread = f", {half_up(min(values), 1)} to {half_up(max(values), 1)} %" if len(values) > 1 else ""
    runs = f"{plural(len(values), 'run')} of {plural(average.models, 'agent model')}"
    hover = lines(head, f"{percent_text(value / 100, 1)} % ({counts})", f"{runs}{spread}")
    return HeatCell(value, percent_text(value / 100, 0), hover, average.url)


def _note_environments(
    sheet: ChartSheet, metrics: Sequence[TrialMetric], averages: Sequence[Average], places: Sequence[SuitePlace]
) -> Iterator[str]:
    """What is averaged, what the columns are called, how far easy and hard are apart, and who judged."""
    yield (
        "Every cell is the mean over runs (agent models and replicates alike) of the share passed there. Nothing is "
        "tested. Choose one agent model to see it alone."
    )
    columns = "; ".join(place.full for place in places if place.full != place.name)
    if columns:
        yield f"Columns: {columns}."
    apart = [text for metric in metrics if metric.is_share and (text := _describe_range(metric, averages))]
    if apart:
        by = name_attribute(sheet.split.by)
        yield f"From the easiest to the hardest {by}, each averaged over conditions: {', '.join(apart)}."
    yield from note_split(sheet.split)
    yield PRINTED
    shown = {average.metric for average in averages if average.values}
    if any(metric.unit is not MetricUnit.SHARE for metric in shown):
        yield "Scores of 0 to 1 are drawn as percent of 1, a judge's scores as they are, of 100."
    if any(metric.is_judged for metric in shown):
        yield sheet.comparison.judged_by


def _describe_range(metric: TrialMetric, averages: Iterable[Average]) -> str:
    """Range of the environments' means, in points; empty below two environments."""
    means: dict[SuitePlace, list[float]] = {}
    for average in averages:
        if average.metric == metric and average.values:
            means.setdefault(average.place, []).append(fmean(average.values))
    overall = [fmean(values) for values in means.values()]
    return f"{metric.key} {half_up(max(overall) - min(overall), 1)} points" if len(overall) > 1 else ""


def _explain_nothing(sheet: ChartSheet) -> str:
    if not sheet.comparison.runs:
        return f"No run is chosen. {PRINTED}"
    if sheet.split.by != "environment":
        return f"None of the chosen runs has a scored trial of a task with a {name_attribute(sheet.split.by)}."
    return "None of the chosen runs has a scored trial in a suite with environments."


ENVIRONMENTS_CHART = Chart(
    key="environments",
    title="Environments and conditions",
    question="Which tasks does each condition solve?",
    draw=draw_environments,
    after="SkillEvolBench, figure 6; SkillLearnBench, Tables 8 and 9",
    options={BY: PLACES},
    repeats="Every metric at once; the bars have the chosen one with its intervals.",
)
