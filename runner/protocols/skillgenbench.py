"""SkillGenBench, task-conditioned: what comes next for one task, given what happened.

Source: SkillGenBench section 3.2. The generator sees the corpus and the task, writes, and its library is sealed and
tried on that task, three times for pass@3 (`samples`). One task is one episode; the other tasks of a corpus are held out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from runner.authoring.generation_prompts import GENERATION_PROMPT_VERSION
from runner.base.suite import Suite
from runner.base.types import Environment, TrialSlot
from runner.protocols.generation import CONDITIONS, check_generator, generating, trajectory_slots
from runner.protocols.history import EpisodeState
from runner.protocols.plan import EpisodePlan
from runner.protocols.sealed import evaluation, evaluation_slots, list_counted_tasks
from runner.protocols.steps import NextStep

__all__ = ["CONDITIONS", "PROMPT_VERSION", "check", "open_steps", "slots", "units"]

PROMPT_VERSION = GENERATION_PROMPT_VERSION


def units(suite: Suite) -> tuple[Environment, ...]:
    """An episode is a task that counts, with the corpus it belongs to."""
    return tuple(
        replace(environment, key=task.key, name=task.title, families=(replace(family, tasks=(task,)),))
        for environment in suite.environments
        if environment.corpus is not None
        for family in environment.families
        for task in list_counted_tasks(family)
    )


def check(plan: EpisodePlan) -> None:
    check_generator(plan)


def slots(plan: EpisodePlan) -> tuple[TrialSlot, ...]:
    """Every trial of the plan, in order."""
    (family,) = plan.environment.families
    return (*trajectory_slots(plan, list_counted_tasks(family)), *evaluation_slots(plan, family))


def open_steps(plan: EpisodePlan, state: EpisodeState) -> Iterator[NextStep]:
    """The steps still open, in order. Only the first is certain: later ones depend on how it ends."""
    (family,) = plan.environment.families
    tasks = list_counted_tasks(family)
    if state.frozen is None:
        yield from generating(plan, state, family, task=tasks[0].key, tried=tasks)
    yield from evaluation(plan, state, family)
