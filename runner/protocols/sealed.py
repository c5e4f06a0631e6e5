"""What follows a sealed library: every task that counts, as often as the plan asks. Shared by the protocols that learn first."""

from __future__ import annotations

from collections.abc import Iterator

from runner.base.digests import EMPTY_LIBRARY
from runner.base.types import Family, Phase, Task, TrialSlot
from runner.protocols.history import EpisodeState
from runner.protocols.plan import EpisodePlan
from runner.protocols.steps import RunTrial


def evaluation_slots(plan: EpisodePlan, family: Family) -> tuple[TrialSlot, ...]:
    """All samples of a task, then the next task. None is left out after a pass: what is estimated is the rate."""
    return tuple(
        TrialSlot(Phase.DEPLOYMENT, task.key, n) for task in list_counted_tasks(family) for n in range(plan.samples)
    )


def evaluation(plan: EpisodePlan, state: EpisodeState, family: Family) -> Iterator[RunTrial]:
    """The trials of `evaluation_slots` that are still open."""
    roles = {task.key: task.role for task in family.tasks}
    library = plan.condition.has_library
    snapshot = state.snapshot if library else EMPTY_LIBRARY
    for slot in evaluation_slots(plan, family):
        if not state.is_closed(slot):
            yield RunTrial(slot, family.key, roles[slot.task], snapshot, library=library)


def list_counted_tasks(family: Family) -> list[Task]:
    """The tasks whose success is the benchmark's result, in their order."""
    return sorted((task for task in family.tasks if not task.practice), key=lambda task: task.ordinal)
