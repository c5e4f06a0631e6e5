"""What a solved task cost: what the first tries of a run and its author cost over the tasks solved at first tries.

Failures are paid for too, so every billed attempt counts. A mean over solved trials would reward an agent that fails
expensively. Replays are left out on both sides: they solve nothing anew, and a condition that is replayed would pay for
more than one that is not.
"""

from __future__ import annotations

import numpy as np

from benchapp.stats.metrics.metric import FIRST_TRIES, RunValue
from benchapp.stats.metrics.outcomes import Outcomes
from benchapp.stats.metrics.spending import RunSpending

TASKS = "solved tasks"


def solved_tasks(outcomes: Outcomes) -> int:
    """Tasks with a passed sample in acquisition, deployment or evaluation; replays solve nothing anew."""
    mask = outcomes.covering(FIRST_TRIES) & (outcomes.success == 1)
    return len(np.unique(outcomes.task[mask]))


def cost_per_solved(outcomes: Outcomes, spending: RunSpending) -> RunValue:
    """USD: cost of all billed attempts at first tries and of author calls / solved tasks."""
    unknown = spending.unknown_cost
    reason = f"the cost of {unknown:,} attempts or calls is not known" if unknown else ""
    return _per_solved(outcomes, spending.cost_usd, reason)


def tokens_per_solved(outcomes: Outcomes, spending: RunSpending) -> RunValue:
    """Tokens, input and output of the same / solved tasks."""
    reason = "some attempts or calls tell no tokens" if spending.tokens is None and spending.first_tries.things else ""
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
