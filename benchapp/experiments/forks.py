"""Rerun something scored: another run shares the beginning of an episode and continues from there on its own.

The old run is never changed, so nobody can reroll a failure, or remove the evidence for a later patch. The fork is a
separate experiment: runs that share a beginning are not independent replicates, and no page pools it with the runs it
came from unless a person compares the two.
"""

from __future__ import annotations

import secrets
from typing import Literal

from django.db import transaction

from benchapp import models
from benchapp.experiments.cells import Cell, cell_of
from benchapp.experiments.launch import record_episode
from benchapp.experiments.plans import plan_of, spec_of, suite_of
from benchapp.experiments.prefix import copy_prefix
from benchapp.experiments.work import advance
from benchapp.models import Attempt, Decision, Entry, Episode, Experiment, Run, Seeding, User
from benchapp.record import recorded
from benchapp.record.sets.suite_rows import record_suite
from benchapp.record.writing.human_acts import NotPossible, note_activity
from runner.base.suite import Suite
from runner.base.types import TrialSlot
from runner.engine.author_step import LEFT_OUT
from runner.prompts.roles import OWN
from runner.protocols.history import fold
from runner.protocols.plan import EpisodePlan

Dice = Literal["new", "same"]
# A refusal belongs to the trial or the write before it, and a skip is an operator's act, so neither is rerun.
PLACES = (Entry.Kind.TRIAL, Entry.Kind.DECISION, Entry.Kind.SEED, Entry.Kind.FREEZE)


def fork(episode: Episode, *, before: TrialSlot | int, dice: Dice = "new", reason: str, by: User | None = None) -> Run:
    """Create a run with this one episode, recorded up to `before` and ready to continue.

    before: a scored trial, or a place on the spine. dice: new ones, or those of the run it comes from (a deterministic
    model will then repeat itself). Raise NotPossible if nothing was scored there or the episode is not ours, SetupError
    if the setup is no longer that of the launch.
    """
    if not reason.strip():
        raise NotPossible("a fork needs a reason")
    if not Episode.objects.own().filter(pk=episode.pk, is_ordered=True).exists():
        raise NotPossible(f"episode {episode.public_id} was not launched here: nothing to continue")
    entries = list(episode.entries.in_order())
    place = _find_place(episode, entries, before)
    suite = suite_of(episode)
    plan = plan_of(episode, suite)
    seed = secrets.randbits(61) if dice == "new" else (episode.run.seed or 0)
    with transaction.atomic():
        run = _record_run(episode, seed, by)
        forked = _fork_episode(run, episode, plan, suite, entries[: place - 1])
        detail = {"before": str(before), "sequence": place, "dice": dice, "run": str(run.public_id)}
        note_activity(by, "fork", episode, detail=detail, reason=reason)
        transaction.on_commit(lambda: advance.hint(str(forked.public_id)))
    return run


def _find_place(episode: Episode, entries: list[Entry], before: TrialSlot | int) -> int:
    """Return the sequence of the first entry that is not copied."""
    if isinstance(before, int):
        found = [entry.sequence for entry in entries if entry.sequence == before and entry.kind in PLACES]
        told = f"place {before}"
    else:
        found = [
            entry.sequence
            for entry in entries
            if entry.attempt is not None and recorded.slot_of(entry.attempt.trial) == before
        ]
        told = f"trial {before}"
    if not found:
        raise NotPossible(
            f"episode {episode.public_id} has nothing scored at {told} (expected a trial that counts, or a place from 1 to"
            f" {len(entries)} with a trial or an answer): retry in place what is not scored"
        )
    return found[0]


def _record_run(episode: Episode, seed: int, by: User | None) -> Run:
    origin, arm, spec = episode.run, cell_of(episode.run).arm, spec_of(episode.run)
    name = f"{spec.name[:200]} (fork of {origin.label[:60]}, {episode.key[:20]})"
    file = spec.narrow(
        name=name,
        key="",
        environments=[episode.key],
        agents=[arm.agent],
        agent_models=[arm.agent_model],
        author_models=[arm.author_model],
        author_agents=[arm.author_agent],
        conditions=[arm.condition.partition("~")[0]],
        prompts=[arm.condition.partition("~")[2] or OWN],
        replicates=1,
        seed=seed,
        budget={"usd": origin.budget_usd, "tokens": origin.budget_tokens},
        hypotheses=[],  # about conditions that a fork does not have
    )
    experiment = Experiment.objects.create(name=name, suite=origin.experiment.suite, spec=file.file, created_by=by)
    cell = Cell(arm, origin.replicate or 1, seed)
    return Run.objects.create(
        experiment=experiment,
        forked_from=origin,
        replicate=cell.replicate,
        seed=cell.seed,
        **{name: getattr(origin, name) for name in TAKEN_OVER},
    )


TAKEN_OVER = (
    *(
        "condition",
        "harness",
        "harness_version",
        "agent_model",
        "author_model",
        "author_agent",
        "scripted",
        "setup",
        "setup_digest",
    ),
    *("budget_usd", "budget_tokens"),
)


def _fork_episode(run: Run, origin: Episode, plan: EpisodePlan, suite: Suite, prefix: list[Entry]) -> Episode:
    forked = record_episode(run, plan, 1, record_suite(suite))
    copy_prefix(origin, forked, prefix)
    state = fold(recorded.read_history(forked))
    forked.copied_entries = len(prefix)
    forked.library = models.Snapshot.objects.standing_for(state.snapshot) if prefix else None
    forked.is_tainted = (
        plan.condition.is_tainted_by(state.skipped) or forked.decisions.filter(error__startswith=LEFT_OUT).exists()
    )
    forked.save(update_fields=["copied_entries", "library", "is_tainted"])
    Run.objects.filter(pk=run.pk).touch()
    return forked


def scored_places(episode: Episode) -> list[tuple[int, str]]:
    """Return (sequence, description) of every place where the episode can be forked, for a page to offer."""
    return [
        (entry.sequence, _describe_entry(entry))
        for entry in episode.entries.in_order()
        if Entry.Kind(entry.kind) in PLACES
    ]


def _describe_entry(entry: Entry) -> str:
    match entry.target:
        case Attempt() as attempt:
            return f"{recorded.slot_of(attempt.trial)} ({attempt.trial.status})"
        case Decision() as decision:
            return f"decision {decision.number} ({decision.status})"
        case Seeding() as seeding:
            return f"seed of {seeding.family.key}"
    return "freeze"
