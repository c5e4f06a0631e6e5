"""Numbers of a whole run other than means over trials: replay, passes among tries, the bill, the library.

A solved task costs what the first tries of a run and its author cost over the tasks solved at first tries. Failures
cost too, so every billed attempt counts: a mean over solved trials would reward an agent that fails expensively.
Replays are left out on both sides: they solve no new task, and a replayed condition would pay for more than one that is
not replayed. An attempted task costs what all phases of a run and its author cost over the trials of all phases:
replays are on both sides.
"""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

import numpy as np

from benchapp.stats.learning.replay_gains import RETEST, pairs_of
from benchapp.stats.metrics.facts import RunFacts
from benchapp.stats.metrics.metric import FIRST_TRIES, Better, MetricUnit, RunMetric, RunValue
from benchapp.stats.metrics.outcomes import Outcomes
from benchapp.stats.metrics.passing import pass_curve
from benchapp.stats.metrics.spending import RunSpending, Spending
from runner.base.types import DecisionStatus

CODE = "SkillEvolBench's released report (evolution_replay)"


def recovery(facts: RunFacts) -> RunValue:
    """Share of tasks failed in acquisition that replay passed."""
    pairs = pairs_of(facts.outcomes)
    note = RETEST if pairs.failed_first else "nothing failed first and was replayed"
    return RunValue(pairs.recovery, pairs.failed_first, "first failures", note)


def regression(facts: RunFacts) -> RunValue:
    """Share of tasks passed in acquisition that replay failed."""
    pairs = pairs_of(facts.outcomes)
    note = RETEST if pairs.passed_first else "nothing passed first and was replayed"
    return RunValue(pairs.regression, pairs.passed_first, "first passes", note)


REPLAY = (
    RunMetric(
        "recovery",
        "recovery",
        "first failures that replay passed: fail to pass / all failed first; includes retest noise",
        MetricUnit.SHARE,
        Better.HIGHER,
        CODE,
        recovery,
    ),
    RunMetric(
        "regression",
        "regression",
        "first passes that replay failed: pass to fail / all passed first; includes retest noise",
        MetricUnit.SHARE,
        Better.LOWER,
        CODE,
        regression,
    ),
)


def _passing(k: int) -> Callable[[RunFacts], RunValue]:
    def passing(facts: RunFacts) -> RunValue:
        """Unbiased pass@k over the tasks with at least k scored samples."""
        point = pass_curve(facts.outcomes, (k,))[0]
        if not point.tasks:
            return RunValue(None, 0, "tasks", f"no task has {k} scored samples")
        note = f"{point.left_out} tasks with fewer than {k} scored samples left out" if point.left_out else ""
        return RunValue(point.value, point.tasks, "tasks", note)

    return passing


PASSING = tuple(
    RunMetric(
        f"pass@{k}",
        f"pass@{k}",
        f"chance that one of {k} tries at a task passes, over tasks with at least {k} scored samples; the unbiased estimator",
        MetricUnit.SHARE,
        Better.HIGHER,
        "Chen et al. 2021, equation 1; SkillGenBench, section 4.1",
        _passing(k),
    )
    for k in (1, 2, 3)
)

TASKS = "solved tasks"
TRIED = "attempted tasks"


def count_solved_tasks(outcomes: Outcomes) -> int:
    """Count tasks with a passed sample in acquisition, deployment or evaluation; a replay solves no new task."""
    mask = outcomes.covering(FIRST_TRIES) & (outcomes.success == 1)
    return len(np.unique(outcomes.task[mask]))


def cost_per_solved(outcomes: Outcomes, spending: RunSpending) -> RunValue:
    """USD: cost of all billed attempts at first tries and of author calls / solved tasks."""
    spent, solved = spending.of_first_tries, count_solved_tasks(outcomes)
    return _divide(
        spent.whole_cost, solved, TASKS, _why_no_bill(outcomes, spent, _miss_cost(spent)), "no task was solved"
    )


def tokens_per_solved(outcomes: Outcomes, spending: RunSpending) -> RunValue:
    """Tokens, input and output of the same / solved tasks."""
    spent, solved = spending.of_first_tries, count_solved_tasks(outcomes)
    why = _why_no_bill(outcomes, spent, _miss_tokens(spent))
    return _divide(spent.whole_tokens, solved, TASKS, why, "no task was solved")


def cost_per_attempted(outcomes: Outcomes, spending: RunSpending) -> RunValue:
    """USD: cost of all billed attempts in all phases and of author calls / trials that ended."""
    spent, tried = spending.of_all_phases, int(outcomes.done.sum())
    return _divide(
        spent.whole_cost, tried, TRIED, _why_no_bill(outcomes, spent, _miss_cost(spent)), "no trial has ended"
    )


def tokens_per_attempted(outcomes: Outcomes, spending: RunSpending) -> RunValue:
    """Tokens, input and output of the same / trials that ended."""
    spent, tried = spending.of_all_phases, int(outcomes.done.sum())
    why = _why_no_bill(outcomes, spent, _miss_tokens(spent))
    return _divide(spent.whole_tokens, tried, TRIED, why, "no trial has ended")


def _miss_cost(spent: Spending) -> str:
    unknown = spent.things - spent.cost_known
    return f"the cost of {unknown:,} attempts or calls is unknown" if unknown else ""


def _miss_tokens(spent: Spending) -> str:
    unknown = spent.things - spent.tokens_known
    return f"{unknown:,} of {spent.things:,} attempts or calls report no tokens" if unknown else ""


def _why_no_bill(outcomes: Outcomes, spent: Spending, missing: str) -> str:
    if outcomes.tainted.any():
        return "a trial was skipped: the bill of its episode cannot be left out with its results"
    return missing or ("" if spent.things else "nothing was run")


def _divide(total: float | None, count: int, of: str, why_no_bill: str, why_no_count: str) -> RunValue:
    reason = why_no_bill or ("" if count else why_no_count)
    if reason or total is None:
        return RunValue(None, count, of, reason)
    return RunValue(total / count, count, of)


SOLVING = (
    RunMetric(
        "cost-per-solved",
        "cost per solved task",
        "USD of all billed attempts at first tries and author calls / tasks solved there; unknown where any cost is unknown",
        MetricUnit.USD,
        Better.LOWER,
        "after SkillEvolBench's released report (total_cost_per_successful_task_usd); replays left out on both sides",
        lambda facts: cost_per_solved(facts.outcomes, facts.spending),
    ),
    RunMetric(
        "tokens-per-solved",
        "tokens per solved task",
        "input and output tokens of all billed attempts at first tries and author calls / tasks solved there",
        MetricUnit.TOKENS,
        Better.LOWER,
        "as cost per solved task, where no price is known",
        lambda facts: tokens_per_solved(facts.outcomes, facts.spending),
    ),
    RunMetric(
        "cost-per-attempted",
        "cost per attempted task",
        "USD of all billed attempts in all phases, replays too, and of author calls / trials that ended; unknown where any cost is unknown",
        MetricUnit.USD,
        Better.LOWER,
        "SkillEvolBench, Figure 7 and section 5.6; its released report (total_cost_per_task_usd)",
        lambda facts: cost_per_attempted(facts.outcomes, facts.spending),
    ),
    RunMetric(
        "tokens-per-attempted",
        "tokens per attempted task",
        "input and output tokens of all billed attempts in all phases, replays too, and of author calls / trials that ended",
        MetricUnit.TOKENS,
        Better.LOWER,
        "as cost per attempted task, where no price is known",
        lambda facts: tokens_per_attempted(facts.outcomes, facts.spending),
    ),
)


def _of_libraries(number: Callable[[RunFacts], list[int]]) -> Callable[[RunFacts], RunValue]:
    """Mean over the episodes that own a library."""

    def mean(facts: RunFacts) -> RunValue:
        found = number(facts)
        return (
            RunValue(fmean(found), len(found), "episodes")
            if found
            else RunValue(None, note="no episode owns a library")
        )

    return mean


def measure_accepted(facts: RunFacts) -> RunValue:
    """Applied decisions / all decisions."""
    decisions = facts.churn.decisions
    total = sum(decisions.values())
    if not total:
        return RunValue(None, 0, "decisions", "no author decided anything")
    return RunValue(decisions[DecisionStatus.APPLIED] / total, total, "decisions")


LIBRARY = (
    RunMetric(
        "library-files",
        "library files",
        "files in the final library, mean over episodes",
        MetricUnit.COUNT,
        Better.NEITHER,
        "SkillEvolBench, Figure 5",
        _of_libraries(lambda facts: [library.files_total for library in facts.libraries]),
    ),
    RunMetric(
        "library-bytes",
        "library bytes",
        "bytes of the final library, uncompressed, mean over episodes",
        MetricUnit.COUNT,
        Better.NEITHER,
        "the record",
        _of_libraries(lambda facts: [library.bytes for library in facts.libraries]),
    ),
    RunMetric(
        "decisions-applied",
        "decisions applied",
        "answers of the author that changed the library / all answers, rejected, failed and no-op ones included",
        MetricUnit.SHARE,
        Better.NEITHER,
        "SkillEvolBench's released report (revision_acceptance_rate)",
        measure_accepted,
    ),
)
