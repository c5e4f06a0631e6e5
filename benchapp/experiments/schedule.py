"""The order of work: conditions are interleaved in time, so that any drift affects all of them alike.

Episodes wait in one queue, the first environment first. Within it come the cells of one replicate, then those of the
next. A worker takes the first, does one trial and puts the episode back at the end. So conditions, agents and models
alternate trial by trial, and an outage or a provider's silent change hits every arm at about the same place of its
plan. With `order: one-by-one` the episode returns to the front instead and ends before the next begins.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from benchapp.experiments.cells import Cell
from benchapp.experiments.preparation import Prepared
from benchapp.record.json_shape import JsonShape, Shaped
from runner.base.types import TrialSlot
from runner.protocols import slots
from runner.protocols.plan import EpisodePlan

# The order of episodes in the queue, for a query. Runs are made in the order of their cells.
EPISODE_ORDER = ("run__experiment_id", "ordinal", "run__replicate", "run_id")


@dataclass(frozen=True, slots=True)
class Planned(Shaped):
    """One trial at its place, in the order of a single worker when nothing fails."""

    place: int  # from 1
    cell: Cell
    unit: str
    slot: TrialSlot

    json_shape = JsonShape(
        *("place", "condition=cell.arm.condition", "replicate=cell.replicate", "agent=cell.arm.agent"),
        *(
            "agent_model=cell.arm.agent_model",
            "author_agent=cell.arm.author_agent?",
            "author_model=cell.arm.author_model",
            "seed=cell.seed",
        ),
        *("episode=unit", "phase=slot.phase", "task=slot.task", "sample=slot.sample"),
    )


def episodes_in_order(prepared: Prepared) -> list[tuple[Cell, EpisodePlan]]:
    """Return every episode in the order of its first hint."""
    placed = [
        ((ordinal, cell.replicate, row), cell, plan)
        for row, (cell, plans) in enumerate(prepared.plans.items())
        for ordinal, plan in enumerate(plans)
    ]
    return [(cell, plan) for _, cell, plan in sorted(placed, key=lambda item: item[0])]


def schedule(prepared: Prepared) -> Iterator[Planned]:
    """Yield every trial of the experiment, in order."""
    queue = deque((cell, plan, deque(slots(plan))) for cell, plan in episodes_in_order(prepared))
    place = 0
    while queue:
        cell, plan, left = queue.popleft()
        if not left:
            continue
        place += 1
        yield Planned(place, cell, plan.environment.key, left.popleft())
        if prepared.spec.order == "one-by-one":
            queue.appendleft((cell, plan, left))
        else:
            queue.append((cell, plan, left))
