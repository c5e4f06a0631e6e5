"""What a solved task cost: the whole bill of a run over the tasks it solved.

Failures are paid for too, so the bill is that of every billed attempt, replays included, and of the author. A mean over
solved trials would reward an agent that fails expensively.
"""

from __future__ import annotations

import numpy as np

from benchapp.metrics.metric import FIRST_TRIES, RunValue
from benchapp.metrics.outcomes import Outcomes
from benchapp.metrics.spending import RunSpending

TASKS = "solved tasks"


def solved_tasks(outcomes: Outcomes) -> int:
    """Tasks with a passed sample in acquisition, deployment or evaluation; replays solve nothing anew."""
    mask = outcomes.covering(FIRST_TRIES) & (outcomes.success == 1)
    return len(np.unique(outcomes.task[mask]))


def cost_per_solved(outcomes: Outcomes, spending: RunSpending) -> RunValue:
    """USD: cost of all billed attempts and author calls / solved tasks."""
    unknown = spending.unknown_cost
    reason = f"the cost of {unknown:,} attempts or calls is not known" if unknown else ""
    return _per_solved(outcomes, spending.cost_usd, reason)


def tokens_per_solved(outcomes: Outcomes, spending: RunSpending) -> RunValue:
    """Tokens, input and output of all billed attempts and author calls / solved tasks."""
    reason = "some attempts or calls tell no tokens" if spending.tokens is None and spending.agent.things else ""
    return _per_solved(outcomes, spending.tokens, reason)


def _per_solved(outcomes: Outcomes, total: float | None, reason: str) -> RunValue:
    solved = solved_tasks(outcomes)
    if outcomes.tainted.any():
        reason = "a trial was skipped: the bill of its episode cannot be left out with its results"
    elif not reason and total is None:
        reason = "nothing was run"
    elif not reason and not solved:
        reason = "no task was solved"
    if reason or total is None:
        return RunValue(None, solved, TASKS, reason)
    return RunValue(total / solved, solved, TASKS)
