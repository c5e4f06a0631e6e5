"""Rerun something scored: another run shares the beginning of an episode and continues from there on its own.

The old run is never changed, so nobody can reroll a failure, or remove the evidence for a later patch. The fork is a
separate experiment: runs that share a beginning are not independent replicates, and no page pools it with the runs it
came from unless a person compares the two.

The beginning is copied as it was recorded. Contents (blobs, chunks, snapshots) are shared. Rows are new, so that each
run is independent and the old one never changes. Copied attempts and calls are marked as copies: billing leaves them
out.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping
from typing import Literal, TypeVar

from django.db import transaction
from django.db.models import Model

from benchapp import models
from benchapp.experiments.launch import record_episode
from benchapp.experiments.plans import plan_of, spec_alone, spec_of, suite_of
from benchapp.experiments.work import advance
from benchapp.models.episodes import Target
from benchapp.record import recorded
from benchapp.record.sets.suite_files import record_suite
from benchapp.record.writing.human_acts import NotPossible, note_activity
from benchapp.record.writing.rows import enter
from runner.authoring.teaching import list_teaching_keys
from runner.base.errors import RunnerError
from runner.base.types import TrialSlot
from runner.engine.author_step import LEFT_OUT
from runner.prompts.roles import OWN
from runner.protocols.history import fold
from runner.protocols.recorder import AGENT_CALLS

M = TypeVar("M", bound=Model)


class _Prefix:
    """Copies the first entries of the origin's spine onto the fork's empty one, inside a transaction."""

    def __init__(self, origin: models.Episode, fork: models.Episode) -> None:
        self.origin, self.fork = origin, fork
        slots = {(trial.phase, trial.task_id, trial.sample): trial for trial in fork.trials.all()}
        self.trials: dict[int, models.Trial] = {
            trial.pk: slots[trial.phase, trial.task_id, trial.sample] for trial in origin.trials.all()
        }
        self.compactions: dict[int, int] = {}  # the origin's -> the fork's

    def copy(self, entries: list[models.Entry]) -> None:
        self._calls(entries)
        for entry in entries:
            enter(self.fork, self._target(entry), entry.recorded_at, entry.sequence)

    def _target(self, entry: models.Entry) -> Target:
        match entry.target:
            case models.Attempt() as attempt:
                return self._attempt(attempt)
            case models.Decision() as decision:
                return self._decision(decision)
            case models.Seeding() as seeding:
                return _copy_row(seeding)
            case models.Seal() as seal:
                self.fork.trials.unneeded().delete()  # as the freeze itself does
                return _copy_row(seal)
            case models.Skip() as skip:
                skipped = self.trials[skip.trial_id]
                models.Trial.objects.filter(pk=skipped.pk).update(status=models.Trial.Status.SKIPPED)
                return _copy_row(skip, trial_id=skipped.pk)
            case models.Refusal() as refusal:
                return _copy_row(refusal, trial_id=self._trial(refusal.trial_id))
        raise RunnerError(f"entry {entry.sequence} of {entry.episode_id} points at nothing")

    def _trial(self, origin: int | None) -> int | None:
        return None if origin is None else self.trials[origin].pk

    # --- attempts -------------------------------------------------------------------------------------------------

    def _attempt(self, attempt: models.Attempt) -> models.Attempt:
        """Copy the counting attempt with everything below it, settled on the fork's trial."""
        trial, origin = self.trials[attempt.trial_id], attempt.trial
        trial.snapshot = origin.snapshot
        earlier = models.Trial.retrieved.through.objects.filter(from_trial=origin).order_by("id")
        trial.remember_retrieved([self.trials[pk] for pk in earlier.values_list("to_trial_id", flat=True)])
        copied = _copy_row(attempt, trial_id=trial.pk, is_copy=True, counts=False, sandbox={}, lease_epoch=0)
        for verdict in attempt.verdicts.all():
            judged = _copy_row(verdict, attempt_id=copied.pk)
            for below in (*verdict.checks.all(), *verdict.dimensions.all()):
                _copy_row(below, verdict_id=judged.pk)
        trajectories = self._trajectories(attempt, {"attempt_id": copied.pk})
        for use in attempt.skill_uses.all():
            shown = None if use.trajectory_id is None else trajectories[use.trajectory_id]
            _copy_row(use, attempt_id=copied.pk, trajectory_id=shown)
        trial.settle(copied)
        return copied

    def _trajectories(self, owner: models.Attempt | models.ModelCall, copied: Mapping[str, int]) -> dict[int, int]:
        """Return the origin's -> the fork's. `copied`: the column that names the copy of their owner, with its key."""
        known: dict[int, int] = {}
        for trajectory in owner.trajectories.order_by("ordinal", "id"):  # parents come before their children
            parent = None if trajectory.parent_id is None else known[trajectory.parent_id]
            known[trajectory.pk] = here = _copy_row(trajectory, **copied, parent_id=parent).pk
            for chunk in trajectory.chunks.all():
                _copy_row(chunk, trajectory_id=here).pieces.set(chunk.pieces.all())
            for compaction in models.Compaction.objects.filter(trajectory=trajectory):
                self.compactions[compaction.pk] = _copy_row(compaction, trajectory_id=here).pk
        return known

    # --- the author -----------------------------------------------------------------------------------------------

    def _calls(self, entries: list[models.Entry]) -> None:
        """Copy the prefix's answered calls: of its decisions, of the teacher before them, recorded ones of agents."""
        decisions = [entry.decision for entry in entries if entry.decision is not None]
        behind = {decision.call_id for decision in decisions}
        asked_for = [(decision, decision.after_trial) for decision in decisions if decision.after_trial is not None]
        talk = {
            key
            for decision, trial in asked_for
            for key in list_teaching_keys(decision.family.key, recorded.slot_of(trial))
        }
        counting = [entry.attempt for entry in entries if entry.attempt is not None]
        of_agents = tuple(
            f"agent/{attempt.trial.phase}/{attempt.trial.task.key}/{attempt.trial.sample}/{attempt.number}/"
            for attempt in counting
        )
        self.calls: dict[int, int] = {}
        for call in self.origin.calls.filter(status=models.ModelCall.Status.ANSWERED).order_by("id"):
            of_agent = call.purpose == AGENT_CALLS and call.key.startswith(of_agents)
            if call.pk in behind or call.key in talk or of_agent:
                copied = _copy_row(call, episode_id=self.fork.pk, is_copy=True)
                self._trajectories(call, {"call_id": copied.pk})
                self.calls[call.pk] = copied.pk

    def _decision(self, decision: models.Decision) -> models.Decision:
        copied = _copy_row(
            decision,
            episode_id=self.fork.pk,
            after_trial_id=self._trial(decision.after_trial_id),
            call_id=None if decision.call_id is None else self.calls[decision.call_id],
        )
        for shown in decision.evidence.all():
            compaction = None if shown.compaction_id is None else self.compactions[shown.compaction_id]
            _copy_row(shown, decision_id=copied.pk, trial_id=self._trial(shown.trial_id), compaction_id=compaction)
        return copied


def _copy_row(row: M, **changes: object) -> M:
    """Return a new row with the same values, its own keys, and these changes (columns by their database names)."""
    kept = {
        field.attname: getattr(row, field.attname)
        for field in row._meta.concrete_fields
        if not field.primary_key and field.attname != "public_id"
    }
    return type(row)._default_manager.create(**{**kept, **changes})


Dice = Literal["new", "same"]
# A refusal belongs to the trial or the write before it, and a skip is an operator's act, so neither is rerun.
PLACES = (models.Entry.Kind.TRIAL, models.Entry.Kind.DECISION, models.Entry.Kind.SEED, models.Entry.Kind.FREEZE)


def fork(
    episode: models.Episode, *, before: TrialSlot | int, dice: Dice = "new", reason: str, by: models.User | None = None
) -> models.Run:
    """Create a run with this one episode, recorded up to `before` and ready to continue.

    before: a scored trial, or a place on the spine. dice: new ones, or those of the run it comes from (a deterministic
    model will then repeat itself). Raise NotPossible if nothing was scored there or the episode is not ours, SetupError
    if the setup is no longer that of the launch.
    """
    if not reason.strip():
        raise NotPossible("a fork needs a reason")
    if not models.Episode.objects.own().filter(pk=episode.pk, is_ordered=True).exists():
        raise NotPossible(f"episode {episode.public_id} was not launched here: nothing to continue")
    entries = list(episode.entries.in_order())
    place = _find_place(episode, entries, before)
    suite = suite_of(episode)
    plan = plan_of(episode, suite)
    seed = secrets.randbits(61) if dice == "new" else (episode.run.seed or 0)
    with transaction.atomic():
        run = _record_run(episode, seed, by)
        prefix = entries[: place - 1]
        forked = record_episode(run, plan, 1, record_suite(suite))
        _Prefix(episode, forked).copy(prefix)
        state = fold(recorded.read_history(forked))
        forked.copied_entries = len(prefix)
        forked.library = models.Snapshot.objects.standing_for(state.snapshot) if prefix else None
        forked.is_tainted = (
            plan.condition.is_tainted_by(state.skipped) or forked.decisions.filter(error__startswith=LEFT_OUT).exists()
        )
        forked.save(update_fields=["copied_entries", "library", "is_tainted"])
        models.Run.objects.filter(pk=run.pk).touch()
        detail = {"before": str(before), "sequence": place, "dice": dice, "run": str(run.public_id)}
        note_activity(by, "fork", episode, detail=detail, reason=reason)
        transaction.on_commit(lambda: advance.hint(forked))
    return run


def _find_place(episode: models.Episode, entries: list[models.Entry], before: TrialSlot | int) -> int:
    """Return the sequence of the first entry that is not copied."""
    if isinstance(before, int):
        found = [entry.sequence for entry in entries if entry.sequence == before and entry.kind in PLACES]
        named = f"place {before}"
    else:
        found = [
            entry.sequence
            for entry in entries
            if entry.attempt is not None and recorded.slot_of(entry.attempt.trial) == before
        ]
        named = f"trial {before}"
    if not found:
        raise NotPossible(
            f"episode {episode.public_id} has nothing scored at {named} (expected a trial that counts, or a place "
            f"from 1 to {len(entries)} with a trial or an answer): retry in place what is not scored"
        )
    return found[0]


def _record_run(episode: models.Episode, seed: int, by: models.User | None) -> models.Run:
    origin = episode.run
    condition, _, prompts = origin.condition.partition("~")
    name = f"{spec_of(origin).name[:200]} (fork of {origin.label[:60]}, {episode.key[:20]})"
    file = spec_alone(
        episode,
        name=name,
        conditions=[condition],
        prompts=[prompts or OWN],
        seed=seed,
        budget={"usd": origin.budget_usd, "tokens": origin.budget_tokens},
    )
    experiment = models.Experiment.objects.create(
        name=name, suite=origin.experiment.suite, spec=file.file, created_by=by
    )
    return models.Run.objects.create(
        experiment=experiment,
        forked_from=origin,
        replicate=origin.replicate or 1,
        seed=seed,
        **{name: getattr(origin, name) for name in TAKEN_OVER},
    )


TAKEN_OVER = (
    *("condition", "harness", "harness_version", "agent_model", "author_model", "author_agent", "scripted", "setup"),
    *("setup_digest", "budget_usd", "budget_tokens"),
)


def scored_places(episode: models.Episode) -> list[tuple[int, str]]:
    """Return (sequence, description) of every place where the episode can be forked, for a page to offer."""
    return [
        (entry.sequence, _describe_entry(entry))
        for entry in episode.entries.in_order()
        if models.Entry.Kind(entry.kind) in PLACES
    ]


def _describe_entry(entry: models.Entry) -> str:
    match entry.target:
        case models.Attempt() as attempt:
            return f"{recorded.slot_of(attempt.trial)} ({attempt.trial.status})"
        case models.Decision() as decision:
            return f"decision {decision.number} ({decision.status})"
        case models.Seeding() as seeding:
            return f"seed of {seeding.family.key}"
    return "freeze"
