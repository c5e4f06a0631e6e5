"""Where too few episodes are there for an interval: every trial of a metric as a square, a row per group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchapp.models import Square
from benchapp.stats.comparing.comparison import GroupComparison
from benchapp.stats.comparing.condition_names import ConditionName, name_condition
from benchapp.stats.comparing.groups import Group
from benchapp.stats.comparing.narrowing import Narrowing, trials_behind
from benchapp.stats.metrics.metric import TrialMetric

MAX_SQUARES = 40  # of one group; more are counted, not drawn
MAX_ROWS = 30


@dataclass(frozen=True, slots=True)
class FamilyCell:
    """One group's trials in one family."""

    squares: tuple[Square, ...]


@dataclass(frozen=True, slots=True)
class SquareRow:
    """One group: its trials by family, in the order of `SquareTable.families`."""

    group: Group
    name: ConditionName
    cells: tuple[FamilyCell, ...]
    passed: int
    of: int


@dataclass(frozen=True, slots=True)
class SquareTable:
    """`families`: what stands over the columns."""

    families: tuple[str, ...]
    rows: tuple[SquareRow, ...]


def read_squares(comparison: GroupComparison, groups: Sequence[Group], metric: TrialMetric) -> SquareTable | None:
    """One query. None where a group has more trials than can be drawn."""
    covered = [group for group in groups if comparison.cell(group, metric).rate.planned > 0][:MAX_ROWS]
    if not covered or max(comparison.cell(group, metric).rate.planned for group in covered) > MAX_SQUARES:
        return None
    group_of = {
        trial: group
        for group in covered
        for outcomes in comparison.of_group(group)
        for trial in outcomes.trial.tolist()
    }
    families: dict[str, None] = {}
    found: dict[Group, dict[str, list[Square]]] = {group: {} for group in covered}
    for square in trials_behind(comparison.choices, Narrowing(covered=metric.key)).for_grid():
        family = square.family or "tasks"
        families[family] = None
        if group := group_of.get(square.pk):
            found[group].setdefault(family, []).append(square)
    return SquareTable(
        tuple(families), tuple(_build_row(comparison, group, metric, found[group], list(families)) for group in covered)
    )


def _build_row(
    comparison: GroupComparison,
    group: Group,
    metric: TrialMetric,
    found: dict[str, list[Square]],
    families: Sequence[str],
) -> SquareRow:
    rate = comparison.cell(group, metric).rate
    cells = tuple(FamilyCell(tuple(found.get(family, ()))) for family in families)
    return SquareRow(group, name_condition(group.condition), cells, rate.passed, rate.planned)
