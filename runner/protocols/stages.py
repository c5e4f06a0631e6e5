"""Parts of an episode that several protocols share: its unit, its start, the author's answers, and the steps after the
seal."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from runner.base.digests import EMPTY_LIBRARY
from runner.base.errors import SetupError
from runner.base.suite import Suite
from runner.base.types import AuthorMode, DecisionStatus, Environment, Family, Phase, Task, TrialSlot
from runner.protocols.conditions import Start, Trigger
from runner.protocols.history import EpisodeState
from runner.protocols.plan import Ask, EpisodePlan, RunTrial, SeedSkill

SETTLED = (
    DecisionStatus.APPLIED,
    DecisionStatus.NO_OP,
)  # these end an occasion; after the others the author is asked again


def units(suite: Suite) -> tuple[Environment, ...]:
    """Each family by itself, in the suite's order, under the family's own key and name.

    These protocols have no corpus: the corpora of a suite are not read. Practice tasks are left out, since every task
    of a family counts here.
    """
    return tuple(
        replace(
            environment,
            key=family.key,
            name=family.name,
            corpus=None,
            families=(replace(family, tasks=tuple(task for task in family.tasks if not task.practice)),),
        )
        for environment in suite.environments
        for family in environment.families
    )


def list_counted_tasks(family: Family) -> list[Task]:
    """The tasks whose success is the benchmark's result, in their order."""
    return sorted((task for task in family.tasks if not task.practice), key=lambda task: task.ordinal)


def iterate_counted_tasks(suite: Suite) -> Iterator[Task]:
    """The counted tasks of the whole suite."""
    for family in suite.families:
        yield from list_counted_tasks(family)


def require_one_family(plan: EpisodePlan, what: str) -> None:
    """Raise SetupError if the plan has several families, or a replay. `what`: the protocol's word for a family."""
    families = plan.environment.families
    if len(families) != 1:
        raise SetupError(f"{plan.protocol} runs one {what} at a time, not {len(families)} ({plan.environment.key})")
    if plan.placebo_replay:
        raise SetupError(f"{plan.protocol} has no replay")


# --- before the seal --------------------------------------------------------------------------------------------


def seed_curated(plan: EpisodePlan, state: EpisodeState, family: Family) -> Iterator[SeedSkill]:
    """The family's curated skill, once, if the condition starts with it."""
    if plan.condition.start is Start.CURATED and family.key not in state.equipped:
        yield SeedSkill(family.key)


def fires_after(trigger: Trigger, state: EpisodeState, slot: TrialSlot) -> bool:
    """Does the author work after this trial? Never without a verdict: such a trial teaches nothing."""
    done = state.trials.get(slot)
    return done is not None and done.success is not None and trigger.fires(done.success)


def next_answer(plan: EpisodePlan, state: EpisodeState, first: Ask) -> Iterator[Ask]:
    """The next answer to the occasion of `first`, while it is unsettled and answers are left."""
    given = state.answers.get((first.family, first.after_trial), ())
    if len(given) < plan.answers and not any(decided.status in SETTLED for decided in given):
        yield replace(first, answer=len(given) + 1)


def next_draft(plan: EpisodePlan, state: EpisodeState, first: Ask) -> Iterator[Ask]:
    """The next round on an author's own draft, until the condition's rounds are used up or one of them changes nothing.

    The occasion stays that of `first`, and its answers are numbered on. A rejected or unreadable answer uses up a round
    too; the next one begins from the current draft.
    """
    given = state.answers.get((first.family, first.after_trial), ())
    refined = [decided for decided in given if decided.mode is AuthorMode.REFINE]
    settled = any(decided.status in SETTLED for decided in given)
    content = bool(refined) and refined[-1].status is DecisionStatus.NO_OP
    if settled and not content and len(refined) < plan.condition.rounds - 1:
        yield replace(first, mode=AuthorMode.REFINE, answer=len(given) + 1)


# --- after the seal ---------------------------------------------------------------------------------------------


def evaluation_slots(plan: EpisodePlan, family: Family) -> tuple[TrialSlot, ...]:
    """All samples of a task, then the next task. None is left out after a pass: the estimate is the pass rate."""
    return tuple(
        TrialSlot(Phase.DEPLOYMENT, task.key, n) for task in list_counted_tasks(family) for n in range(plan.samples)
    )


def open_evaluation(plan: EpisodePlan, state: EpisodeState, family: Family) -> Iterator[RunTrial]:
    """The trials of `evaluation_slots` that are still open."""
    roles = {task.key: task.role for task in family.tasks}
    library = plan.condition.has_library
    snapshot = state.snapshot if library else EMPTY_LIBRARY
    for slot in evaluation_slots(plan, family):
        if not state.is_closed(slot):
            yield RunTrial(slot, family.key, roles[slot.task], snapshot, library=library)
