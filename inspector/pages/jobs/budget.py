"""A run's budget beside what it has spent, as bars."""

from __future__ import annotations

from dataclasses import dataclass

from benchapp.experiments.work.progress import WorkProgress
from benchapp.models import Run
from benchapp.record.json_shape import Shaped


@dataclass(frozen=True, slots=True)
class BudgetPart(Shaped):
    """In one unit. `spent` is None where it is unknown; it leaves out attempts without a known cost."""

    unit: str  # "USD" or "tokens"
    limit: float
    spent: float | None

    @property
    def percent(self) -> int | None:
        return None if self.spent is None else min(100, round(100 * self.spent / self.limit))

    @property
    def is_over(self) -> bool:
        return self.spent is not None and self.spent >= self.limit


def budget_of(run: Run, progress: WorkProgress) -> list[BudgetPart]:
    """Empty where the run has no limit."""
    sums = (("USD", run.budget_usd, progress.spent_usd), ("tokens", run.budget_tokens, progress.spent_tokens))
    return [BudgetPart(unit, limit, spent) for unit, limit, spent in sums if limit]
