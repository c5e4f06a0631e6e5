"""Compares a recorded history with its plan: does every entry answer the step that was due?"""

from __future__ import annotations

from collections.abc import Collection

from runner import protocols
from runner.base.types import TrialSlot
from runner.protocols.history import fold
from runner.protocols.plan import Ask, EpisodePlan, Freeze, NextStep, RunTrial, SeedLibrary, SeedSkill
from runner.protocols.recorder import Decided, Event, Frozen, History, Refused, Seeded, Skipped, TrialDone


def audit(plan: EpisodePlan, history: History) -> list[str]:
    """Return one sentence per entry that the protocol did not ask for at its place.

    Refusals may occur anywhere, and so may the skip of a trial that is still open. Takes time in the square of the
    history's length.
    """
    problems, planned = [], set(protocols.slots(plan))
    for place, entry in enumerate(history):
        before = history[:place]
        if isinstance(entry.event, Refused) or _skips_open_trial(entry.event, planned, before):
            continue
        if not any(answers(step, entry.event) for step in protocols.possible_steps(plan, before)):
            due = protocols.next_step(plan, before)
            problems.append(f"entry {entry.sequence}: {entry.event!r} (expected an answer to {due!r})")
    return problems


def _skips_open_trial(event: Event, planned: Collection[TrialSlot], before: History) -> bool:
    return isinstance(event, Skipped) and event.slot in planned and not fold(before).is_closed(event.slot)


def answers(step: NextStep, event: Event) -> bool:
    """Is this event the result of doing this step?"""
    match step, event:
        case SeedSkill(), Seeded():
            return step.family == event.family
        case SeedLibrary(), Seeded():
            return (step.family, step.snapshot) == (event.family, event.snapshot)
        case RunTrial(), TrialDone():
            return (step.slot, step.family, step.role, step.snapshot, step.retrieved) == (
                event.slot,
                event.family,
                event.role,
                event.snapshot,
                event.retrieved,
            )
        case Ask(), Decided():
            return (step.family, step.mode, step.after_trial, step.answer) == (
                event.family,
                event.mode,
                event.after_trial,
                event.answer,
            )
        case Freeze(), Frozen():
            return True
        case _:
            return False
