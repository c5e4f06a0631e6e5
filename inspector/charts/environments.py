"""Success by environment and condition, one heatmap per metric: where does a condition work?

Source: SkillEvolBench, figure 6: every cell is averaged over runs, the panels share their scale.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchapp.inference.shares import percent_text
from benchapp.metrics.metric import Metric
from benchapp.metrics.rates import Rate
from benchapp.models import Run
from inspector.charts.drawing import Chart, Column, Drawing, Row, Table
from inspector.charts.panels import Cell, Heat, Scale, heatmaps, left_out, lines, plain
from inspector.charts.places import Place, environments_of
from inspector.charts.sheet import Sheet

TABLE = (
    Column("metric", "metric"),
    Column("condition", "condition"),
    Column("environment", "environment"),
    Column("value", "mean over runs", "%"),
    Column("lowest", "lowest run", "%"),
    Column("highest", "highest run", "%"),
    Column("runs", "runs"),
    Column("models", "agent models"),
    Column("passed", "passed, all runs"),
    Column("scored", "scored"),
    Column("planned", "planned"),
)
PRINTED = (
    "The paper's figure is not published as numbers. Its text prints, for its ten models, a gap between the easiest and the "
    "hardest environment of 67.3 points for LSR and 42.1 points for ESR."
)


@dataclass(frozen=True, slots=True)
class Average:
    """One metric of one condition in one environment: counts and mean per run that has a trial there."""

    runs: tuple[Run, ...]
    rates: tuple[Rate, ...]
    means: tuple[float | None, ...]

    @property
    def values(self) -> list[float]:
        """In percent."""
        return [100 * mean for mean in self.means if mean is not None]

    @property
    def total(self) -> Rate:
        return sum(self.rates, Rate())

    @property
    def models(self) -> int:
        return len({run.agent_model for run in self.runs})


Averages = Mapping[tuple[str, str, int], Average]  # metric key, condition, environment


def draw(sheet: Sheet) -> Drawing:
    metrics = [metric for metric in sheet.metrics if metric.is_share]
    averages = _averages(sheet, metrics)
    places = environments_of(environment for _, _, environment in averages)
    table = Table(TABLE, tuple(_rows(sheet, metrics, averages, places)))
    if not any(average.values for average in averages.values()):
        return Drawing(None, table, absent=_absent(sheet))
    conditions = list(dict.fromkeys(condition for _, condition, _ in averages))
    heats = [Heat(metric.key, dict(_cells(sheet, metric, averages, places))) for metric in metrics]
    heats = [heat for heat in heats if any(cell.value is not None for cell in heat.cells.values())]
    columns = [place.label for place in places.values()]
    figure = heatmaps(
        heats, conditions, columns, Scale(0, 100, diverging=False, unit="%"), across=3 if len(columns) < 8 else 2
    )
    return Drawing(figure, table, (*_notes(sheet, metrics, averages, places), *left_out(len(heats), "fewer metrics")))


def _averages(sheet: Sheet, metrics: Sequence[Metric]) -> dict[tuple[str, str, int], Average]:
    found: dict[tuple[str, str, int], list[tuple[Run, Rate, float | None]]] = {}
    for metric in metrics:
        for run in sheet.comparison.runs:
            for environment, rate, mean in metric.parts(sheet.comparison.outcomes[run.pk], "environment"):
                found.setdefault((metric.key, run.condition, environment), []).append((run, rate, mean))
    return {key: Average(*(tuple(side) for side in zip(*pairs, strict=True))) for key, pairs in found.items()}


def _cells(
    sheet: Sheet, metric: Metric, averages: Averages, places: Mapping[int, Place]
) -> Iterator[tuple[tuple[str, str], Cell]]:
    for (key, condition, environment), average in averages.items():
        if key == metric.key:
            yield (condition, places[environment].label), _cell(sheet, metric, condition, places[environment], average)


def _cell(sheet: Sheet, metric: Metric, condition: str, place: Place, average: Average) -> Cell:
    total, url = average.total, _url(sheet, metric, condition, place)
    head = f"{plain(place.full)}<br><b>{plain(condition)}</b>, {plain(metric.key)}"
    if not average.values:
        return Cell(None, "", lines(head, f"none of {total.planned} {metric.counted} is scored"), url)
    value = fmean(average.values)
    counts = f"{total.passed}/{total.scored} {metric.counted}" + (
        f", {total.missing} not scored" if total.missing else ""
    )
    spread = f", {min(average.values):.1f} to {max(average.values):.1f} %" if len(average.values) > 1 else ""
    return Cell(
        value,
        percent_text(value / 100, 0),
        lines(head, f"{percent_text(value / 100, 1)} % ({counts})", f"{_runs(average)}{spread}"),
        url,
    )


def _runs(average: Average) -> str:
    runs, models = len(average.values), average.models
    return f"{runs} run{'s' * (runs != 1)} of {models} agent model{'s' * (models != 1)}"


def _url(sheet: Sheet, metric: Metric, condition: str, place: Place) -> str:
    return sheet.trials_url(metric=metric, condition=condition, environment=place.key)


def _rows(sheet: Sheet, metrics: Sequence[Metric], averages: Averages, places: Mapping[int, Place]) -> Iterator[Row]:
    by_key = {metric.key: metric for metric in metrics}
    for (key, condition, environment), average in averages.items():
        total, values, place = average.total, average.values, places[environment]
        numbers = (fmean(values), min(values), max(values)) if values else (None, None, None)
        yield Row(
            (
                key,
                condition,
                place.full,
                *numbers,
                len(values),
                average.models,
                total.passed,
                total.scored,
                total.planned,
            ),
            _url(sheet, by_key[key], condition, place),
        )


def _notes(sheet: Sheet, metrics: Sequence[Metric], averages: Averages, places: Mapping[int, Place]) -> tuple[str, ...]:
    """What is averaged, what the columns are called, and how far easy and hard lie apart."""
    columns = "; ".join(place.full for place in places.values() if place.key != place.name)
    apart = [text for metric in metrics if (text := _apart(metric, averages))]
    return (
        "Every cell is the mean over runs (agent models and replicates alike) of the share passed there; no test is made. "
        "Choose one agent model above to see it alone.",
        *([f"Columns: {columns}."] if columns else []),
        *(
            [f"From the easiest to the hardest environment, each averaged over conditions: {', '.join(apart)}."]
            if apart
            else []
        ),
        PRINTED,
    )


def _apart(metric: Metric, averages: Averages) -> str:
    """Range of the environments' means, in points; empty below two environments."""
    means: dict[int, list[float]] = {}
    for (key, _, environment), average in averages.items():
        if key == metric.key and average.values:
            means.setdefault(environment, []).append(fmean(average.values))
    overall = [fmean(values) for values in means.values()]
    return f"{metric.key} {max(overall) - min(overall):.1f} points" if len(overall) > 1 else ""


def _absent(sheet: Sheet) -> str:
    if not sheet.comparison.runs:
        return f"No run is chosen. {PRINTED}"
    return "None of the chosen runs has a scored trial in a suite with environments."


CHART = Chart(
    key="environments",
    title="Environments and conditions",
    question="Where does which condition work?",
    draw=draw,
    after="SkillEvolBench, figure 6",
)
