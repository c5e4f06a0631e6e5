"""A probe: one library, frozen from the start, and chosen tasks that run with it, each several times. Nobody learns.

No paper describes it; it is ours. What later trials did after a decision is association: they differ in more than that
decision. A probe changes one thing on purpose (the round that is frozen, or that round without some lines of one
decision) and runs the tasks again, in an extra episode of its own. Its trials are deployment trials: a frozen library,
the instruction of deployment, no author, nothing carried from one trial to the next.
"""

from __future__ import annotations

from collections.abc import Iterator

from runner.base.errors import SetupError
from runner.base.suite import Suite
from runner.base.types import Environment, Phase, TrialSlot
from runner.prompts.roles import Asked
from runner.protocols import skillgenbench, stages
from runner.protocols.conditions import Condition, Replay, Start, conditions_by_name
from runner.protocols.history import EpisodeState
from runner.protocols.plan import EpisodePlan, Freeze, NextStep, Probe, RunTrial, SeedLibrary

CONDITION = "library-probe"  # no paper has this name: trials of a probe are never pooled with those that learned
PROMPT_VERSION = "none"  # no author works
CONDITIONS = conditions_by_name(Condition(CONDITION, Start.EMPTY, replay=Replay.NEVER))


def units(suite: Suite) -> tuple[Environment, ...]:
    """The units of all protocols' episodes, each key once: a probe uses the unit of the episode it comes from."""
    every = (*suite.environments, *stages.units(suite), *skillgenbench.units(suite))
    found: dict[str, Environment] = {}
    for unit in every:
        found.setdefault(unit.key, unit)
    return tuple(found.values())


def check(plan: EpisodePlan) -> None:
    """Check that the unit has the tasks, each named once, and that there is a library."""
    asked = plan.probe
    if asked is None or not asked.tasks:
        raise SetupError("a probe needs a library and at least one task (expected: launched from an episode's library)")
    known = {task.key for task in plan.environment.tasks}
    if strange := [key for key in asked.tasks if key not in known]:
        raise SetupError(f"{plan.environment.key} has no task {', '.join(strange[:5])}")
    if len(set(asked.tasks)) < len(asked.tasks):
        raise SetupError("a task is named twice (expected each once; `samples` repeats a trial)")


def list_asked(condition: Condition) -> tuple[Asked, ...]:
    """Nobody writes."""
    return ()


def open_steps(plan: EpisodePlan, state: EpisodeState) -> Iterator[NextStep]:
    """Yield the steps still open, in order: all tasks once, then all tasks again. A probe stopped midway has tried all
    tasks equally often, and any drift in the meantime affects all tasks alike. The empty library exists from the start:
    nothing adds it."""
    asked = _require_probe(plan)
    if state.frozen is None:
        if state.snapshot != asked.library:
            yield SeedLibrary(plan.task(asked.tasks[0]).family, asked.library)
        yield Freeze()
    slots = (TrialSlot(Phase.DEPLOYMENT, key, sample) for sample in range(plan.samples) for key in asked.tasks)
    for slot in slots:
        if not state.is_closed(slot):
            task = plan.task(slot.task)
            yield RunTrial(slot, task.family, task.role, asked.library, library=True)


def _require_probe(plan: EpisodePlan) -> Probe:
    assert plan.probe is not None  # `check` refused the plan otherwise
    return plan.probe
