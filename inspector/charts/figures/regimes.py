"""Skills written for one task against skills written for a whole corpus: one method and author in both settings.

Source: SkillGenBench, figure 4 (pass@3 of two backbones in both settings).
"""

from __future__ import annotations

from collections.abc import Sequence

from plotly import graph_objects as go

from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.difference import Difference
from benchapp.stats.inference.shares import half_up
from benchapp.stats.metrics.amounts import render_signed
from benchapp.stats.metrics.comparability import SETTINGS
from benchapp.stats.metrics.metric import TrialMetric
from inspector.charts.chart import Answer, Chart, ChartDrawing, ChartTable, TableColumn, interval_columns
from inspector.charts.drawing.bars import MAX_BARS, note_crowd
from inspector.charts.drawing.palette import of_group
from inspector.charts.drawing.panels import lines, plain
from inspector.charts.drawing.quantities import difference_unit, scale_value, unit_of
from inspector.charts.drawing.traces import ChartPoint, draw_two_ends
from inspector.charts.sheet import ChartSheet, lacks_settings
from runner.base.text import plural

NAMES = tuple(SETTINGS.values())


class SettingPair:
    """One method by one author for one agent, task-conditioned first.
    Values as shown, over the tasks scored in both settings."""

    def __init__(self, metric: TrialMetric, group: Group, difference: Difference, urls: tuple[str, str]) -> None:
        self.metric, self.group, self.difference, self.urls, self.url = metric, group, difference, urls, urls[0]
        self.label = " · ".join(filter(None, (group.condition, group.first.author)))  # nobody may have written
        self.values = scale_value(metric, difference.own), scale_value(metric, difference.other)
        self.delta, found = scale_value(metric, difference.delta), difference.interval
        self.around = (scale_value(metric, found.low), scale_value(metric, found.high)) if found else None

    def point(self, side: int, place: int) -> ChartPoint:
        apart = f"task-conditioned minus task-agnostic: {render_signed(self.delta)} {difference_unit(self.metric)}"
        if ends := self.around:
            apart += f", 95 % {render_signed(ends[0])} to {render_signed(ends[1])}"
        value = self.values[side]
        hover = lines(
            f"<b>{plain(self.label)}</b>",
            f"{NAMES[side]}: {half_up(value, 1)} {unit_of(self.metric.unit)}, {plural(self.difference.tasks, 'task')}",
            apart,
        )
        return ChartPoint(value, place, hover, self.urls[side])


def list_pairs(sheet: ChartSheet, metric: TrialMetric) -> list[SettingPair]:
    """What was run in both settings for the same tasks; where one of them has several groups, none is chosen."""
    members: dict[tuple[object, ...], dict[str, list[Group]]] = {}
    for group in sheet.groups:
        setting, experiment = group.first.setup.get("protocol"), group.first.experiment
        if setting in SETTINGS:
            by = group.condition, group.agent_model, group.author_model, group.author_agent, group.harness
            place = *by, experiment.suite_id
            members.setdefault(place, {}).setdefault(str(setting), []).append(group)
    pairs = []
    for found in members.values():
        sides = [found.get(setting, []) for setting in SETTINGS]
        if all(len(side) == 1 for side in sides):
            own, other = (side[0] for side in sides)
            difference = sheet.comparison.between(own, other, metric)
            if difference is not None:
                urls = sheet.trials_url(own, metric=metric), sheet.trials_url(other, metric=metric)
                pairs.append(SettingPair(metric, own, difference, urls))
    return pairs


def draw(sheet: ChartSheet) -> ChartDrawing:
    pairs = list_pairs(sheet, sheet.metric) if sheet.metric else []
    table = ChartTable.of(_name_columns(sheet.metric), pairs)
    if not pairs:
        absent = f"No method of these runs was tried on the same tasks in both settings. {NOT_PUBLISHED}"
        return ChartDrawing(None, table, absent=absent)
    answers = tuple(
        Answer(NAMES[side], pair.values[side], f"{half_up(pair.values[side], 1)}", pair.label)
        for pair in pairs
        for side in (0, 1)
    )
    notes = (*NOTES, *note_crowd(len(pairs), "pairs"))
    return ChartDrawing(lambda: _figure(pairs[:MAX_BARS]), table, notes, answers=answers)


def _name_columns(metric: TrialMetric | None) -> tuple[TableColumn, ...]:
    unit, apart = (unit_of(metric.unit), difference_unit(metric)) if metric else ("", "")
    return (
        TableColumn("condition", "condition", read=lambda row: row.group.condition),
        TableColumn("author", "author", read=lambda row: row.group.first.author),
        TableColumn("model", "agent model", read=lambda row: row.group.agent_model),
        TableColumn("harness", "harness", read=lambda row: row.group.harness),
        TableColumn("conditioned", NAMES[0], unit, lambda row: row.values[0]),
        TableColumn("agnostic", NAMES[1], unit, lambda row: row.values[1]),
        TableColumn("difference", "difference", apart, lambda row: row.delta),
        *interval_columns(apart),
        TableColumn("p", "p", read=lambda row: row.difference.test.p if row.difference.test else None),
        TableColumn("tasks", "tasks scored in both", read=lambda row: row.difference.tasks),
    )


def _figure(pairs: Sequence[SettingPair]) -> go.Figure:
    sides = [[pair.point(side, place) for place, pair in enumerate(pairs)] for side in (0, 1)]
    rows = [(pair.label, of_group(pair.group.condition)) for pair in pairs]
    figure = draw_two_ends(rows, sides, NAMES, lambda value: f"{half_up(value, 1)}")
    metric = pairs[0].metric
    bounds = {"range": [-5, 105]} if metric.is_share else {"rangemode": "tozero"}
    figure.update_xaxes(title={"text": f"{metric.key}, {unit_of(metric.unit)}"}, **bounds)
    return figure


NOT_PUBLISHED = "SkillGenBench's figure 4 is not published as numbers."
NOTES = (
    "Over the tasks scored in both settings. Task-conditioned: skills are written with the task in sight; "
    "task-agnostic: for a whole corpus, before any task is seen. The same method, author, agent and harness in both. "
    "Each difference has an interval of its own.",
    "No skill is the same in both settings: how far its two runs differ shows what a rerun does.",
    NOT_PUBLISHED,
)
CHART = Chart(
    key="settings",
    title="Skills for a task and for a corpus",
    question="Does it help to see the task before writing?",
    draw=draw,
    lacks=lacks_settings,
    after="SkillGenBench, figure 4",
    finding="{what}: {most} {high}; {least} {low}",
    uses_metric=True,
)
