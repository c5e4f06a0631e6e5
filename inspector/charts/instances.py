"""How many families pass all, some or none of their tasks. Source: SkillLearnBench, figure 2 (b)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import numpy as np

from benchapp.comparing.groups import Group
from benchapp.metrics.metric import Metric
from benchapp.metrics.outcomes import Outcomes
from inspector.charts.bars import MAX_BARS, Bar, Block, Part, crowded, kinds_of_part, stacked
from inspector.charts.drawing import Chart, Column, Drawing, Row, Table
from inspector.charts.panels import lines, plain
from inspector.charts.sheet import Sheet

KINDS = kinds_of_part("all", "some", "none", "undecided")
NOT_PUBLISHED = "SkillLearnBench's own figure is not published as numbers."
COLUMNS = (
    Column("group", "group"),
    *(Column(kind, kind, "families") for kind in KINDS),
    Column("families", "families, all replicates"),
    Column("runs", "runs"),
)


def kinds_of(outcomes: Outcomes, metric: Metric) -> Counter[str]:
    """How many families pass "all", "some" or "none" of the trials the metric covers, in one run.

    "undecided": a trial has no score, and what the others did leaves open which it is. A family with a single trial
    cannot be "some".
    """
    covered = metric.covered(outcomes)
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


def draw(sheet: Sheet) -> Drawing:
    metric = sheet.metric
    if metric is None or metric.column != "success":
        absent = "This chart needs a metric that counts passed tasks; choose one such as ESR or completion."
        return Drawing(None, Table(COLUMNS), absent=absent)
    found = {group: _count(sheet.comparison.of_group(group), metric) for group in sheet.comparison.groups.all}
    found = {group: counts for group, counts in found.items() if counts}
    if not found:
        absent = f"The tasks that {metric.key} covers belong to no family that the record knows. {NOT_PUBLISHED}"
        return Drawing(None, Table(COLUMNS), absent=absent)
    bars = tuple(_bar(sheet, group, counts, metric) for group, counts in list(found.items())[:MAX_BARS])
    figure = stacked([Block("", f"families by their {metric.name} tasks", bars)], KINDS, across=1)
    rows = tuple(_row(sheet, group, counts, metric) for group, counts in found.items())
    return Drawing(figure, Table(COLUMNS, rows), _notes(sheet, found, metric))


def _count(runs: Sequence[Outcomes], metric: Metric) -> Counter[str]:
    return sum((kinds_of(outcomes, metric) for outcomes in runs), Counter())


def _bar(sheet: Sheet, group: Group, counts: Counter[str], metric: Metric) -> Bar:
    url, total = sheet.trials_url(group, metric=metric), counts.total()
    parts = [
        Part(kind, counts[kind], str(counts[kind]), _hover(group, kind, counts[kind], total), url)
        for kind in KINDS
        if counts[kind]
    ]
    return Bar(group.label, tuple(parts), f"{total}")


def _hover(group: Group, kind: str, count: int, total: int) -> str:
    says = "not every task scored" if kind == "undecided" else f"{kind} of their tasks passed"
    return lines(plain(group.label), f"{count} of {total} families: {says}")


def _row(sheet: Sheet, group: Group, counts: Counter[str], metric: Metric) -> Row:
    values = (group.label, *(counts[kind] for kind in KINDS), counts.total(), group.replicates)
    return Row(values, sheet.trials_url(group, metric=metric))


def _notes(sheet: Sheet, found: dict[Group, Counter[str]], metric: Metric) -> tuple[str, ...]:
    notes = [
        f"Tasks counted: {metric.meaning}. A family stands once per replicate; with several samples of a task all count."
    ]
    if any(counts["undecided"] for counts in found.values()):
        notes.append(
            "Undecided: a task has no score and the others leave open which kind it is; it is not counted as failed."
        )
    return (*notes, NOT_PUBLISHED, *crowded(len(found), "groups"))


CHART = Chart(
    key="instances",
    title="Families passed in all, some or none of their tasks",
    question="Do skills carry over to every task of a family, or only to some?",
    draw=draw,
    after="SkillLearnBench, Figure 2 (b)",
    uses_metric=True,
)
