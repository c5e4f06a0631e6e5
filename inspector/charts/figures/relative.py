"""Skill conditions against raw-trajectory: did distilling experience into skills keep what the traces held?

Source: SkillEvolBench, figure 4: a heatmap per model, percentage points, blank where there is nothing to compare.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchapp.papers.published_rows import PrintedNumber
from benchapp.stats.comparing.groups import Group
from benchapp.stats.metrics.amounts import render_signed
from benchapp.stats.metrics.metric import TrialMetric
from inspector.charts.chart import Chart, ChartDrawing, ChartTable, TableColumn
from inspector.charts.contrast import Answer
from inspector.charts.drawing.arms import ModelPanel, arms_of
from inspector.charts.drawing.gain import Gain, GainSide, gain_of, pair_groups, scale_value, write_difference
from inspector.charts.drawing.panels import (
    MAX_PANELS,
    Heat,
    HeatCell,
    Heats,
    Scale,
    lines,
    note_left_out,
    plain,
)
from inspector.charts.lacking import RAW, lacks_raw_traces
from inspector.charts.sheet import ChartSheet

NO_SKILLS = frozenset({"no-skill", RAW, "unknown"})
PAPER = "skillevolbench"
NOT_PUBLISHED = (
    f"The paper's figure is not published as numbers: no table has a row for {RAW}. Its text prints averages over ten models "
    "for RSR, ESR, ARSR and CompSR; laid over, they are compared with the averages of its tables."
)
PUBLISHED = ("LSR", "RSR", "ESR", "CSSR", "ARSR", "CompSR")

COLUMNS = (
    TableColumn("panel", "model"),
    TableColumn("source", "source"),
    TableColumn("condition", "condition", read=lambda row: row.row),
    TableColumn("metric", "metric", read=lambda row: row.column),
    TableColumn("difference", "difference to raw-trajectory", "pp", lambda row: row.cell.value),
    TableColumn("value", "condition", "%", lambda row: row.own[0]),
    TableColumn("passed", "passed", read=lambda row: row.own[1]),
    TableColumn("of", "of", read=lambda row: row.own[2]),
    TableColumn("raw_value", "raw-trajectory", "%", lambda row: row.raw[0]),
    TableColumn("raw_passed", "raw passed", read=lambda row: row.raw[1]),
    TableColumn("raw_of", "raw of", read=lambda row: row.raw[2]),
    TableColumn("tasks", "tasks compared"),
    TableColumn("note", "note"),
)
Numbers = tuple[float | None, float | None, int | None]  # value, passed, of
UNKNOWN: Numbers = (None, None, None)


@dataclass(frozen=True, slots=True)
class RelativeCell:
    """One cell with its row of the table: a condition and raw-trajectory in one metric. `note`: why there is no difference."""

    panel: str
    source: str
    row: str
    column: str
    cell: HeatCell
    own: Numbers = UNKNOWN
    raw: Numbers = UNKNOWN
    tasks: int | None = None
    note: str = ""

    @property
    def url(self) -> str:
        return self.cell.url


def draw(sheet: ChartSheet) -> ChartDrawing:
    metrics = [metric for metric in sheet.metrics if metric.is_share]
    arms = arms_of(sheet.groups)
    with_raw = arms_of([group for arm in arms if arm.find(RAW) for group in arm.groups])
    places = [place for arm in with_raw for place in _own(sheet, arm, metrics)]
    published = list(_list_published_cells([row for row in sheet.published if row.paper == PAPER]))
    printed = _drop_repeats(place.panel for place in published)
    places += published
    table = ChartTable.of(COLUMNS, places)
    if not any(place.cell.value is not None for place in places):
        return ChartDrawing(None, table, absent=_absent(arms, with_raw))
    titles = _drop_repeats(place.panel for place in places)
    kept = [*titles[: -len(printed)][: MAX_PANELS - 1], *printed] if printed else titles[:MAX_PANELS]
    heats = [Heat(title, {(p.row, p.column): p.cell for p in places if p.panel == title}) for title in kept]
    rows = _drop_repeats(place.row for place in places)
    columns = _drop_repeats(place.column for place in places if place.cell.value is not None)
    bare = [name for name in _drop_repeats(place.column for place in places) if name not in columns]
    scale = Scale.around_zero((place.cell.value for place in places), "points")
    picture = Heats(heats, rows, columns, scale)
    left = note_left_out(len(titles), "an agent model")
    left += (f"Not drawn, because there is nothing to compare: {', '.join(bare)}.",) if bare else ()
    answers = tuple(
        Answer(
            place.row,
            place.cell.value,
            place.cell.text,
            f"{place.column}, {place.panel}" if len(with_raw) > 1 else place.column,
        )
        for place in places
        if place.cell.value is not None and place not in published
    )
    notes = (*_notes(len(arms) - len(with_raw), bool(with_raw)), *left)
    return ChartDrawing(picture, table, notes, answers=answers)


def _own(sheet: ChartSheet, arm: ModelPanel, metrics: Sequence[TrialMetric]) -> Iterator[RelativeCell]:
    raw = arm.find(RAW)
    if raw is None:
        return
    for group, name in zip(arm.groups, arm.rows, strict=True):
        if group.condition in NO_SKILLS:
            continue
        for metric in metrics:
            gain, why = _compare_groups(sheet, group, raw, metric)
            url = sheet.trials_url(group, metric=metric)
            head = f"{plain(arm.title)}<br><b>{plain(name)}</b> against {RAW}, {metric.key}"
            if gain is None:
                cell = HeatCell(hover=lines(head, plain(why)), url=url)
                yield RelativeCell(arm.title, "own runs", name, metric.key, cell, note=why)
                continue
            own, other = _numbers(metric, gain.own), _numbers(metric, gain.other)
            cell = _cell(head, metric, gain, url)
            yield RelativeCell(arm.title, "own runs", name, metric.key, cell, own, other, gain.tasks)


def _numbers(metric: TrialMetric, side: GainSide) -> Numbers:
    return scale_value(metric, side.value), round(side.total, 10), side.of


def _compare_groups(sheet: ChartSheet, group: Group, raw: Group, metric: TrialMetric) -> tuple[Gain | None, str]:
    """The difference, or why there is none."""
    for side in (group, raw):
        if not sheet.comparison.cell(side, metric).rate.scored:
            return None, f"{side.condition} has no scored trial for {metric.key}"
    paired = pair_groups(sheet.comparison, group, raw, metric)
    return (gain_of(paired), "") if paired else (None, "no task was scored on both sides")


def _cell(head: str, metric: TrialMetric, gain: Gain, url: str) -> HeatCell:
    counts = f"{gain.own.write(metric)} against {gain.other.write(metric)} on the same {gain.tasks} tasks"
    runs = f"replicates: {gain.replicates[0]} against {gain.replicates[1]}" if max(gain.replicates) > 1 else ""
    text = write_difference(metric, gain.delta)
    return HeatCell(scale_value(metric, gain.delta), text, lines(head, f"{text} points", counts, runs), url)


def _list_published_cells(rows: Sequence[PrintedNumber]) -> Iterator[RelativeCell]:
    """One panel: the paper prints raw-trajectory's averages over its ten models in the text, and no row of it for any model.

    Against them stand the averages of what its tables print for the skill conditions, where all ten are printed.
    """
    raw = {row.metric: row for row in rows if row.condition == RAW and not row.group and row.table == "Text"}
    tables: dict[tuple[str, str], dict[tuple[str, str], PrintedNumber]] = {}
    for row in rows:  # a condition printed in two tables counts once
        if row.condition not in NO_SKILLS and not row.group and row.table.startswith("Table"):
            tables.setdefault((row.condition, row.metric), {}).setdefault((row.harness, row.model), row)
    models = max((len(of_models) for of_models in tables.values()), default=0)
    for (condition, metric), of_models in tables.items():
        if metric in PUBLISHED:
            yield _build_printed_cell(condition, metric, list(of_models.values()), models, raw.get(metric))


def _build_printed_cell(
    condition: str, metric: str, rows: Sequence[PrintedNumber], models: int, raw: PrintedNumber | None
) -> RelativeCell:
    panel = f"average of {models} models · published"
    source = f"SkillEvolBench, {rows[0].table} and section 5.5"
    head = f"{plain(panel)}<br><b>{plain(condition)}</b> against {RAW}, {metric}"
    values = [row.value for row in rows if row.value is not None]
    base = raw.value if raw else None
    whole = len(values) == models
    average = round(fmean(values), 10) if whole else None
    sides: tuple[Numbers, Numbers] = (average, None, None), (base, None, None)
    if average is None or base is None:
        why = f"{RAW} is not printed" if base is None else f"printed for {len(values)} of {models} models"
        return RelativeCell(panel, source, condition, metric, HeatCell(hover=lines(head, why)), *sides, note=why)
    difference = round(average - base, 10)
    text = render_signed(difference)
    counts = f"{average:.2f} % (average of the printed values) against {base:g} % (printed)"
    cell = HeatCell(difference, text, lines(head, f"{text} points", counts, plain(source)))
    return RelativeCell(panel, source, condition, metric, cell, *sides)


def _drop_repeats(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _notes(without_raw: int, own: bool) -> tuple[str, ...]:
    left = f"{without_raw} of the models chosen have no {RAW} run and no panel." if without_raw else ""
    mine = (
        f"Own runs: tasks scored on both sides, means over all replicates, replay against the replay of {RAW}."
        if own
        else ""
    )
    blank = f"Always compared with {RAW}. Blank: nothing to compare; point at it for the reason. No test."
    return tuple(filter(None, (blank, mine, NOT_PUBLISHED, left)))


def _absent(arms: Sequence[ModelPanel], with_raw: Sequence[ModelPanel]) -> str:
    if with_raw:
        return f"No skill condition shares a scored task with {RAW} here."
    if arms:
        return f"Choose a run of the condition {RAW}: this chart compares the others with it. {NOT_PUBLISHED}"
    return f"Choose runs, or lay published numbers over. {NOT_PUBLISHED}"


CHART = Chart(
    key="relative",
    title="Skills against raw traces",
    question="Do skills beat showing raw traces?",
    draw=draw,
    lacks=lacks_raw_traces,
    after="SkillEvolBench, figure 4",
    published=(PAPER,),
    finding="{what}: {high} {most} points to raw traces; {low} {least}",
)
