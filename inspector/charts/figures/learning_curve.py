"""What the library of each round does on the same tasks: one line per condition.

Source: SkillLearnBench, figure 4 (accuracy, coverage and alignment across learning rounds).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from django.urls import reverse
from plotly import graph_objects as go

from benchapp.models import Run
from benchapp.stats.benchmarks.judged_metrics import LEVELS
from benchapp.stats.benchmarks.skilllearnbench_metrics import ACCURACIES
from benchapp.stats.comparing.choices import NO_SKILL
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.shares import percent_text
from benchapp.stats.learning.learning_curves import (
    EpisodeRounds,
    RoundMean,
    find_measured,
    find_round_probes,
    follow_rounds,
    read_rounds,
)
from benchapp.stats.metrics.metric import TrialMetric
from inspector.charts.chart import Chart, ChartDrawing, ChartTable, TableColumn
from inspector.charts.contrast import Answer
from inspector.charts.drawing.lineup import LinePanel, crowd_notes, curves, split_panels
from inspector.charts.drawing.panels import lines, plain
from inspector.charts.drawing.quantities import plural, write_interval
from inspector.charts.drawing.traces import ChartPoint
from inspector.charts.lacking import lacks_libraries
from inspector.charts.sheet import ChartSheet

METRICS = (ACCURACIES[0], *(each for each in LEVELS if each.key in ("coverage", "alignment")))
AXES = {METRICS[0].key: "tasks passed, %"}
NOT_PUBLISHED = "SkillLearnBench's own figure is not published as numbers."
MEASURE = "Order it at Rounds, on the experiment’s page"
COLUMNS = (
    TableColumn("group", "group"),
    TableColumn("metric", "metric"),
    TableColumn("round", "rounds behind the library"),
    TableColumn("value", "value", "of 100"),
    TableColumn("low", "95 % from", "of 100", lambda row: row.around and row.around[0]),
    TableColumn("high", "to", "of 100", lambda row: row.around and row.around[1]),
    TableColumn("passed", "passed", "trials", lambda row: row.mean.passed),
    TableColumn("scored", "scored", "trials", lambda row: row.mean.scored),
    TableColumn("tasks", "tasks", read=lambda row: row.mean.tasks),
    TableColumn("replicates", "replicates", read=lambda row: len(row.mean.means)),
    TableColumn("episodes", "episodes", "all replicates", lambda row: row.mean.episodes or None),
    TableColumn(
        "ended", "learning ended before", "episodes", lambda row: row.mean.ended if row.mean.episodes else None
    ),
)


@dataclass(frozen=True, slots=True)
class CurveRow:
    """One point of a group's line. Shares of a hundred, like a judge's scores."""

    group: str
    metric: str
    mean: RoundMean
    scale: float
    url: str

    @property
    def round(self) -> int:
        return self.mean.number

    @property
    def value(self) -> float:
        return self.mean.value * self.scale

    @property
    def around(self) -> tuple[float, float] | None:
        ends = self.mean.around
        return (ends[0] * self.scale, ends[1] * self.scale) if ends else None

    @property
    def point(self) -> ChartPoint:
        where = f"after {plural(self.round, 'round')}" if self.round else "no skill"
        over = f"{plural(self.mean.tasks, 'task')}, {plural(self.mean.scored, 'trial')}"
        ended = (
            f"{self.mean.ended} of {self.mean.episodes} episodes had learned to their end" if self.mean.ended else ""
        )
        told = f"{self.metric} {percent_text(self.value / 100, 1)}{write_interval(self.around)}"
        hover = lines(plain(self.group), where, told, over, ended)
        return ChartPoint(self.round, self.value, hover, self.url, self.around)


Curves = Mapping[tuple[Group, str], Sequence[CurveRow]]  # by group and key of the metric


def draw(sheet: ChartSheet) -> ChartDrawing:
    rounds = _read(sheet)
    found: dict[tuple[Group, str], list[CurveRow]] = {}
    for group in sheet.groups:
        for metric in METRICS:
            if rows := _follow(sheet, group, metric, rounds):
                found[group, metric.key] = rows
    notes = _note_unmeasured(sheet, rounds)
    if not found:
        return ChartDrawing(
            None, ChartTable(COLUMNS), absent=f"{notes[0] if notes else lacks_rounds(sheet)} {NOT_PUBLISHED}"
        )
    panels = _list_panels(sheet, found)
    table = ChartTable.of(COLUMNS, (row for rows in found.values() for row in rows))
    judged = [sheet.comparison.judged_by] if any(key != METRICS[0].key for _, key in found) else []
    ends = [rows[-1] for rows in found.values()]
    answers = tuple(
        Answer(row.group, row.value, f"{percent_text(row.value / 100, 0)} of 100", row.metric) for row in ends
    )
    notes = [*_notes(found), *judged, *notes, *crowd_notes(panels)]
    return ChartDrawing(lambda: _figure(panels, found), table, tuple(notes), answers=answers)


def _read(sheet: ChartSheet) -> dict[int, tuple[EpisodeRounds, ...]]:
    comparison = sheet.comparison
    return read_rounds(comparison.runs, comparison.outcomes, comparison.judge, comparison.choices.as_of)


def _follow(
    sheet: ChartSheet, group: Group, metric: TrialMetric, rounds: Mapping[int, tuple[EpisodeRounds, ...]]
) -> list[CurveRow]:
    start = sheet.comparison.groups.baseline_of(group)
    bare = sheet.comparison.of_group(start) if start and start.condition == NO_SKILL and not start.is_unfinished else []
    steps = follow_rounds([rounds[run.pk] for run in group.runs], bare, metric)
    url = reverse("experiment-rounds", args=[group.first.experiment.public_id])
    scale = 100.0 if metric.is_share else 1.0
    return [CurveRow(group.label, metric.name, step, scale, url) for step in steps]


def _list_panels(sheet: ChartSheet, found: Curves) -> list[LinePanel[tuple[Group, str]]]:
    """A panel for each metric, and in it one for each agent model."""
    panels = []
    for metric in METRICS:
        drawn = [group for group in sheet.groups if (group, metric.key) in found]
        for facet in split_panels(drawn) if drawn else ():
            title = AXES.get(metric.key, f"{metric.name}, of 100") + (f", {facet.title}" if facet.title else "")
            panels.append(LinePanel(title, tuple((name, (group, metric.key)) for name, group in facet.lines)))
    return panels


def _figure(panels: Sequence[LinePanel[tuple[Group, str]]], found: Curves) -> go.Figure:
    figure = curves(panels, lambda line: [row.point for row in found[line]])
    last = max(row.round for rows in found.values() for row in rows)
    figure.update_xaxes(title={"text": "rounds of learning"}, range=[-0.3, last + 0.3], dtick=1 + last // 10)
    figure.update_yaxes(range=[-4, 104], tickvals=[0, 25, 50, 75, 100])
    return figure.update_layout(showlegend=True)


def _notes(found: Curves) -> Iterable[str]:
    yield (
        "Every point of a line is over the same tasks: the library of each round, frozen, on all tasks that the run deploys. The "
        "last round is the run’s own deployment, earlier ones are probes. An episode whose learning ended keeps its last library; a "
        "decision that changed nothing makes no round."
    )
    start = any(row.round == 0 for rows in found.values() for row in rows)
    zero = "Round 0 is no-skill on the same tasks. " if start else ""
    yield (
        f"{zero}Mean over a task’s trials, over the tasks of a family, over families, over replicates. Lines are 95 % intervals: over "
        "replicates where there are two or more, else of tasks passed over six families or more. With one learning run they "
        "cover tasks, not reruns."
    )
    yield NOT_PUBLISHED


def _note_unmeasured(sheet: ChartSheet, rounds: Mapping[int, tuple[EpisodeRounds, ...]]) -> list[str]:
    """Groups with a library that no finished trials were given frozen, and how many."""
    told = []
    for group in sheet.groups:
        episodes = [each for run in group.runs for each in rounds[run.pk]]
        missing = sum(len(each.unmeasured) for each in episodes)
        if missing:
            total = sum(len(set(each.libraries)) for each in episodes)
            told.append(f"{group.label}: {missing} of {plural(total, 'library', 'libraries')}")
    return [f"Not measured yet, so not drawn: {'; '.join(told)}. {MEASURE}."] if told else []


def lacks_rounds(sheet: ChartSheet) -> str:
    """Kept with the comparison until a probe is another: every page with charts asks, and few have rounds."""
    if lack := lacks_libraries(sheet):
        return lack
    probes = tuple((run.pk, run.revision, run.status) for run in list_probes(sheet))
    kept, key = sheet.comparison.drawn, (lacks_rounds.__name__, probes)
    if kept.get(key) is None:
        kept.put(key, _find_lack(sheet, is_probed=bool(probes)))
    return str(kept.get(key))


def _find_lack(sheet: ChartSheet, *, is_probed: bool) -> str:
    comparison, groups = sheet.comparison, [group.runs for group in sheet.groups]
    judge, as_of = comparison.judge, comparison.choices.as_of
    has_round, is_measured = find_measured(groups, comparison.outcomes, judge, as_of, is_probed=is_probed)
    if not has_round:
        return "Needs a run whose library went through a round."
    return "" if is_measured else f"Needs the library of each round measured. {MEASURE}."


def list_probes(sheet: ChartSheet) -> list[Run]:
    return [probe.run for probe in find_round_probes(sheet.comparison.runs, sheet.comparison.choices.as_of)]


CHART = Chart(
    key="curve",
    title="Learning curve",
    question="Does each round of learning make the library better?",
    draw=draw,
    lacks=lacks_rounds,
    after="SkillLearnBench, Figure 4",
    finding="{what} after the last round: {high} {most}; {low} {least}",
    rests_on=list_probes,
)
