"""An episode's history as text for people: one line per entry, in columns.

sequence, what happened, phase, task, role; then what the agent could read (skills @ round) or was shown (retrieved
trials), and how it ended; for the author: mode, answer, status, the round after it, the evidence and skills it was shown.
"""

from __future__ import annotations

from collections.abc import Callable

from runner.base.types import Decision, Files, TrialSlot
from runner.protocols.history import EpisodeState, family_skills, fold, slugs
from runner.protocols.plan import EpisodePlan
from runner.protocols.recorder import Decided, Entry, Frozen, History, Refused, Seeded, Skipped, TrialDone

Library = Callable[[str], Files]
OUTCOMES = {True: "passed", False: "failed", None: "no verdict"}


def chronicle(plan: EpisodePlan, history: History, library: Library, decisions: tuple[Decision, ...]) -> str:
    """`decisions` holds the full decision of every Decided entry, in order. Ends with a line break."""
    told = iter(decisions)
    lines = [f"# {plan.condition.name}, {plan.environment.key}, seed {plan.run_seed}"]
    for index, entry in enumerate(history):
        before = history[:index]
        if isinstance(entry.event, Decided):
            line = _render_decision(entry.event, next(told), before, library)
        else:
            line = _other(entry, fold(before), plan, library)
        lines.append(f"{entry.sequence:>3}  {line}".rstrip())
    return "\n".join(lines) + "\n"


def _other(entry: Entry, state: EpisodeState, plan: EpisodePlan, library: Library) -> str:
    match entry.event:
        case TrialDone() as event:
            return _trial(event, state, plan, library)
        case Seeded() as event:
            return f"seed    {event.family:<11}  library {_join_names(slugs(library(event.snapshot)))}"
        case Frozen() as event:
            return f"freeze  {'':<11}  library {_join_names(slugs(library(event.snapshot)))} @ round {state.rounds}"
        case Refused() as event:
            return f"refuse  {event.slot or '':<11}  {_join_names(event.paths)}: {event.reason}"
        case Skipped() as event:
            return f"skip    {event.slot}  {event.reason}"
        case _:
            raise TypeError(f"not an entry of its own kind: {entry.event!r}")


def _trial(event: TrialDone, state: EpisodeState, plan: EpisodePlan, library: Library) -> str:
    slot = event.slot
    sample = f" sample {slot.sample}" if slot.sample else ""
    reads = "no library"
    if plan.condition.has_library:
        reads = f"may read {_join_names(slugs(library(event.snapshot)))} @ round {state.rounds}"
    elif plan.condition.retrieval_k:
        reads = f"shown {_tasks(event.retrieved)}"
    return (
        f"trial   {slot.phase:<11}  {slot.task}{sample}  {event.role or 'no role':<13}  "
        f"{OUTCOMES[event.success]:<10}  {reads}"
    )


def _render_decision(event: Decided, decision: Decision, before: History, library: Library) -> str:
    shown = family_skills(before, library).get(event.family, ())
    when = f"after {event.after_trial.task}" if event.after_trial else f"before {event.family}"
    rules = sorted({finding.rule for finding in decision.findings if finding.severity == "error"})
    broke = f" ({', '.join(rules)})" if rules else ""
    return (
        f"author  {event.mode:<11}  {when}  answer {event.answer}  {event.status}{broke} -> round {event.round}  "
        f"saw {_tasks(tuple(evidence.slot for evidence in decision.evidence))}; skills {_join_names(shown)}"
    )


def _tasks(slots: tuple[TrialSlot, ...]) -> str:
    return ", ".join(slot.task for slot in slots) or "nothing"


def _join_names(names: tuple[str, ...]) -> str:
    return ", ".join(names) or "nothing"
