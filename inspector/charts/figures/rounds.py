"""Success by the round of the library a trial was given while it was written: in an episode that is still learning.

Who learned enough makes no further rounds, so later rounds have the episodes that are left. `learning_curve` measures every
round on the same tasks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np
from plotly import graph_objects as go

from benchapp.stats.comparing.condition_names import say_label
from benchapp.stats.comparing.groups import Group
from benchapp.stats.learning.library_history import read_rounds_given
from benchapp.stats.metrics.outcomes import LEARNING, Floats, Ints, Outcomes
from benchapp.stats.metrics.rates import Rate, pooled_interval
from inspector.charts.chart import Chart, ChartDrawing, ChartTable, TableColumn
from inspector.charts.drawing.palette import MUTED, of_label, series, veil
from inspector.charts.drawing.panels import MAX_PANELS, lines, note_left_out, panels, plain
from inspector.charts.drawing.quantities import write_interval
from inspector.charts.drawing.traces import ChartPoint, line_mode, plain_scatter, scatter, spread_bars
from inspector.charts.lacking import lacks_libraries
from inspector.charts.sheet import ChartSheet
from runner.base.types import Phase

HEIGHT = 190  # px of a panel's inside
MAX_NUMBERS = 8  # of a line; more would cover one another and are left to the hover text and the table
NOT_PUBLISHED = "SkillLearnBench's own figure is not published as numbers."
COLUMNS = (
    TableColumn("group", "group"),
    TableColumn("round", "round of the library given"),
    TableColumn("share", "tasks passed", "%", lambda row: row.rate.percent),
    TableColumn("low", "95 % from", "%", lambda row: row.around and row.around[0]),
    TableColumn("high", "to", "%", lambda row: row.around and row.around[1]),
    TableColumn("passed", "passed", "trials", lambda row: row.rate.passed),
    TableColumn("scored", "scored", "trials", lambda row: row.rate.scored),
    TableColumn("planned", "planned", "trials", lambda row: row.rate.planned),
    TableColumn("baseline_share", "same tasks, baseline", "%", lambda row: row.baseline and row.baseline.percent),
    TableColumn("baseline_passed", "passed, baseline", "trials", lambda row: row.baseline and row.baseline.passed),
    TableColumn("baseline_scored", "scored, baseline", "trials", lambda row: row.baseline and row.baseline.scored),
)


@dataclass(frozen=True, slots=True)
class AtRound:
    """Trials of a group, of acquisition or evaluation, that were given the library of one round; the baseline on the same tasks.
    `around`: the interval of the share, in percent."""

    group: str
    url: str
    round: int
    rate: Rate
    baseline: Rate | None
    around: tuple[float, float] | None = None


@dataclass(frozen=True, slots=True)
class Acquired:
    """Trials of acquisition and evaluation of all replicates of a group as columns, [n] each, tainted episodes left out. NaN: not scored.

    `run`: place of the replicate. `given`: the round of its library, -1 where none is known."""

    run: Ints
    task: Ints
    success: Floats
    given: Ints

    @classmethod
    def of(cls, runs: Sequence[Outcomes], given: Sequence[Ints]) -> Acquired:
        masks = [each.covering(LEARNING) & ~each.tainted for each in runs]
        run = np.repeat(np.arange(len(runs)), [int(mask.sum()) for mask in masks])
        columns = (
            np.concatenate([column[mask] for column, mask in zip(each, masks, strict=True)])
            for each in ([each.task for each in runs], [each.success for each in runs], given)
        )
        return cls(run, *columns)

    @property
    def rounds(self) -> list[int]:
        """Those that some trial was given."""
        return [number for number in np.unique(self.given).tolist() if number >= 0]

    def count(self, keys: Ints, places: int) -> Ints:
        """Passed, scored and planned trials of each of the keys 0.. below `places`, [3, places]; keys are [n], -1: not counted."""
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

    def intervals(self) -> dict[int, tuple[float, float] | None]:
        """Round -> the interval of its share, in percent; none where one run tried a task several times, which are no independent
        draws."""
        last, runs = int(self.given.max(initial=-1)), int(self.run.max(initial=-1)) + 1
        counts = self.count(np.where(self.given >= 0, self.given * runs + self.run, -1), (last + 1) * runs)
        by_run = counts.reshape(3, last + 1, runs)
        return {number: self._interval(number, by_run[:, number]) for number in self.rounds}

    def _interval(self, number: int, by_run: Ints) -> tuple[float, float] | None:
        """`by_run`: the counts of the round, [3, runs]."""
        rates = [Rate(passed, scored, scored) for passed, scored, _ in by_run.T.tolist() if scored]
        if len(rates) == 1:
            tasks = self.task[(self.given == number) & ~np.isnan(self.success)]
            if len(np.unique(tasks)) < len(tasks):
                return None
        ends = pooled_interval(rates) if rates else None
        return (100 * ends[0], 100 * ends[1]) if ends else None


def at_rounds(sheet: ChartSheet, group: Group, own: Acquired, baseline: Acquired | None) -> list[AtRound]:
    """One per round that some trial was given; replicates' counts are added up."""
    if not own.rounds:
        return []
    url = sheet.trials_url(group, phase=_learning_phase(sheet, group))
    counts, around = own.count(own.given, int(own.given.max()) + 1), own.intervals()
    beside = own.count_beside(baseline) if baseline else None
    return [
        AtRound(
            *(group.label, url, number, Rate(*counts[:, number].tolist())),
            Rate(*beside[:, number].tolist()) if beside is not None else None,
            around[number],
        )
        for number in own.rounds
    ]


def draw(sheet: ChartSheet) -> ChartDrawing:
    comparison = sheet.comparison
    given = read_rounds_given(comparison.runs, comparison.outcomes, comparison.choices.as_of)
    acquired = {
        group.identity: Acquired.of(
            [comparison.outcomes[run.pk] for run in group.runs], [given[run.pk] for run in group.runs]
        )
        for group in sheet.groups
    }
    steps = {}
    for group in sheet.groups:
        other = comparison.groups.baseline_of(group)
        steps[group] = at_rounds(sheet, group, acquired[group.identity], acquired[other.identity] if other else None)
    found = {group: of_group for group, of_group in steps.items() if any(step.round for step in of_group)}
    if not found:
        absent = (
            "No trial of acquisition or evaluation of these runs was given a library that had been through a round. "
            f"{NOT_PUBLISHED}"
        )
        return ChartDrawing(None, ChartTable(COLUMNS), absent=absent)
    table = ChartTable.of(COLUMNS, chain(*found.values()))
    return ChartDrawing(lambda: _figure(sheet, found), table, _notes(len(found)))


def _figure(sheet: ChartSheet, found: Mapping[Group, Sequence[AtRound]]) -> go.Figure:
    shown = list(found)[:MAX_PANELS]
    figure, place_of = panels(
        [group.label for group in shown], across=2, height=HEIGHT, legend=("the same tasks", "tasks met in that round")
    )
    for place, group in enumerate(shown):
        steps = found[group]
        theirs = [step for step in steps if step.baseline and step.baseline.scored]
        if theirs:
            figure.add_trace(_baseline_trace(sheet, theirs, named=place > 0), **place_of(place))
        own = [step for step in steps if step.rate.scored]
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
    """Where a number stands clear of its own line: under a value that is lower than one beside it and above none."""
    near = [values[max(0, place - 1) : place + 2] for place in range(len(values))]
    return [
        "bottom center" if value == min(beside) < max(beside) else "top center"
        for value, beside in zip(values, near, strict=True)
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


def _learning_phase(sheet: ChartSheet, group: Group) -> str:
    """Where the group's libraries are written: one protocol has acquisition for it, another evaluates as it goes."""
    acquires = any(each.covering((Phase.ACQUISITION,)).any() for each in sheet.comparison.of_group(group))
    return (Phase.ACQUISITION if acquires else Phase.EVALUATION).value


def _notes(panels_total: int) -> tuple[str, ...]:
    return (
        "Trials of acquisition or evaluation by the rounds behind the library they were given; a decision that changed "
        "nothing makes no round. Replicates and episodes are added up. Lines are 95 % intervals: over replicates where there "
        "are two or more, else over ten trials or more.",
        "These are survivors: an episode that stopped learning has no trial in later rounds, so a fall may be the harder tasks that "
        "are left. Later rounds may also meet other tasks. The dotted line is the baseline on the very tasks met in each round. "
        "The learning curve measures every round on all tasks.",
        NOT_PUBLISHED,
        *note_left_out(panels_total, "conditions or models"),
    )


CHART = Chart(
    key="rounds",
    title="Success while learning, by round",
    question="Do trials that are still learning solve more in later rounds?",
    draw=draw,
    lacks=lacks_libraries,
    after="SkillLearnBench, Figure 4",
)
