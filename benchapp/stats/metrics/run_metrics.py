"""Numbers of a whole run that are no mean over its trials: replay, passes among tries, the bill, the library."""

from __future__ import annotations

from collections.abc import Callable
from statistics import fmean

from benchapp.stats.learning.replay_gains import RETEST, pairs_of
from benchapp.stats.metrics.facts import RunFacts
from benchapp.stats.metrics.metric import Better, MetricUnit, RunMetric, RunValue
from benchapp.stats.metrics.passing import pass_curve
from benchapp.stats.metrics.solving import cost_per_solved, tokens_per_solved
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


def accepted(facts: RunFacts) -> RunValue:
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
        accepted,
    ),
)
