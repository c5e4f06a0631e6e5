"""A qualification: is a task fit to measure skills with? Its own solution and the untouched workspace are tried, then
an agent without skills, with the source material, and with the reference skill. Nobody learns.

Sources: SkillLearnBench section 3 and equation 1 (ten runs without a skill, at most half may pass; one with the human
skill must); SkillGenBench appendix, stages 4 and 5 (below 20 % without the corpus, below 50 % with it; passes with the
reference skill). A condition is a check, an episode is a family under one check. With a model, a task's runs end when
its answer is settled: `plan.Rule.is_kept` says when no further run could change it.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from runner.agents.oracle import Nop, Oracle, Trap, has_solution, has_trap
from runner.base.digests import EMPTY_LIBRARY
from runner.base.errors import SetupError
from runner.base.suite import Suite
from runner.base.types import Environment, Phase, Task, TrialSlot
from runner.prompts.roles import Asked
from runner.protocols.conditions import Condition, Replay, Start, conditions_by_name
from runner.protocols.history import EpisodeState
from runner.protocols.plan import EpisodePlan, Freeze, NextStep, Rule, RunTrial, SeedSkill
from runner.protocols.stages import list_counted_tasks, require_one_family

PROMPT_VERSION = "none"  # no author works

# Names no paper has, so that no trial of a qualification is ever pooled with one of a run that learned.
SOLUTION, UNTOUCHED, TRAP = "qualify-solution", "qualify-untouched", "qualify-trap"
NO_SKILL, WITH_CORPUS, REFERENCE = "qualify-no-skill", "qualify-with-corpus", "qualify-reference"
CONDITIONS = conditions_by_name(
    Condition(SOLUTION, Start.NO_LIBRARY, replay=Replay.NEVER, agent=Oracle.name),
    Condition(UNTOUCHED, Start.NO_LIBRARY, replay=Replay.NEVER, agent=Nop.name),
    Condition(TRAP, Start.NO_LIBRARY, replay=Replay.NEVER, agent=Trap.name),
    Condition(NO_SKILL, Start.NO_LIBRARY, replay=Replay.NEVER),
    Condition(WITH_CORPUS, Start.CORPUS, replay=Replay.NEVER),
    Condition(REFERENCE, Start.CURATED, replay=Replay.NEVER),
)
MUST_PASS = {SOLUTION: True, UNTOUCHED: False, TRAP: False}  # each trial; of other checks, the count decides
_NAMED = {
    SOLUTION: "solution",
    UNTOUCHED: "untouched",
    TRAP: "trap",
    WITH_CORPUS: "with_corpus",
    REFERENCE: "reference",
}


def find_check(condition: str, *, has_corpus: bool) -> str:
    """The check of a condition, by the names of `plan.CHECKS`."""
    return _NAMED.get(condition) or ("no_corpus" if has_corpus else "no_skill")


def find_condition_of(check: str) -> str:
    """The condition of a check."""
    return next((condition for condition, name in _NAMED.items() if name == check), NO_SKILL)


def units(suite: Suite) -> tuple[Environment, ...]:
    """Each family by itself, with only its reference skill, and without practice tasks, which never count."""
    families = [(environment, family) for environment in suite.environments for family in environment.families]
    counted = [
        (environment, replace(family, tasks=tuple(list_counted_tasks(family)))) for environment, family in families
    ]
    return tuple(
        replace(environment, key=family.key, name=family.name, families=(family,))
        for environment, family in counted
        if family.tasks
    )


def check(plan: EpisodePlan) -> None:
    """Check that there is one family. Its rules say how often a task is tried."""
    require_one_family(plan, "family")
    if plan.samples != 1:
        raise SetupError(f"a qualification repeats trials by its rules (expected 1 as samples, not {plan.samples})")


def list_asked(condition: Condition) -> tuple[Asked, ...]:
    """Nobody writes."""
    return ()


def list_tasks(plan: EpisodePlan) -> list[Task]:
    """The tasks that have what the check needs: a solution, a declared wrong answer, a reference skill, a corpus."""
    (family,), condition = plan.environment.families, plan.condition
    lacks = {Start.CURATED: not family.curated, Start.CORPUS: plan.environment.corpus is None}
    if _find_rule(plan) is None or lacks.get(condition.start, False):
        return []
    needs = {SOLUTION: has_solution, TRAP: has_trap}.get(condition.name)
    return [task for task in list_counted_tasks(family) if needs is None or needs(task)]


def open_steps(plan: EpisodePlan, state: EpisodeState) -> Iterator[NextStep]:
    """The steps still open, in order: all tasks once, then all again."""
    tasks, rule = list_tasks(plan), _find_rule(plan)
    if not tasks or rule is None:
        return
    (family,) = plan.environment.families
    if state.frozen is None:
        if plan.condition.has_library and family.key not in state.equipped:
            yield SeedSkill(family.key)
        yield Freeze()
    open_tasks = [task for task in tasks if not _is_settled(plan, state, task, rule)]
    library = state.snapshot if plan.condition.has_library else EMPTY_LIBRARY
    for sample in range(rule.runs):
        for task in open_tasks:
            slot = TrialSlot(Phase.DEPLOYMENT, task.key, sample)
            if not state.is_closed(slot):
                yield RunTrial(slot, family.key, task.role, library, library=plan.condition.has_library)


def _is_settled(plan: EpisodePlan, state: EpisodeState, task: Task, rule: Rule) -> bool:
    """Never for checks without a model: these cost little, and only all of their runs show an unstable verifier."""
    if plan.condition.agent:
        return False
    ended = [done.success for slot, done in state.trials.items() if slot.task == task.key]
    return rule.is_kept(ended.count(True), ended.count(False)) is not None


def _find_rule(plan: EpisodePlan) -> Rule | None:
    """The rule, or None if the check is left out on purpose."""
    rules: Mapping[str, Rule] = plan.rules or {}
    return rules.get(find_check(plan.condition.name, has_corpus=plan.environment.corpus is not None))
