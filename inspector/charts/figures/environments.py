"""Success by environment and condition, one heatmap per metric: where does a condition work? By family or group as well.

Sources: SkillEvolBench, figure 6: every cell is averaged over runs, the panels share their scale. SkillLearnBench, Tables 8, 9 and
13 to 15: by family, each method over all models that wrote its skills; so usage and a judge's scores have panels too.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchapp.models import Run
from benchapp.stats.inference.shares import half_up, percent_text
from benchapp.stats.metrics.metric import MetricUnit, TrialMetric
from benchapp.stats.metrics.rates import Rate
from benchapp.stats.metrics.splits import PLACES, Split, name_attribute
from inspector.charts.chart import BY, Chart, ChartDrawing, ChartTable, TableColumn
from inspector.charts.drawing.panels import Heat, HeatCell, Heats, Scale, lines, note_left_out, plain
from inspector.charts.drawing.places import SuitePlace, note_split, read_parts
from inspector.charts.drawing.quantities import plural
from inspector.charts.sheet import ChartSheet

# Unit of a metric that ends at 100 -> what its values are taken times for that.
HUNDREDS = {MetricUnit.SHARE: 100.0, MetricUnit.SCORE: 100.0, MetricUnit.OF_HUNDRED: 1.0}
PRINTED = (
    "The paper's figure is not published as numbers. Its text prints, for its ten models, a gap between the easiest and the "
    "hardest environment of 67.3 points for LSR and 42.1 points for ESR."
)


@dataclass(frozen=True, slots=True)
class Average:
    """One metric of one condition in one environment. `values`: the mean of each run that has one, 0 to 100; `total`: counts of all
    runs that have a trial there."""

    metric: TrialMetric
    condition: str
    place: SuitePlace
    url: str
    values: Sequence[float]
    total: Rate
    models: int


def draw(sheet: ChartSheet) -> ChartDrawing:
    metrics, split = [metric for metric in sheet.metrics if metric.unit in HUNDREDS], sheet.split
    averages, places = _averages(sheet, metrics, split)
    table = ChartTable.of(_columns(split), averages)
    if not any(average.values for average in averages):
        return ChartDrawing(None, table, absent=_absent(sheet))
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
    notes = (*_notes(sheet, metrics, averages, places), *note_left_out(len(heats), "fewer metrics"))
    return ChartDrawing(figure, table, notes)


def _columns(split: Split) -> tuple[TableColumn, ...]:
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
        values = [HUNDREDS[metric.unit] * mean for *_, mean in parts if mean is not None]
        total, models = sum((rate for _, rate, _ in parts), Rate()), len({run.agent_model for run, *_ in parts})
        averages.append(Average(metric, condition, place, url, values, total, models))
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


def _notes(
    sheet: ChartSheet, metrics: Sequence[TrialMetric], averages: Sequence[Average], places: Sequence[SuitePlace]
) -> Iterator[str]:
    """What is averaged, what the columns are called, how far easy and hard are apart, and who judged."""
    yield (
        "Every cell is the mean over runs (agent models and replicates alike) of the share passed there. Nothing is tested. "
        "Choose one agent model to see it alone."
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


def _absent(sheet: ChartSheet) -> str:
    if not sheet.comparison.runs:
        return f"No run is chosen. {PRINTED}"
    if sheet.split.by != "environment":
        return f"None of the chosen runs has a scored trial of a task with a {name_attribute(sheet.split.by)}."
    return "None of the chosen runs has a scored trial in a suite with environments."


CHART = Chart(
    key="environments",
    title="Environments and conditions",
    question="Which tasks does each condition solve?",
    draw=draw,
    after="SkillEvolBench, figure 6; SkillLearnBench, Tables 8 and 9",
    options={BY: PLACES},
    repeats="Every metric at once; the bars have the chosen one with its intervals.",
)
