"""Do skills carry over to other instances? Families passed in all, some or none of their tasks; seed against held-out.

Source: SkillLearnBench, figure 2 (b) and (c).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import numpy as np
from plotly import graph_objects as go

from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.shares import percent_text
from benchapp.stats.metrics.amounts import render_signed
from benchapp.stats.metrics.metric import FIRST_TRIES, TrialMetric
from benchapp.stats.metrics.metric_names import name_metric
from benchapp.stats.metrics.outcomes import Outcomes
from inspector.charts.chart import Chart, ChartDrawing, ChartTable, TableColumn
from inspector.charts.contrast import Answer
from inspector.charts.drawing.bars import LOOKS, MAX_BARS, Bar, BarPanel, BarPart, Bars, note_crowd
from inspector.charts.drawing.palette import GRID, Style, of_group
from inspector.charts.drawing.panels import lines, panels, plain
from inspector.charts.drawing.quantities import plural
from inspector.charts.drawing.traces import LEAST_ROWS, ChartPoint, connect, lay_rows, scatter
from inspector.charts.lacking import lacks_libraries
from inspector.charts.sheet import ChartSheet

ROW = 38  # px
NOT_PUBLISHED = "SkillLearnBench's own figure is not published as numbers."
SEED_COLUMNS = (
    TableColumn("group", "group", read=lambda row: row.group.label),
    TableColumn("seed", "seed instance", "%"),
    TableColumn("held_out", "held-out instances", "%"),
    TableColumn("difference", "held-out minus seed", "pp", lambda row: row.held_out - row.seed),
    TableColumn("families", "families scored on both", "families, all replicates"),
    TableColumn("left_out", "families scored on one side only", "families, all replicates"),
    TableColumn("seed_trials", "scored trials, seed", "trials", lambda row: row.trials[0]),
    TableColumn("held_out_trials", "scored trials, held out", "trials", lambda row: row.trials[1]),
    TableColumn("runs", "runs"),
)


@dataclass(frozen=True, slots=True)
class SeedRow:
    """A group: the means of its replicates in percent, their families and trials added up."""

    group: Group
    url: str
    seed: float
    held_out: float
    families: int
    left_out: int
    trials: tuple[int, int]
    runs: int

    @classmethod
    def of(cls, group: Group, url: str, sides: Sequence[Sides]) -> SeedRow:
        return cls(
            group,
            url,
            100 * fmean(side.seed for side in sides),
            100 * fmean(side.held_out for side in sides),
            sum(side.families for side in sides),
            sum(side.left_out for side in sides),
            (sum(side.trials[0] for side in sides), sum(side.trials[1] for side in sides)),
            len(sides),
        )

    def point(self, place: int, name: str, title: str) -> ChartPoint:
        value: float = getattr(self, name)
        families, trials = plural(self.families, "family", "families"), self.trials[name == "held_out"]
        hover = lines(
            plain(self.group.label),
            f"{title}: {percent_text(value / 100, 1)} %",
            f"{families}, {plural(trials, 'scored trial')}",
        )
        return ChartPoint(value, place, hover, self.url)


@dataclass(frozen=True, slots=True)
class Sides:
    """Means over families that were scored on both sides: shares. `trials`: scored ones of these families, by side."""

    seed: float
    held_out: float
    families: int
    left_out: int
    trials: tuple[int, int]


def sides_of(outcomes: Outcomes) -> Sides | None:
    """One run: per family the mean over its scored trials on each side, then the mean over families. None where no family was
    scored on both sides, or tasks have roles: there all of a family's first tasks are learned from, and the later ones are built
    to differ."""
    mask = outcomes.covering(FIRST_TRIES) & ~outcomes.tainted & ~np.isnan(outcomes.success)
    scored = outcomes.where(mask & (outcomes.role == 0) & (outcomes.family >= 0) & (outcomes.ordinal > 0))
    families, of = np.unique(scored.family, return_inverse=True)
    is_seed = scored.seed
    counts = [np.bincount(of[side], minlength=len(families)) for side in (is_seed, ~is_seed)]
    sums = [
        np.bincount(of[side], weights=scored.success[side], minlength=len(families)) for side in (is_seed, ~is_seed)
    ]
    both = (counts[0] > 0) & (counts[1] > 0)
    if not both.any():
        return None
    seed, held_out = (float((total[both] / count[both]).mean()) for total, count in zip(sums, counts, strict=True))
    trials = (int(counts[0][both].sum()), int(counts[1][both].sum()))
    return Sides(seed, held_out, int(both.sum()), int((~both).sum()), trials)


def draw_seed(sheet: ChartSheet) -> ChartDrawing:
    rows = []
    for group in sheet.groups:
        sides = [side for outcomes in sheet.comparison.of_group(group) if (side := sides_of(outcomes)) is not None]
        if sides:
            rows.append(SeedRow.of(group, sheet.trials_url(group), sides))
    if not rows:
        absent = (
            "No family of these runs was scored both on its seed instance and on a held-out one. Acquisition against "
            "deployment (LSR, ESR) is another question: deployment tasks differ on purpose."
        )
        return ChartDrawing(None, ChartTable(SEED_COLUMNS), absent=f"{absent} {NOT_PUBLISHED}")
    notes = _note_seed(len(rows), len(sheet.groups) - len(rows))
    answers = tuple(
        Answer(row.group.label, row.held_out - row.seed, render_signed(row.held_out - row.seed)) for row in rows
    )
    return ChartDrawing(lambda: _figure(rows[:MAX_BARS]), ChartTable.of(SEED_COLUMNS, rows), notes, answers=answers)


def _figure(rows: Sequence[SeedRow]) -> go.Figure:
    names = "seed instance", "held-out instances"
    figure, _ = panels([""], across=1, height=max(LEAST_ROWS, len(rows)) * ROW, legend=names)
    seeds = [row.point(place, "seed", names[0]) for place, row in enumerate(rows)]
    held_out = [row.point(place, "held_out", names[1]) for place, row in enumerate(rows)]
    figure.add_trace(connect(list(zip(seeds, held_out, strict=True)), color=GRID, width=4))
    looks = [of_group(row.group.condition) for row in rows]
    figure.add_trace(_marks(seeds, names[0], looks, "top center"))
    figure.add_trace(_marks(held_out, names[1], [look.open for look in looks], "bottom center"))
    labels = [row.group.label for row in rows]
    figure.update_yaxes(**lay_rows(labels, least=LEAST_ROWS, longest=44), zeroline=False, showgrid=False)
    figure.update_xaxes(range=[-5, 105], title={"text": "passed, %, mean over families"})
    return figure.update_layout(showlegend=True)


def _marks(points: Sequence[ChartPoint], title: str, looks: Sequence[Style], text_at: str) -> go.Scatter:
    return scatter(
        points,
        mode="markers+text",
        name=title,
        marker={
            "color": [look.colour for look in looks],
            "symbol": [look.symbol for look in looks],
            "size": 10,
            "line": {"width": 2},
        },
        text=[percent_text((point.x or 0) / 100, 0) for point in points],
        textposition=text_at,
        textfont={"size": 10},
    )


def _note_seed(groups_total: int, left_out: int) -> tuple[str, ...]:
    return (
        "Per family the mean over its scored trials, then over the families that were scored on both sides, then over "
        "replicates. The seed is instance 1, or the first N of a condition with N seed instances; the others are held out.",
        "A lower held-out value suggests skills that fit the seed alone. The seed can also be easier or harder.",
        NOT_PUBLISHED,
        *(
            [f"Not drawn: {plural(left_out, 'group')} without a family that was scored on both sides."]
            if left_out
            else []
        ),
        *note_crowd(groups_total, "groups"),
    )


SEED_CHART = Chart(
    key="seed-heldout",
    title="Seed against held-out instances",
    question="Do skills fit more than the seed instance?",
    draw=draw_seed,
    after="SkillLearnBench, Figure 2 (c)",
    lacks=lacks_libraries,
    finding="Held-out minus seed, points: {high} {most}; {low} {least}",
)


KINDS = {"all": LOOKS[0], "some": LOOKS[2], "none": LOOKS[1], "undecided": LOOKS[4]}  # darker for more


@dataclass(frozen=True, slots=True)
class FamilyCounts:
    """A group: its families by what they pass, all replicates added up."""

    group: Group
    url: str
    counts: Counter[str]

    def part(self, kind: str) -> BarPart:
        count = self.counts[kind]
        says = "not every task scored" if kind == "undecided" else f"{kind} of their tasks passed"
        hover = lines(plain(self.group.label), f"{count} of {self.counts.total()} families: {says}")
        return BarPart(kind, count, str(count), hover, self.url)


def _count_of(kind: str, row: FamilyCounts) -> int:
    return row.counts[kind]


INSTANCE_COLUMNS = (
    TableColumn("group", "group", read=lambda row: row.group.label),
    *(TableColumn(kind, kind, "families", partial(_count_of, kind)) for kind in KINDS),
    TableColumn("families", "families, all replicates", read=lambda row: row.counts.total()),
    TableColumn("runs", "runs", read=lambda row: row.group.replicates),
)


def kinds_of(outcomes: Outcomes, metric: TrialMetric) -> Counter[str]:
    """How many families pass "all", "some" or "none" of the trials the metric covers, in one run.

    "undecided": a trial has no score, and what the others did leaves open which it is. A family with a single trial
    cannot be "some".
    """
    covered = metric.select_covered(outcomes)
    covered = covered.where(covered.family >= 0)
    values = covered.column(metric.column)
    known = ~np.isnan(values)
    families, of = np.unique(covered.family, return_inverse=True)
    passed = np.bincount(of, weights=known & (values >= 1), minlength=len(families))
    failed = np.bincount(of, weights=known & (values < 1), minlength=len(families))
    open_ = np.bincount(of, weights=~known, minlength=len(families))
    some = (passed > 0) & (failed > 0)
    kinds = np.where(some, "some", np.where(open_ > 0, "undecided", np.where(failed == 0, "all", "none")))
    return Counter(kinds.tolist())


def draw_instances(sheet: ChartSheet) -> ChartDrawing:
    metric = sheet.metric
    if metric is None or metric.column != "success":
        absent = "This chart needs a metric that counts passed tasks; choose one such as ESR or completion."
        return ChartDrawing(None, ChartTable(INSTANCE_COLUMNS), absent=absent)
    rows = [
        FamilyCounts(group, sheet.trials_url(group, metric=metric), counts)
        for group in sheet.groups
        if (counts := _count(sheet.comparison.of_group(group), metric))
    ]
    if not rows:
        absent = f"The tasks that {metric.key} covers belong to no family that the record knows. {NOT_PUBLISHED}"
        return ChartDrawing(None, ChartTable(INSTANCE_COLUMNS), absent=absent)
    bars = tuple(
        Bar(row.group.label, tuple(row.part(kind) for kind in KINDS if row.counts[kind]), f"{row.counts.total()}")
        for row in rows[:MAX_BARS]
    )
    picture = Bars([BarPanel("", f"families by their {name_metric(metric).tasks}", bars)], KINDS, across=1)
    answers = tuple(
        Answer(
            row.group.label, row.counts["all"], f"{row.counts['all']} of {row.counts.total()}", "families passed whole"
        )
        for row in rows
    )
    return ChartDrawing(picture, ChartTable.of(INSTANCE_COLUMNS, rows), _note_instances(rows, metric), answers=answers)


def _count(runs: Sequence[Outcomes], metric: TrialMetric) -> Counter[str]:
    return sum((kinds_of(outcomes, metric) for outcomes in runs), Counter())


def _note_instances(rows: Sequence[FamilyCounts], metric: TrialMetric) -> tuple[str, ...]:
    notes = [f"Tasks counted: {metric.meaning}. Each replicate counts a family once; all samples of a task count."]
    if any(row.counts["undecided"] for row in rows):
        notes.append("Undecided: an unscored task leaves the kind open. It does not count as failed.")
    return (*notes, NOT_PUBLISHED, *note_crowd(len(rows), "groups"))


INSTANCES_CHART = Chart(
    key="instances",
    title="Families passed in all, some or none of their tasks",
    question="Do skills solve whole families?",
    draw=draw_instances,
    after="SkillLearnBench, Figure 2 (b)",
    uses_metric=True,
    finding="Families passed whole: {high} {most}; {low} {least}",
)
