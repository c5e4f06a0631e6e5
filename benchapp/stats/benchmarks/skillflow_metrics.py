"""SkillFlow's table (section 2.5 and Table 1) over the trials of any run: a family is an episode, worked in order.

Every number has two versions, over all tasks and without the first task of each family: there the library is empty, so
no skill can be used. So %use over all tasks stays below 100 % (146 of 166 in the paper's suite). The paper's released
code counts a task without a result as absent and one without a trajectory as 0 turns; here both are unknown.
"""

from __future__ import annotations

from dataclasses import replace
from statistics import fmean

from benchapp.stats.metrics.facts import RunFacts
from benchapp.stats.metrics.metric import FIRST_TRIES, Better, MetricUnit, RunMetric, RunValue, TrialMetric

PAPER = "SkillFlow, section 2.5 and Table 1"

TURNS = "agent turns per task; harnesses count them differently, so never compared across harnesses"
COST = "USD per task, of the attempt that counts; the author's calls are not in it"
USE = "tasks in which a skill was read, invoked or executed, of all tasks"
OVER_ALL = tuple(
    TrialMetric(key, name, meaning, FIRST_TRIES, column=column, unit=unit, better=better, source=PAPER)
    for key, name, meaning, column, unit, better in (
        ("completion", "completion", "tasks completed", "success", MetricUnit.SHARE, Better.HIGHER),
        ("turns", "turns", TURNS, "turns", MetricUnit.TURNS, Better.LOWER),
        ("cost", "cost", COST, "cost_usd", MetricUnit.USD, Better.LOWER),
        ("output-tokens", "output tokens", "output tokens per task", "output_tokens", MetricUnit.TOKENS, Better.LOWER),
        ("use", "% use", USE, "used", MetricUnit.SHARE, Better.NEITHER),
    )
)


def _past_first(metric: TrialMetric) -> TrialMetric:
    """Return the same metric without the first task of each ordered episode."""
    return replace(
        metric,
        key=f"{metric.key}-past-first",
        name=f"{metric.name}, past first",
        meaning=f"{metric.meaning}; without the first task of each ordered episode",
        past_first=True,
    )


METRICS = tuple(found for metric in OVER_ALL for found in (metric, _past_first(metric)))


def skills_retained(facts: RunFacts) -> RunValue:
    """Average over episodes the skills in the final library."""
    if not facts.libraries:
        return RunValue(None, note="no episode owns a library")
    return RunValue(fmean(library.skills for library in facts.libraries), len(facts.libraries), "episodes")


def skills_ever(facts: RunFacts) -> RunValue:
    """Average over episodes the skills that the library ever held, without seeded ones: those the author wrote."""
    churn = facts.churn
    if not facts.libraries or not churn.episodes:
        return RunValue(None, note="no episode owns a library")
    if not churn.recorded:
        return RunValue(None, note="the libraries came without their history")
    return RunValue(churn.created / churn.recorded, churn.recorded, "episodes")


RUN_METRICS = (
    RunMetric(
        "skills-retained",
        "skills retained",
        "skills in the final library, mean over episodes",
        MetricUnit.SKILLS,
        Better.NEITHER,
        "SkillFlow, section 2.5; the released code's #Skills",
        skills_retained,
    ),
    RunMetric(
        "skills-ever",
        "skills ever created",
        "skills the author ever wrote into the library, deleted ones included, mean over episodes",
        MetricUnit.SKILLS,
        Better.NEITHER,
        "SkillFlow, Table 1's caption (#Skills as cumulative number)",
        skills_ever,
    ),
)
