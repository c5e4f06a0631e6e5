"""A run's budget and what it has spent, as bars."""

from __future__ import annotations

from collections.abc import Sequence

from benchapp.experiments.work.progress import WorkProgress
from benchapp.models import Run
from benchapp.record.json_shape import JsonShape, Shaped


class BudgetPart(Shaped):
    """A budget in one unit, "USD" or "tokens". `spent`: None if unknown; it leaves out attempts without a known
    cost."""

    json_shape = JsonShape("unit limit spent")

    def __init__(self, unit: str, limit: float, spent: float | None) -> None:
        self.unit, self.limit, self.spent = unit, limit, spent
        self.percent = None if spent is None else min(100, round(100 * spent / limit))
        self.is_over = spent is not None and spent >= limit


def budget_of(runs: Sequence[Run], progress: WorkProgress) -> list[BudgetPart]:
    """Return the budgets of these runs together, with what they spent; none if one of them has no limit."""
    limits: dict[str, list[float | None]] = {
        "USD": [run.budget_usd for run in runs],
        "tokens": [run.budget_tokens for run in runs],
    }
    spent = {"USD": progress.spent_usd, "tokens": progress.spent_tokens}
    return [
        BudgetPart(unit, sum(each or 0 for each in of_runs), spent[unit])
        for unit, of_runs in limits.items()
        if of_runs and all(of_runs)
    ]
