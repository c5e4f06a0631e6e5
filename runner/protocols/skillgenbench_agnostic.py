"""SkillGenBench, task-agnostic: what comes next for one corpus, given what happened.

Source: SkillGenBench section 3.2. The generator sees the corpus alone and makes one library within its token budget; the
library is sealed before any task that counts is revealed, and then serves all of them without being made again. A generator
that learns from trajectories gets them from practice tasks: those of the tasks that count would reveal these.
"""

from __future__ import annotations

from collections.abc import Iterator

from runner.authoring.generation_prompts import GENERATION_PROMPT_VERSION
from runner.base.errors import SetupError
from runner.base.suite import Suite
from runner.base.types import AuthorMode, Environment, Family, Task, TrialSlot
from runner.protocols.generation import CONDITIONS, check_generator, generating, trajectory_slots
from runner.protocols.history import EpisodeState
from runner.protocols.plan import EpisodePlan
from runner.protocols.sealed import evaluation, evaluation_slots
from runner.protocols.steps import NextStep

__all__ = ["CONDITIONS", "PROMPT_VERSION", "check", "open_steps", "slots", "units"]

PROMPT_VERSION = GENERATION_PROMPT_VERSION


def units(suite: Suite) -> tuple[Environment, ...]:
    """An episode is a corpus with all its tasks."""
    return tuple(environment for environment in suite.environments if environment.corpus is not None)


def check(plan: EpisodePlan) -> None:
    """As in the other setting, and practice tasks where a generator learns from trajectories."""
    check_generator(plan)
    (family,) = plan.environment.families
    if plan.condition.mode_at_start is AuthorMode.CONSOLIDATE and not practice(family):
        raise SetupError(
            f"{plan.condition.name}: {plan.environment.key} has no practice task, and trials of the others would reveal them"
        )


def slots(plan: EpisodePlan) -> tuple[TrialSlot, ...]:
    """Every trial of the plan, in order."""
    (family,) = plan.environment.families
    return (*trajectory_slots(plan, practice(family)), *evaluation_slots(plan, family))


def practice(family: Family) -> list[Task]:
    return sorted((task for task in family.tasks if task.practice), key=lambda task: task.ordinal)


def open_steps(plan: EpisodePlan, state: EpisodeState) -> Iterator[NextStep]:
    """The steps still open, in order. Only the first is certain: later ones depend on how it ends."""
    (family,) = plan.environment.families
    if state.frozen is None:
        yield from generating(plan, state, family, task="", tried=practice(family))
    yield from evaluation(plan, state, family)
