"""Copy the beginning of an episode into a fork of it: what was recorded, without running it again.

Contents (blobs, chunks, snapshots) are shared. Rows are new, so that each run is independent and the old one never
changes. Copied attempts and calls are marked as copies: billing leaves them out.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import TypeVar

from django.db.models import Model

from benchapp.models import (
    Attempt,
    Compaction,
    Decision,
    Entry,
    Episode,
    ModelCall,
    Refusal,
    Seal,
    Seeding,
    Skip,
    Trajectory,
    Trial,
    Verdict,
)
from benchapp.models.episodes import Target
from benchapp.record import recorded
from benchapp.record.writing.spine import enter
from runner.authoring.teaching import list_teaching_keys
from runner.base.errors import RunnerError
from runner.engine.model_calls import PURPOSE as AGENT_CALLS

M = TypeVar("M", bound=Model)


def copy_prefix(origin: Episode, fork: Episode, entries: Iterable[Entry]) -> None:
    """Copy these first entries of the origin's spine onto the fork's empty one. Call inside a transaction."""
    _Prefix(origin, fork).copy(list(entries))


class _Prefix:
    def __init__(self, origin: Episode, fork: Episode) -> None:
        self.origin, self.fork = origin, fork
        slots = {(trial.phase, trial.task_id, trial.sample): trial for trial in fork.trials.all()}
        self.trials: dict[int, Trial] = {
            trial.pk: slots[trial.phase, trial.task_id, trial.sample] for trial in origin.trials.all()
        }
        self.compactions: dict[int, int] = {}  # the origin's -> the fork's

    def copy(self, entries: list[Entry]) -> None:
        self._calls(entries)
        for entry in entries:
            enter(self.fork, self._target(entry), entry.recorded_at, entry.sequence)

    def _target(self, entry: Entry) -> Target:
        match entry.target:
            case Attempt() as attempt:
                return self._attempt(attempt)
            case Decision() as decision:
                return self._decision(decision)
            case Seeding() as seeding:
                return _copy_row(seeding)
            case Seal() as seal:
                self.fork.trials.unneeded().delete()  # as the freeze itself does
                return _copy_row(seal)
            case Skip() as skip:
                skipped = self.trials[skip.trial_id]
                Trial.objects.filter(pk=skipped.pk).update(status=Trial.Status.SKIPPED)
                return _copy_row(skip, trial_id=skipped.pk)
            case Refusal() as refusal:
                return _copy_row(refusal, trial_id=self._trial(refusal.trial_id))
        raise RunnerError(f"entry {entry.sequence} of {entry.episode_id} points at nothing")

    def _trial(self, origin: int | None) -> int | None:
        return None if origin is None else self.trials[origin].pk

    # --- attempts -------------------------------------------------------------------------------------------------

    def _attempt(self, attempt: Attempt) -> Attempt:
        """Copy the counting attempt with everything below it, settled on the fork's trial."""
        trial, origin = self.trials[attempt.trial_id], attempt.trial
        trial.snapshot = origin.snapshot
        earlier = Trial.retrieved.through.objects.filter(from_trial=origin).order_by("id")
        trial.remember_retrieved([self.trials[pk] for pk in earlier.values_list("to_trial_id", flat=True)])
        copied = _copy_row(attempt, trial_id=trial.pk, is_copy=True, counts=False, sandbox={}, lease_epoch=0)
        for verdict in attempt.verdicts.all():
            self._verdict(verdict, copied)
        trajectories = self._trajectories(attempt, {"attempt_id": copied.pk})
        for use in attempt.skill_uses.all():
            shown = None if use.trajectory_id is None else trajectories[use.trajectory_id]
            _copy_row(use, attempt_id=copied.pk, trajectory_id=shown)
        trial.settle(copied)
        return copied

    def _verdict(self, verdict: Verdict, attempt: Attempt) -> None:
        copied = _copy_row(verdict, attempt_id=attempt.pk)
        for below in (*verdict.checks.all(), *verdict.dimensions.all()):
            _copy_row(below, verdict_id=copied.pk)

    def _trajectories(self, owner: Attempt | ModelCall, copied: Mapping[str, int]) -> dict[int, int]:
        """Return the origin's -> the fork's. `copied`: the column that names the copy of their owner, with its key."""
        known: dict[int, int] = {}
        for trajectory in owner.trajectories.order_by("ordinal", "id"):  # parents come before their children
            parent = None if trajectory.parent_id is None else known[trajectory.parent_id]
            known[trajectory.pk] = self._trajectory(trajectory, {**copied, "parent_id": parent}).pk
        return known

    def _trajectory(self, trajectory: Trajectory, changes: Mapping[str, object]) -> Trajectory:
        copied = _copy_row(trajectory, **changes)
        for chunk in trajectory.chunks.all():
            _copy_row(chunk, trajectory_id=copied.pk).pieces.set(chunk.pieces.all())
        for compaction in Compaction.objects.filter(trajectory=trajectory):
            self.compactions[compaction.pk] = _copy_row(compaction, trajectory_id=copied.pk).pk
        return copied

    # --- the author -----------------------------------------------------------------------------------------------

    def _calls(self, entries: list[Entry]) -> None:
        """Copy the prefix's answered calls: of its decisions, of the teacher before them, recorded ones of agents."""
        decisions = [entry.decision for entry in entries if entry.decision is not None]
        behind = {decision.call_id for decision in decisions}
        talk = {key for decision in decisions for key in _keys_of_talk(decision)}
        counting = [entry.attempt for entry in entries if entry.attempt is not None]
        of_agents = tuple(
            f"agent/{attempt.trial.phase}/{attempt.trial.task.key}/{attempt.trial.sample}/{attempt.number}/"
            for attempt in counting
        )
        self.calls: dict[int, int] = {}
        for call in self.origin.calls.filter(status=ModelCall.Status.ANSWERED).order_by("id"):
            of_agent = call.purpose == AGENT_CALLS and call.key.startswith(of_agents)
            if call.pk in behind or call.key in talk or of_agent:
                copied = _copy_row(call, episode_id=self.fork.pk, is_copy=True)
                self._trajectories(call, {"call_id": copied.pk})
                self.calls[call.pk] = copied.pk

    def _decision(self, decision: Decision) -> Decision:
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


def _keys_of_talk(decision: Decision) -> tuple[str, ...]:
    trial = decision.after_trial
    return () if trial is None else list_teaching_keys(decision.family.key, recorded.slot_of(trial))


def _copy_row(row: M, **changes: object) -> M:
    """Return a new row with the same values, its own keys, and these changes (columns by their database names)."""
    kept = {
        field.attname: getattr(row, field.attname)
        for field in row._meta.concrete_fields
        if not field.primary_key and field.attname != "public_id"
    }
    return type(row)._default_manager.create(**{**kept, **changes})
