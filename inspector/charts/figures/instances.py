"""How many families pass all, some or none of their tasks. Source: SkillLearnBench, figure 2 (b)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from benchapp.stats.comparing.groups import Group
from benchapp.stats.metrics.metric import TrialMetric
from benchapp.stats.metrics.outcomes import Outcomes
from inspector.charts.chart import Chart, ChartDrawing, ChartTable, TableColumn
from inspector.charts.drawing.bars import MAX_BARS, Bar, BarPanel, BarPart, kinds_of_part, note_crowd, stack_bars
from inspector.charts.drawing.panels import lines, plain
from inspector.charts.sheet import ChartSheet

KINDS = kinds_of_part("all", "some", "none", "undecided")
NOT_PUBLISHED = "SkillLearnBench's own figure is not published as numbers."


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


COLUMNS = (
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


def draw(sheet: ChartSheet) -> ChartDrawing:
    metric = sheet.metric
    if metric is None or metric.column != "success":
        absent = "This chart needs a metric that counts passed tasks; choose one such as ESR or completion."
        return ChartDrawing(None, ChartTable(COLUMNS), absent=absent)
    rows = [
        FamilyCounts(group, sheet.trials_url(group, metric=metric), counts)
        for group in sheet.comparison.groups.all
        if (counts := _count(sheet.comparison.of_group(group), metric))
    ]
    if not rows:
        absent = f"The tasks that {metric.key} covers belong to no family that the record knows. {NOT_PUBLISHED}"
        return ChartDrawing(None, ChartTable(COLUMNS), absent=absent)
    bars = tuple(
        Bar(row.group.label, tuple(row.part(kind) for kind in KINDS if row.counts[kind]), f"{row.counts.total()}")
        for row in rows[:MAX_BARS]
    )
    figure = stack_bars([BarPanel("", f"families by their {metric.name} tasks", bars)], KINDS, across=1)
    return ChartDrawing(figure, ChartTable.of(COLUMNS, rows), _notes(rows, metric))


def _count(runs: Sequence[Outcomes], metric: TrialMetric) -> Counter[str]:
    return sum((kinds_of(outcomes, metric) for outcomes in runs), Counter())


def _notes(rows: Sequence[FamilyCounts], metric: TrialMetric) -> tuple[str, ...]:
    notes = [
        f"Tasks counted: {metric.meaning}. A family stands once per replicate; with several samples of a task all count."
    ]
    if any(row.counts["undecided"] for row in rows):
        notes.append(
            "Undecided: a task has no score and the others leave open which kind it is; it is not counted as failed."
        )
    return (*notes, NOT_PUBLISHED, *note_crowd(len(rows), "groups"))


CHART = Chart(
    key="instances",
    title="Families passed in all, some or none of their tasks",
    question="Do skills carry over to every task of a family, or only to some?",
    draw=draw,
    after="SkillLearnBench, Figure 2 (b)",
    uses_metric=True,
)
