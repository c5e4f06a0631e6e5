"""Success by round of learning: what the library of each round does on the same tasks, and what trials that are still
learning do.

Source: SkillLearnBench, figure 4 (accuracy, coverage and alignment across learning rounds). In the second chart who
learned enough makes no further rounds, so later rounds have the episodes that are left; the first measures every
round on the same tasks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from django.urls import reverse
from plotly import graph_objects as go

from benchapp.models import Run
from benchapp.stats.comparing.choices import NO_SKILL
from benchapp.stats.comparing.condition_names import say_label
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.interval import Ints
from benchapp.stats.inference.shares import Rate, percent_text, pooled_interval
from benchapp.stats.learning.learning_curves import (
    EpisodeRounds,
    RoundMean,
    find_measured,
    find_round_probes,
    follow_rounds,
    read_rounds,
)
from benchapp.stats.learning.libraries import read_rounds_given
from benchapp.stats.metrics.catalogue import ACCURACIES, JUDGED_LEVELS
from benchapp.stats.metrics.metric import TrialMetric
from benchapp.stats.metrics.outcomes import LEARNING, Outcomes
from inspector.charts.chart import Answer, Chart, ChartDrawing, ChartTable, TableColumn, interval_columns, name_columns
from inspector.charts.drawing.lineup import LinePanel, crowd_notes, curves, split_panels
from inspector.charts.drawing.palette import MUTED, of_label, series, veil
from inspector.charts.drawing.panels import MAX_PANELS, lines, note_left_out, panels, plain
from inspector.charts.drawing.quantities import Ends, in_percent, write_interval
from inspector.charts.drawing.traces import ChartPoint, line_mode, plain_scatter, scatter, spread_bars
from inspector.charts.sheet import ChartSheet, lacks_libraries
from runner.base.text import plural
from runner.base.types import Phase

METRICS = (ACCURACIES[0], *(each for each in JUDGED_LEVELS if each.key in ("coverage", "alignment")))
AXES = {METRICS[0].key: "tasks passed, %"}
NOT_PUBLISHED = "SkillLearnBench's own figure is not published as numbers."
MEASURE = "Order it at Rounds, on the experiment’s page"
CURVE_COLUMNS = (
    *name_columns("group", "metric"),
    TableColumn("round", "rounds behind the library"),
    TableColumn("value", "value", "of 100"),
    *interval_columns("of 100"),
    TableColumn("passed", "passed", "trials", lambda row: row.mean.passed),
    TableColumn("scored", "scored", "trials", lambda row: row.mean.scored),
    TableColumn("tasks", "tasks", read=lambda row: row.mean.tasks),
    TableColumn("replicates", "replicates", read=lambda row: len(row.mean.means)),
    TableColumn("episodes", "episodes", "all replicates", lambda row: row.mean.episodes or None),
    TableColumn(
        "ended", "learning ended before", "episodes", lambda row: row.mean.ended if row.mean.episodes else None
    ),
)


class CurveRow:
    """One point of a group's line. Shares of a hundred, like a judge's scores."""

    def __init__(self, group: str, metric: TrialMetric, mean: RoundMean, url: str) -> None:
        scale = 100.0 if metric.is_share else 1.0
        self.group, self.metric, self.mean, self.round, self.url = group, metric.name, mean, mean.number, url
        self.value = mean.value * scale
        self.around = (mean.around[0] * scale, mean.around[1] * scale) if mean.around else None

    @property
    def point(self) -> ChartPoint:
        where = f"after {plural(self.round, 'round')}" if self.round else "no skill"
        over = f"{plural(self.mean.tasks, 'task')}, {plural(self.mean.scored, 'trial')}"
        ended = f"{self.mean.ended} of {self.mean.episodes} episodes had learned to their end"
        text = f"{self.metric} {percent_text(self.value / 100, 1)}{write_interval(self.around)}"
        hover = lines(plain(self.group), where, text, over, ended if self.mean.ended else "")
        return ChartPoint(self.round, self.value, hover, self.url, self.around)


Curves = Mapping[tuple[Group, str], Sequence[CurveRow]]  # by group and key of the metric


def draw_curve(sheet: ChartSheet) -> ChartDrawing:
    comparison = sheet.comparison
    rounds = read_rounds(comparison.runs, comparison.outcomes, comparison.judge, comparison.choices.as_of)
    of_all = {
        (group, metric.key): _follow(sheet, group, metric, rounds) for group in sheet.groups for metric in METRICS
    }
    found = {line: rows for line, rows in of_all.items() if rows}
    unmeasured = _note_unmeasured(sheet, rounds)
    if not found:
        absent = f"{unmeasured or lacks_rounds(sheet)} {NOT_PUBLISHED}"
        return ChartDrawing(None, ChartTable(CURVE_COLUMNS), absent=absent)
    panels = _list_panels(sheet, found)
    table = ChartTable.of(CURVE_COLUMNS, chain(*found.values()))
    judged = [comparison.judged_by] if any(key != METRICS[0].key for _, key in found) else []
    answers = tuple(
        Answer(row.group, row.value, f"{percent_text(row.value / 100, 0)} of 100", row.metric)
        for *_, row in found.values()
    )
    notes = (*_note_curve(found), *judged, *filter(None, [unmeasured]), *crowd_notes(panels))
    return ChartDrawing(lambda: _draw_lines(panels, found), table, notes, answers=answers)


def _follow(
    sheet: ChartSheet, group: Group, metric: TrialMetric, rounds: Mapping[int, tuple[EpisodeRounds, ...]]
) -> list[CurveRow]:
    start = sheet.comparison.groups.baseline_of(group)
    bare = sheet.comparison.of_group(start) if start and start.condition == NO_SKILL and not start.is_unfinished else []
    steps = follow_rounds([rounds[run.pk] for run in group.runs], bare, metric)
    url = reverse("experiment-rounds", args=[group.first.experiment.public_id])
    return [CurveRow(group.label, metric, step, url) for step in steps]


def _list_panels(sheet: ChartSheet, curves: Curves) -> list[LinePanel[tuple[Group, str]]]:
    """A panel for each metric, and in it one for each agent model."""
    panels = []
    for metric in METRICS:
        drawn = [group for group in sheet.groups if (group, metric.key) in curves]
        for facet in split_panels(drawn) if drawn else ():
            title = AXES.get(metric.key, f"{metric.name}, of 100") + (f", {facet.title}" if facet.title else "")
            panels.append(LinePanel(title, tuple((name, (group, metric.key)) for name, group in facet.lines)))
    return panels


def _draw_lines(panels: Sequence[LinePanel[tuple[Group, str]]], found: Curves) -> go.Figure:
    figure = curves(panels, lambda line: [row.point for row in found[line]])
    last = max(row.round for rows in found.values() for row in rows)
    figure.update_xaxes(title={"text": "rounds of learning"}, range=[-0.3, last + 0.3], dtick=1 + last // 10)
    figure.update_yaxes(range=[-4, 104], tickvals=[0, 25, 50, 75, 100])
    return figure.update_layout(showlegend=True)


def _note_curve(curves: Curves) -> Iterable[str]:
    yield (
        "Every point of a line is over the same tasks: the library of each round, frozen, on all tasks that the run "
        "deploys. The last round is the run’s own deployment, earlier ones are probes. An episode whose learning "
        "ended keeps its last library; a decision that changed nothing makes no round."
    )
    start = any(row.round == 0 for rows in curves.values() for row in rows)
    zero = "Round 0 is no-skill on the same tasks. " if start else ""
    yield (
        f"{zero}Mean over a task’s trials, over the tasks of a family, over families, over replicates. Lines are 95 % "
        "intervals: over replicates where there are two or more, else of tasks passed over six families or more. With "
        "one learning run they cover tasks, not reruns."
    )
    yield NOT_PUBLISHED


def _note_unmeasured(sheet: ChartSheet, rounds: Mapping[int, tuple[EpisodeRounds, ...]]) -> str:
    """Groups with a library that no finished trials were given frozen, and how many."""
    notes = []
    for group in sheet.groups:
        episodes = [each for run in group.runs for each in rounds[run.pk]]
        missing = sum(len(each.unmeasured) for each in episodes)
        if missing:
            total = sum(len(set(each.libraries)) for each in episodes)
            notes.append(f"{group.label}: {missing} of {plural(total, 'library', 'libraries')}")
    return f"Not measured yet, so not drawn: {'; '.join(notes)}. {MEASURE}." if notes else ""


def lacks_rounds(sheet: ChartSheet) -> str:
    """Kept with the comparison until a probe is another: every page with charts asks, and few have rounds."""
    if lack := lacks_libraries(sheet):
        return lack
    probes = tuple((run.pk, run.revision, run.status) for run in list_probes(sheet))
    comparison, groups = sheet.comparison, [group.runs for group in sheet.groups]

    def find() -> str:
        judge, as_of, is_probed = comparison.judge, comparison.choices.as_of, bool(probes)
        has_round, is_measured = find_measured(groups, comparison.outcomes, judge, as_of, is_probed=is_probed)
        if not has_round:
            return "Needs a run whose library went through a round."
        return "" if is_measured else f"Needs the library of each round measured. {MEASURE}."

    return comparison.draw((lacks_rounds.__name__, probes), find)


def list_probes(sheet: ChartSheet) -> list[Run]:
    return [probe.run for probe in find_round_probes(sheet.comparison.runs, sheet.comparison.choices.as_of)]


CURVE_CHART = Chart(
    key="curve",
    title="Learning curve",
    question="Does each round of learning make the library better?",
    draw=draw_curve,
    lacks=lacks_rounds,
    after="SkillLearnBench, Figure 4",
    finding="{what} after the last round: {high} {most}; {low} {least}",
    rests_on=list_probes,
)


# --- while learning ---


HEIGHT = 190  # px of a panel's inside
MAX_NUMBERS = 8  # of a line; more would cover one another and are left to the hover text and the table
ROUND_COLUMNS = (
    TableColumn("group", "group"),
    TableColumn("round", "round of the library given"),
    TableColumn("share", "tasks passed", "%", lambda row: row.rate.percent),
    *interval_columns("%"),
    TableColumn("passed", "passed", "trials", lambda row: row.rate.passed),
    TableColumn("scored", "scored", "trials", lambda row: row.rate.scored),
    TableColumn("planned", "planned", "trials", lambda row: row.rate.planned),
    TableColumn("baseline_share", "same tasks, baseline", "%", lambda row: row.baseline and row.baseline.percent),
    TableColumn("baseline_passed", "passed, baseline", "trials", lambda row: row.baseline and row.baseline.passed),
    TableColumn("baseline_scored", "scored, baseline", "trials", lambda row: row.baseline and row.baseline.scored),
)


@dataclass(frozen=True, slots=True)
class AtRound:
    """Trials of a group, of acquisition or evaluation, that were given the library of one round;
    the baseline on the same tasks."""

    group: str
    url: str
    round: int
    rate: Rate
    baseline: Rate | None
    around: Ends | None = None  # the interval of the share, in percent


class Acquired:
    """Trials of acquisition and evaluation of all replicates of a group as columns, [n] each, tainted episodes left
    out: `run`, the place of the replicate; `task`; `success`, NaN: not scored; `given`, the round of its library, -1
    where none is known. `rounds`: those that some trial was given."""

    def __init__(self, runs: Sequence[Outcomes], given: Sequence[Ints]) -> None:
        masks = [each.covering(LEARNING) & ~each.tainted for each in runs]
        self.run = np.repeat(np.arange(len(runs)), [int(mask.sum()) for mask in masks])
        self.task, self.success, self.given = (
            np.concatenate([column[mask] for column, mask in zip(each, masks, strict=True)])
            for each in ([each.task for each in runs], [each.success for each in runs], given)
        )
        self.rounds = [number for number in np.unique(self.given).tolist() if number >= 0]

    def count(self, keys: Ints, places: int) -> Ints:
        """Passed, scored and planned trials of each of the keys 0..
        below `places`, [3, places]; keys are [n], -1: not counted."""
        kept = keys >= 0
        known = kept & ~np.isnan(self.success)
        passed = np.bincount(keys[known], weights=self.success[known], minlength=places)
        counted = (np.bincount(keys[mask], minlength=places) for mask in (known, kept))
        return np.array([passed, *counted], dtype=np.int64)

    def count_beside(self, other: Acquired) -> Ints:
        """Of the other's trials the same counts, of the very tasks met in each round: [3, rounds up to the last]."""
        met = self.given >= 0
        tasks, place = np.unique(self.task[met], return_inverse=True)
        is_met = np.zeros((int(self.given.max()) + 1, len(tasks)), dtype=np.int64)
        is_met[self.given[met], place] = 1
        found = np.minimum(np.searchsorted(tasks, other.task), len(tasks) - 1)
        of_task = other.count(np.where(tasks[found] == other.task, found, -1), len(tasks))
        return np.asarray(of_task @ is_met.T)

    def intervals(self) -> dict[int, Ends | None]:
        """Round -> the interval of its share, in percent; none where one run tried a task several times:
        such draws depend on each other."""
        last, runs = int(self.given.max(initial=-1)), int(self.run.max(initial=-1)) + 1
        counts = self.count(np.where(self.given >= 0, self.given * runs + self.run, -1), (last + 1) * runs)
        by_run = counts.reshape(3, last + 1, runs)
        return {number: self._interval(number, by_run[:, number]) for number in self.rounds}

    def _interval(self, number: int, by_run: Ints) -> Ends | None:
        """`by_run`: the counts of the round, [3, runs]."""
        rates = [Rate(passed, scored, scored) for passed, scored, _ in by_run.T.tolist() if scored]
        if len(rates) == 1:
            tasks = self.task[(self.given == number) & ~np.isnan(self.success)]
            if len(np.unique(tasks)) < len(tasks):
                return None
        return in_percent(pooled_interval(rates)) if rates else None


def at_rounds(sheet: ChartSheet, group: Group, own: Acquired, baseline: Acquired | None) -> list[AtRound]:
    """One per round that some trial was given; replicates' counts are added up."""
    if not own.rounds:
        return []
    # Where libraries are written: one protocol has acquisition for it, another evaluates as it goes.
    acquires = any(each.covering((Phase.ACQUISITION,)).any() for each in sheet.comparison.of_group(group))
    url = sheet.trials_url(group, phase=(Phase.ACQUISITION if acquires else Phase.EVALUATION).value)
    counts, around = own.count(own.given, int(own.given.max()) + 1), own.intervals()
    theirs = own.count_beside(baseline) if baseline else None
    found = []
    for number in own.rounds:
        other = Rate(*theirs[:, number].tolist()) if theirs is not None else None
        found.append(AtRound(group.label, url, number, Rate(*counts[:, number].tolist()), other, around[number]))
    return found


def draw_rounds(sheet: ChartSheet) -> ChartDrawing:
    comparison = sheet.comparison
    given = read_rounds_given(comparison.runs, comparison.outcomes, comparison.choices.as_of)
    acquired = {}
    for group in sheet.groups:
        runs = [run.pk for run in group.runs]
        acquired[group.identity] = Acquired([comparison.outcomes[pk] for pk in runs], [given[pk] for pk in runs])
    steps = {}
    for group in sheet.groups:
        other = comparison.groups.baseline_of(group)
        steps[group] = at_rounds(sheet, group, acquired[group.identity], acquired[other.identity] if other else None)
    found = {group: of_group for group, of_group in steps.items() if any(step.round for step in of_group)}
    if not found:
        absent = (
            "No trial of acquisition or evaluation of these runs was given a library that had been through a round."
        )
        return ChartDrawing(None, ChartTable(ROUND_COLUMNS), absent=f"{absent} {NOT_PUBLISHED}")
    table = ChartTable.of(ROUND_COLUMNS, chain(*found.values()))
    notes = (*ROUND_NOTES, *note_left_out(len(found), "conditions or models"))
    return ChartDrawing(lambda: _draw_rounds(sheet, found), table, notes)


def _draw_rounds(sheet: ChartSheet, found: Mapping[Group, Sequence[AtRound]]) -> go.Figure:
    shown = list(found)[:MAX_PANELS]
    legend = ("the same tasks", "tasks met in that round")
    figure, place_of = panels([group.label for group in shown], across=2, height=HEIGHT, legend=legend)
    for place, group in enumerate(shown):
        theirs = [step for step in found[group] if step.baseline and step.baseline.scored]
        if theirs:
            figure.add_trace(_baseline_trace(sheet, theirs, named=place > 0), **place_of(place))
        own = [step for step in found[group] if step.rate.scored]
        figure.add_trace(_own_trace(own, named=place > 0), **place_of(place))
    last = max(step.round for group in shown for step in found[group])
    figure.update_xaxes(title={"text": "round of the library given"}, range=[-0.4, last + 0.4], dtick=1 + last // 10)
    figure.update_yaxes(range=[-22, 124], tickvals=[0, 25, 50, 75, 100])
    figure.update_yaxes(title={"text": "passed, %"}, col=1)
    return figure.update_layout(showlegend=True, meta={"min_width": 260 * min(2, len(shown))})


def _own_trace(steps: Sequence[AtRound], *, named: bool) -> go.Scatter:
    style = of_label(steps[0].group) or series(0)
    points = []
    for step in steps:
        passed = f"{step.rate.passed} of {step.rate.scored} trials passed{write_interval(step.around)}"
        hover = lines(plain(step.group), f"round {step.round}", passed)
        points.append(ChartPoint(step.round, step.rate.percent, hover, step.url, step.around))
    return scatter(
        points,
        mode=line_mode(steps) + ("+text" if len(steps) <= MAX_NUMBERS else ""),
        name="tasks met in that round",
        legendgroup="own",
        showlegend=not named,
        line={"color": style.colour, "width": 2},
        marker=style.mark(8),
        error_y=spread_bars(points, veil(style.colour, 0.5)),
        text=[f"{step.rate.passed}/{step.rate.scored}" for step in steps],
        textposition=_sides([step.rate.percent or 0.0 for step in steps]),
        textfont={"size": 11},
    )


def _sides(values: Sequence[float]) -> list[str]:
    """Where a number is clear of its own line: under a value that is lower than a neighbour and above no other."""
    near = [values[max(0, place - 1) : place + 2] for place in range(len(values))]
    return [
        "bottom center" if value == min(neighbour) < max(neighbour) else "top center"
        for value, neighbour in zip(values, near, strict=True)
    ]


def _baseline_trace(sheet: ChartSheet, steps: Sequence[AtRound], *, named: bool) -> go.Scatter:
    name = f"the same tasks, {say_label(sheet.comparison.groups.baseline)}"
    points = []
    for number, rate in [(step.round, step.baseline) for step in steps if step.baseline]:
        passed = f"{rate.passed} of {rate.scored} trials passed"
        points.append(ChartPoint(number, rate.percent, lines(plain(name), f"tasks met in round {number}", passed)))
    return plain_scatter(
        points,
        mode=line_mode(points),
        name=plain(name),
        legendgroup="baseline",
        showlegend=not named,
        line={"color": MUTED, "width": 1, "dash": "dot"},
        marker={"color": MUTED, "symbol": "circle-x", "size": 7},
    )


ROUND_NOTES = (
    "Trials of acquisition or evaluation by the rounds behind the library they were given; a decision that changed "
    "nothing makes no round. Replicates and episodes are added up. Lines are 95 % intervals: over replicates where "
    "there are two or more, else over ten trials or more.",
    "These are survivors: an episode that stopped learning has no trial in later rounds, so a fall may be the harder "
    "tasks that are left. Later rounds may also meet other tasks. The dotted line is the baseline on the very tasks "
    "met in each round. The learning curve measures every round on all tasks.",
    NOT_PUBLISHED,
)
ROUNDS_CHART = Chart(
    key="rounds",
    title="Success while learning, by round",
    question="Do trials that are still learning solve more in later rounds?",
    draw=draw_rounds,
    lacks=lacks_libraries,
    after="SkillLearnBench, Figure 4",
)
