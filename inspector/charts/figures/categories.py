"""Success by category: one bar per group, one panel per environment or family."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from statistics import fmean

from benchapp.papers.published_rows import PrintedNumber
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.interval import share_interval
from benchapp.stats.metrics.metric import TrialMetric
from benchapp.stats.metrics.metric_names import name_metric
from benchapp.stats.metrics.outcomes import Outcomes
from benchapp.stats.metrics.rates import Rate
from benchapp.stats.metrics.splits import PLACES, Split, name_attribute
from inspector.charts.chart import BY, Chart, ChartDrawing, ChartTable, TableColumn
from inspector.charts.contrast import Answer
from inspector.charts.drawing.bars import LOOKS, MAX_BARS, Bar, BarPanel, BarPart, Bars, Look, note_crowd
from inspector.charts.drawing.palette import BACKGROUND, of_group
from inspector.charts.drawing.panels import MAX_PANELS, lines, note_left_out, plain
from inspector.charts.drawing.places import SuitePlace, count_parts, note_split, read_parts
from inspector.charts.drawing.quantities import unit_of, write_value
from inspector.charts.sheet import ChartSheet
from runner.protocols.conditions import count_seeds

MAX_BARS_OF_MANY = 18  # in each of several panels
PAPER = "skilllearnbench"
TABLE = "Table 3"  # accuracy by category
SEEDS = "Table 4"  # one-shot in one category, by seed instances: beside own groups that differ in these
PUBLISHED = "published"
COLUMNS = (
    TableColumn("category", "Category"),
    TableColumn("group", "Group", read=lambda row: f"{row.group} ({row.model})" if row.model else row.group),
    TableColumn("source", "Source"),
    TableColumn("value", "Value"),
    TableColumn("unit", "Unit"),
    TableColumn("passed", "Passed", "trials"),
    TableColumn("scored", "Scored", "trials"),
    TableColumn("planned", "Planned", "trials"),
    TableColumn("runs", "Runs"),
)


@dataclass(frozen=True, slots=True)
class CategoryRow:
    """One group, or one printed line, in one category. `value`: as shown, in `unit`; `after` stands behind its bar."""

    category: str
    group: str
    source: str
    kind: str
    value: float | None
    unit: str
    after: str
    hover: str
    url: str = ""
    passed: int | None = None
    scored: int | None = None
    planned: int | None = None
    runs: int | None = None
    model: str = ""
    around: tuple[float, float] | None = None

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
    panels = _build_panels(metric, own, groups[:limit]) if metric else []
    drawn = panels[: MAX_PANELS - len(laid_over)] if laid_over else panels
    picture = Bars(drawn, _look_up(groups), share_x=not laid_over or not own, legend=False, laid_over=laid_over)
    table = ChartTable.of(COLUMNS, chain(*(rows.values() for rows in own.values()), *printed.values()))
    notes = (*_notes(sheet, split, len(own), printed), *note_crowd(len(groups), "groups", limit))
    return ChartDrawing(picture, table, notes, answers=tuple(_answer(own)))


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
    counted = f"{count} {metric.counted}, {len(means)} runs"
    return CategoryRow(
        place.name,
        group.label,
        "own",
        group.condition,
        100 * value if value is not None and metric.is_share else value,
        unit_of(metric.unit),
        f"0 of {rate.planned} scored" if value is None else f"{text} · {count}",
        lines(plain(place.name), plain(group.label), f"{metric.key} {text}", counted),
        sheet.trials_url(group, metric=metric, **place.narrowing),
        rate.passed if metric.is_share else None,
        rate.scored,
        rate.planned,
        len(means),
        around=_find_interval(sheet, metric, group, rate, means),
    )


def _find_interval(
    sheet: ChartSheet, metric: TrialMetric, group: Group, rate: Rate, means: Sequence[float]
) -> tuple[float, float] | None:
    """In percent: Student's over replicates, of a single run Wilson's from ten trials on, where all its trials have one and the
    share is theirs; None for other units."""
    if not metric.is_share:
        return None
    if group.replicates > 1:
        ends = share_interval(means)
    else:
        ends = rate.interval if sheet.comparison.cell(group, metric).interval and not metric.macro else None
    return (100 * ends[0], 100 * ends[1]) if ends else None


def _look_up(groups: Sequence[Group]) -> dict[str, Look]:
    """Every condition in its own colour, and what papers print hatched."""
    looks = {
        code: Look(of_group(code).colour, "", BACKGROUND, f"c-{name_condition(code).colour or 'ink'}")
        for code in (group.condition for group in groups)
    }
    return {**looks, PUBLISHED: LOOKS[4]}


def _answer(own: dict[SuitePlace, dict[Group, CategoryRow]]) -> Iterator[Answer]:
    for place, rows in own.items():
        for row in rows.values():
            if row.value is not None:
                yield Answer(row.group, row.value, row.after.partition(" · ")[0], place.name)


def _build_panels(
    metric: TrialMetric, own: dict[SuitePlace, dict[Group, CategoryRow]], groups: Sequence[Group]
) -> list[BarPanel]:
    axis, whole = f"{name_metric(metric).title}, {unit_of(metric.unit)}", 100 if metric.is_share else None
    return [
        BarPanel(
            place.name,
            axis,
            tuple(rows[group].bar if group in rows else Bar(group.label, (), "no trial") for group in groups),
            whole,
        )
        for place, rows in own.items()
    ]


def _list_printed_rows(sheet: ChartSheet) -> dict[str, list[CategoryRow]]:
    """By category, in the order of the paper."""
    found: dict[str, list[CategoryRow]] = {}
    tables = (TABLE, SEEDS) if any(count_seeds(group.condition) > 1 for group in sheet.groups) else (TABLE,)
    for row in sheet.published:
        if row.paper == PAPER and row.table in tables and row.group and row.metric == "accuracy":
            found.setdefault(row.group, []).append(_build_printed_row(row))
    return found


def _build_printed_row(row: PrintedNumber) -> CategoryRow:
    source = f"SkillLearnBench, {row.table}"
    by_model = f"{source}, {row.model}" if row.model else source
    label = f"One-Shot, {row.row}" if row.table == SEEDS else row.row
    return CategoryRow(
        row.group,
        label,
        source,
        PUBLISHED,
        row.value,
        row.unit,
        "blank" if row.value is None else f"{row.printed} %",
        lines(plain(row.group), plain(label), f"{row.printed} %", plain(by_model)),
        model=row.model,
    )


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
