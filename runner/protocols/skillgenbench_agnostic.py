"""SkillGenBench, task-agnostic: the next step for one corpus, given its history.

Source: SkillGenBench section 3.2. The generator sees the corpus alone and makes one library within its token budget.
The library is sealed before any task that counts is revealed, and then serves all of them unchanged. A generator that
learns from trajectories gets them from practice tasks: those of the tasks that count would reveal these.
"""

from __future__ import annotations

from collections.abc import Iterator

from runner.base.errors import SetupError
from runner.base.suite import Suite
from runner.base.types import Environment, Task
from runner.protocols import skillgenbench
from runner.protocols.history import EpisodeState
from runner.protocols.plan import EpisodePlan, NextStep
from runner.protocols.skillgenbench import AUTHOR_LIMITS, CONDITIONS, PROMPT_VERSION, list_asked

__all__ = ["AUTHOR_LIMITS", "CONDITIONS", "PROMPT_VERSION", "check", "list_asked", "open_steps", "units"]


def units(suite: Suite) -> tuple[Environment, ...]:
    """An episode is a corpus with all its tasks."""
    return tuple(environment for environment in suite.environments if environment.corpus is not None)


def check(plan: EpisodePlan) -> None:
    """Check as in the other setting, and for practice tasks if a generator learns from trajectories."""
    skillgenbench.check(plan)
    if plan.condition.tries_first and not _list_practice_tasks(plan):
        raise SetupError(
            f"{plan.condition.name}: {plan.environment.key} has no practice task, and trials of the others would "
            "reveal them"
        )


def open_steps(plan: EpisodePlan, state: EpisodeState) -> Iterator[NextStep]:
    """The steps still open, in order. Only the first is certain: later ones depend on its result."""
    return skillgenbench.iterate_steps(plan, state, task="", tried=_list_practice_tasks(plan))


def _list_practice_tasks(plan: EpisodePlan) -> list[Task]:
    (family,) = plan.environment.families
    return sorted((task for task in family.tasks if task.practice), key=lambda task: task.ordinal)
