"""Holds a recorded history against its plan: does every entry answer the step that was due?"""

from __future__ import annotations

from runner import protocols
from runner.protocols.plan import EpisodePlan
from runner.protocols.steps import Ask, Freeze, NextStep, RunTrial, SeedLibrary, SeedSkill
from runner.recorder import Decided, Event, Frozen, History, Refused, Seeded, Skipped, TrialDone


def audit(plan: EpisodePlan, history: History) -> list[str]:
    """One sentence per entry that is not what the protocol asked for at its place; empty when all is well.

    Refusals may stand anywhere. Takes time in the square of the history's length.
    """
    problems = []
    for place, entry in enumerate(history):
        if isinstance(entry.event, Refused):
            continue
        due = protocols.next_step(plan, history[:place])
        if due is None or not answers(due, entry.event):
            problems.append(f"entry {entry.sequence}: {entry.event!r} (expected an answer to {due!r})")
    return problems


def answers(step: NextStep, event: Event) -> bool:
    """Whether recording this event is what doing this step leads to."""
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
        case RunTrial(), Skipped():
            return step.slot == event.slot
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
