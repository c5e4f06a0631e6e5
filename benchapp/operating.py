"""What an operator does with open work: retry, skip, cancel. Every act is kept with its reason."""

from __future__ import annotations

from django.db import transaction
from django.db.models import F
from django.utils import timezone

from benchapp import jobs, recorded
from benchapp.models import Activity, Entry, Episode, Experiment, Run, Skip, Trial, User
from benchapp.plans import plan_of, suite_of
from runner import protocols
from runner.errors import RunnerError
from runner.protocols.plan import EpisodePlan
from runner.protocols.steps import RunTrial
from runner.types import Slot


class NotPossible(RunnerError):
    """The act does not fit the state of what it is meant for."""


def retry(episode: Episode, *, reason: str, by: User | None = None) -> None:
    """Lets a blocked episode go on where it stands. Nothing scored is run again."""
    with transaction.atomic():
        if not Episode.objects.retry(episode.pk):
            raise NotPossible(f"episode {episode.public_id} is {episode.status}, not blocked")
        _keep("retry", episode, {"was": episode.blocked_reason[:500]}, reason, by)
        episode.run.follow()
    jobs.hint(str(episode.public_id))


def skip(episode: Episode, *, reason: str, by: User | None = None) -> Slot:
    """Leaves out the trial a blocked episode stands at, and lets it go on. Where later trials were to learn
    from it, this taints the episode.

    NotPossible when the episode is not blocked, stands at an answer of the author, or no reason is given.
    """
    if not reason.strip():
        raise NotPossible("a skip needs a reason")
    plan = plan_of(episode, suite_of(episode))
    slot = _trial_at(episode, plan)
    with transaction.atomic():
        trial = episode.trials.get(phase=slot.phase, task__key=slot.task, sample=slot.sample)
        taken = Episode.objects.filter(pk=episode.pk, status=Episode.Status.BLOCKED).update(
            status=Episode.Status.WAITING,
            blocked_reason="",
            failures=0,
            is_tainted=episode.is_tainted or plan.condition.learns_from(slot.phase),
            lease_epoch=F("lease_epoch") + 1,
        )
        if not taken:
            raise NotPossible(f"episode {episode.public_id} is {episode.status}, not blocked")
        _enter_skip(episode, trial, reason, by)
        Run.objects.filter(pk=episode.run_id).touch()
        _keep("skip", trial, {"slot": str(slot), "was": episode.blocked_reason[:500]}, reason, by)
        episode.run.follow()
    jobs.hint(str(episode.public_id))
    return slot


def cancel(experiment: Experiment, *, reason: str, by: User | None = None) -> int:
    """Stops every open episode of the experiment for good. What is recorded stays. The number of episodes stopped."""
    with transaction.atomic():
        stopped = Episode.objects.filter(run__experiment=experiment).cancel()
        _keep("cancel", experiment, {"episodes": stopped}, reason, by)
        for run in experiment.runs.all():
            run.follow()
    return stopped


def _trial_at(episode: Episode, plan: EpisodePlan) -> Slot:
    step = protocols.next_step(plan, recorded.history(episode))
    if not isinstance(step, RunTrial):
        raise NotPossible(f"episode {episode.public_id} does not stand at a trial but at {type(step).__name__}")
    return step.slot


def _enter_skip(episode: Episode, trial: Trial, reason: str, by: User | None) -> None:
    Trial.objects.filter(pk=trial.pk).update(status=Trial.Status.SKIPPED)
    Entry.objects.create(
        episode=episode,
        sequence=episode.next_sequence(),
        kind=Entry.Kind.SKIP,
        recorded_at=timezone.now(),
        skip=Skip.objects.create(trial=trial, reason=reason, actor=by),
    )


def _keep(
    verb: str, target: Episode | Trial | Experiment, detail: dict[str, object], reason: str, by: User | None
) -> None:
    Activity.objects.create(
        actor=by,
        actor_name=by.get_username() if by else "command line",
        verb=verb,
        target_kind=type(target).__name__.lower(),
        target_id=target.public_id,
        detail=detail,
        reason=reason,
    )
