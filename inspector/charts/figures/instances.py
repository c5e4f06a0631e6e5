"""Do skills carry over to other instances? Families passed in all, some or none of their tasks; seed against held-out.

Source: SkillLearnBench, figure 2 (b) and (c).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np
from plotly import graph_objects as go

from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.shares import percent_text
from benchapp.stats.metrics.amounts import render_signed
from benchapp.stats.metrics.catalogue import name_metric
from benchapp.stats.metrics.metric import FIRST_TRIES, TrialMetric
from benchapp.stats.metrics.outcomes import Outcomes
from inspector.charts.chart import Answer, Chart, ChartDrawing, ChartTable, TableColumn, entry
from inspector.charts.drawing.bars import LOOKS, MAX_BARS, Bar, BarPanel, BarPart, Bars, note_crowd
from inspector.charts.drawing.palette import of_group
from inspector.charts.drawing.panels import lines, plain
from inspector.charts.drawing.traces import ChartPoint, draw_two_ends
from inspector.charts.sheet import ChartSheet, lacks_libraries
from runner.base.text import plural

SIDES = ("seed instance", "held-out instances")
NOT_PUBLISHED = "SkillLearnBench's own figure is not published as numbers."
SEED_COLUMNS = (
    TableColumn("group", "group", read=lambda row: row.group.label),
    TableColumn("seed", SIDES[0], "%", lambda row: row.means[0]),
    TableColumn("held_out", SIDES[1], "%", lambda row: row.means[1]),
    TableColumn("difference", "held-out minus seed", "pp"),
    TableColumn("families", "families scored on both", "families, all replicates"),
    TableColumn("left_out", "families scored on one side only", "families, all replicates"),
    TableColumn("seed_trials", "scored trials, seed", "trials", lambda row: row.trials[0]),
    TableColumn("held_out_trials", "scored trials, held out", "trials", lambda row: row.trials[1]),
    TableColumn("runs", "runs"),
)


@dataclass(frozen=True, slots=True)
class Sides:
    """Means over families that were scored on both sides: shares. `trials`: scored ones of these families, by side."""

    means: tuple[float, float]
    families: int
    left_out: int
    trials: tuple[int, int]


class SeedRow:
    """A group: the means of its replicates in percent, seed first, their families and trials added up."""

    def __init__(self, group: Group, url: str, of_runs: Sequence[Sides]) -> None:
        self.group, self.url, self.runs = group, url, len(of_runs)
        self.means = [100 * fmean(sides.means[place] for sides in of_runs) for place in (0, 1)]
        self.difference = self.means[1] - self.means[0]
        self.families = sum(sides.families for sides in of_runs)
        self.left_out = sum(sides.left_out for sides in of_runs)
        self.trials = [sum(sides.trials[place] for sides in of_runs) for place in (0, 1)]

    def point(self, side: int, place: int) -> ChartPoint:
        value, families = self.means[side], plural(self.families, "family", "families")
        hover = lines(
            plain(self.group.label),
            f"{SIDES[side]}: {percent_text(value / 100, 1)} %",
            f"{families}, {plural(self.trials[side], 'scored trial')}",
        )
        return ChartPoint(value, place, hover, self.url)


def sides_of(outcomes: Outcomes) -> Sides | None:
    """One run: per family the mean over its scored trials on each side, then the mean over families. None where no
    family was scored on both sides, or tasks have roles: there all of a family's first tasks are learned from, and
    the later ones are built to differ."""
    mask = outcomes.covering(FIRST_TRIES) & ~outcomes.tainted & ~np.isnan(outcomes.success)
    scored = outcomes.where(mask & (outcomes.role == 0) & (outcomes.family >= 0) & (outcomes.ordinal > 0))
    families, of = np.unique(scored.family, return_inverse=True)
    sides = scored.seed, ~scored.seed
    counts = [np.bincount(of[side], minlength=len(families)) for side in sides]
    sums = [np.bincount(of[side], weights=scored.success[side], minlength=len(families)) for side in sides]
    both = (counts[0] > 0) & (counts[1] > 0)
    if not both.any():
        return None
    seed, held_out = (float((total[both] / count[both]).mean()) for total, count in zip(sums, counts, strict=True))
    trials = (int(counts[0][both].sum()), int(counts[1][both].sum()))
    return Sides((seed, held_out), int(both.sum()), int((~both).sum()), trials)


def draw_seed(sheet: ChartSheet) -> ChartDrawing:
    rows = []
    for group in sheet.groups:
        sides = [side for outcomes in sheet.comparison.of_group(group) if (side := sides_of(outcomes)) is not None]
        if sides:
            rows.append(SeedRow(group, sheet.trials_url(group), sides))
    if not rows:
        absent = (
            "No family of these runs was scored both on its seed instance and on a held-out one. Acquisition against "
            "deployment (LSR, ESR) is another question: deployment tasks differ on purpose."
        )
        return ChartDrawing(None, ChartTable(SEED_COLUMNS), absent=f"{absent} {NOT_PUBLISHED}")
    left_out = plural(len(sheet.groups) - len(rows), "group")
    missing = f"Not drawn: {left_out} without a family that was scored on both sides."
    notes = (*SEED_NOTES, *([missing] if len(rows) < len(sheet.groups) else []), *note_crowd(len(rows), "groups"))
    answers = tuple(Answer(row.group.label, row.difference, render_signed(row.difference)) for row in rows)
    return ChartDrawing(lambda: _figure(rows[:MAX_BARS]), ChartTable.of(SEED_COLUMNS, rows), notes, answers=answers)


def _figure(rows: Sequence[SeedRow]) -> go.Figure:
    sides = [[row.point(side, place) for place, row in enumerate(rows)] for side in (0, 1)]
    labelled = [(row.group.label, of_group(row.group.condition)) for row in rows]
    figure = draw_two_ends(labelled, sides, SIDES, lambda value: percent_text(value / 100, 0))
    return figure.update_xaxes(range=[-5, 105], title={"text": "passed, %, mean over families"})


SEED_NOTES = (
    "Per family the mean over its scored trials, then over the families that were scored on both sides, then over "
    "replicates. The seed is instance 1, or the first N of a condition with N seed instances; the others are held out.",
    "A lower held-out value suggests skills that fit the seed alone. The seed can also be easier or harder.",
    NOT_PUBLISHED,
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


INSTANCE_COLUMNS = (
    TableColumn("group", "group", read=lambda row: row.group.label),
    *(TableColumn(kind, kind, "families", entry("counts", kind)) for kind in KINDS),
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
    rows = []
    for group in sheet.groups:
        counts = sum((kinds_of(outcomes, metric) for outcomes in sheet.comparison.of_group(group)), Counter[str]())
        if counts:
            rows.append(FamilyCounts(group, sheet.trials_url(group, metric=metric), counts))
    if not rows:
        absent = f"The tasks that {metric.key} covers belong to no family that the record knows. {NOT_PUBLISHED}"
        return ChartDrawing(None, ChartTable(INSTANCE_COLUMNS), absent=absent)
    panel = BarPanel("", f"families by their {name_metric(metric).tasks}", tuple(map(_bar, rows[:MAX_BARS])))
    answers = tuple(
        Answer(row.group.label, whole, f"{whole} of {row.counts.total()}", "families passed whole")
        for row in rows
        for whole in [row.counts["all"]]
    )
    table, notes = ChartTable.of(INSTANCE_COLUMNS, rows), _note_instances(rows, metric)
    return ChartDrawing(Bars([panel], KINDS, across=1), table, notes, answers=answers)


def _bar(row: FamilyCounts) -> Bar:
    total, parts = row.counts.total(), []
    for kind in KINDS:
        if count := row.counts[kind]:
            share = "not every task scored" if kind == "undecided" else f"{kind} of their tasks passed"
            hover = lines(plain(row.group.label), f"{count} of {total} families: {share}")
            parts.append(BarPart(kind, count, str(count), hover, row.url))
    return Bar(row.group.label, tuple(parts), str(total))


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
