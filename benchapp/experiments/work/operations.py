"""What an operator does with open work: retry, skip, cancel, pause, resume. Every act is recorded with its reason."""

from __future__ import annotations

from django.db import transaction
from django.db.models import QuerySet
from django.utils import timezone

from benchapp.experiments.plans import plan_of, suite_of
from benchapp.experiments.preparation import EPISODE_ORDER
from benchapp.experiments.work import advance
from benchapp.models import Attempt, Episode, Experiment, ModelCall, Run, Skip, Trial, User
from benchapp.models.episodes import EpisodeQuerySet
from benchapp.record import recorded
from benchapp.record.writing.human_acts import NotPossible, name_actor, note_activity
from benchapp.record.writing.recording import RowRecorder
from benchapp.record.writing.rows import enter
from runner import protocols
from runner.base.types import TrialSlot
from runner.engine.author_step import leave_out
from runner.protocols.history import fold
from runner.protocols.plan import Ask, EpisodePlan, NextStep, RunTrial
from runner.sandboxes.processes import this_process

# Targets of most acts, which apply to everything unfinished below.
Target = Experiment | Run | Episode


def retry(episode: Episode, *, reason: str, by: User | None = None) -> None:
    """Let a blocked episode continue where it is, with its blocked trials. Nothing scored is run again."""
    with transaction.atomic():
        if not _select_episodes(episode).retry(episode.pk):
            episode.refresh_from_db(fields=["status"])
            raise NotPossible(f"episode {episode.public_id} is {episode.status}, not blocked")
        episode.trials.blocked().update(status=Trial.Status.WAITING)
        note_activity(by, "retry", episode, detail={"was": episode.blocked_reason[:500]}, reason=reason)
        episode.run.follow()
    advance.hint(episode)


def retry_blocked(target: Target, *, reason: str, by: User | None = None) -> list[tuple[Episode, str]]:
    """Retry every blocked episode of it, in the order of the plan: each with "" or why it was not retried. An episode
    that was resumed in the meantime does not stop the others. Raise NotPossible when none is blocked."""
    blocked = _select_episodes(target).filter(status=Episode.Status.BLOCKED).order_by(*EPISODE_ORDER)
    found = list(blocked.select_related("run__experiment"))
    if not found:
        raise NotPossible(f"{_name_target(target)} is {target.status}, not blocked")
    answers = dict.fromkeys(found, "")
    for episode in found:
        try:
            retry(episode, reason=reason, by=by)
        except NotPossible as error:
            answers[episode] = str(error)
    return list(answers.items())


def stands_at(episode: Episode) -> NextStep | None:
    """Return what the episode does next, without set-aside trials. Raise RunnerError if its suite or setup is no longer
    that of the launch, so that it cannot continue at all."""
    return _find_due(episode, plan_of(episode, suite_of(episode)))


def skip(episode: Episode, *, reason: str, trial: TrialSlot | None = None, by: User | None = None) -> TrialSlot:
    """Skip an open trial and let the episode continue: `trial`, or else the first blocked one, or else the next one. If
    later trials were to learn from it, this taints the episode.

    A worker at that trial finds its lease gone, records nothing more and ends its sandbox. A paused episode stays
    paused. Raise NotPossible when the episode has ended, the trial is not open, an answer of the author is due (see
    `skip_answer`), or no reason is given.
    """
    if not reason.strip():
        raise NotPossible("a skip needs a reason")
    plan = plan_of(episode, suite_of(episode))
    slot = trial or _find_slot(episode, plan)
    with transaction.atomic():
        now = Episode.objects.select_for_update().get(pk=episode.pk)
        _require_unfinished(episode, now, is_named=trial is not None)
        row = episode.trials.filter(phase=slot.phase, task__key=slot.task, sample=slot.sample).first()
        if row is None:
            raise NotPossible(f"episode {episode.public_id} has no trial {slot}")
        if row.is_done or row.status == Trial.Status.SKIPPED:
            raise NotPossible(f"trial {slot} is {row.status}, not open")
        now.is_tainted = now.is_tainted or plan.condition.learns_from(slot.phase)
        if not now.lease_owner or row.attempts.filter(status=Attempt.Status.RUNNING).exists():
            now.let_go_on()
        now.save(update_fields=["is_tainted", *Episode.GOING_ON])
        Trial.objects.filter(pk=row.pk).update(status=Trial.Status.SKIPPED)
        enter(episode, Skip.objects.create(trial=row, reason=reason, actor=by), timezone.now())
        Run.objects.filter(pk=episode.run_id).touch()
        detail = {"slot": str(slot), "was": episode.blocked_reason[:500]}
        note_activity(by, "skip", row, detail=detail, reason=reason)
        episode.run.follow()
    advance.hint(episode)
    return slot


def skip_answer(episode: Episode, *, reason: str, answer: str = "", by: User | None = None) -> Ask:
    """Record the author's due answer as failed, with who decided it and why, and let the episode continue with its
    library unchanged. `answer`: the key of the intended one. This taints the episode: later trials were to learn from
    the answer.

    A call under way is not awaited: its worker finds the lease gone. If the author may answer more often (`answers`),
    it is asked again. Raise NotPossible as for `skip`, and when another step is due.
    """
    if not reason.strip():
        raise NotPossible("a skip needs a reason")
    plan = plan_of(episode, suite_of(episode))
    with transaction.atomic():
        now = Episode.objects.select_for_update().get(pk=episode.pk)
        _require_unfinished(episode, now, is_named=bool(answer))
        step = _find_due(episode, plan)
        if not isinstance(step, Ask):
            raise NotPossible(f"episode {episode.public_id} does not wait for an answer of the author")
        if answer not in ("", step.key):
            raise NotPossible(
                f"episode {episode.public_id} now waits for the answer {step.key}, not for {answer[:300]}"
            )
        _enter_left_out(episode, now, step, reason, by)
        detail = {"answer": step.key, "was": episode.blocked_reason[:500]}
        note_activity(by, "skip", episode, detail=detail, reason=reason)
        episode.run.follow()
    advance.hint(episode)
    return step


def _enter_left_out(episode: Episode, now: Episode, step: Ask, reason: str, by: User | None) -> None:
    """Write as the holder of the episode: under a new epoch, released in the same transaction."""
    now.is_tainted = True
    now.let_go_on()
    now.lease_owner = str(this_process())[:200]
    now.lease_until = None  # this transaction holds the row, and gives it back
    now.save(update_fields=["is_tainted", *Episode.GOING_ON])
    state = fold(recorded.read_history(episode))
    leave_out(step, RowRecorder(episode, now.lease_epoch), state, who=name_actor(by), why=reason)
    episode.calls.end_started("interrupted: an operator skipped this answer")
    Episode.objects.filter(pk=episode.pk).update(lease_owner="", lease_until=None)


def _require_unfinished(seen: Episode, now: Episode, *, is_named: bool) -> None:
    """Require an open episode. If the trial is not named, require the same epoch too: the episode may have moved on to
    another trial since it was seen."""
    if now.status in (Episode.Status.DONE, Episode.Status.CANCELLED):
        raise NotPossible(f"episode {now.public_id} is {now.status}")
    if not is_named and now.lease_epoch != seen.lease_epoch:
        raise NotPossible(f"episode {now.public_id} changed: look at it again")


def cancel(target: Target, *, reason: str, by: User | None = None, after_trial: bool = False) -> int:
    """Stop what is unfinished for good: now, or after the trial under way. What is recorded stays.

    Now: its worker finds its lease gone, records nothing more and ends its sandbox. Return the number of episodes;
    raise NotPossible when there is none to stop.
    """
    with transaction.atomic():
        episodes = _select_episodes(target)
        stopped = episodes.wish(Episode.Wish.CANCEL) if after_trial else episodes.cancel()
        cancelled = _select_episodes(target).filter(status=Episode.Status.CANCELLED)
        ModelCall.objects.filter(episode__in=cancelled).end_started("interrupted: its episode was cancelled")
        return _record_act("cancel", target, stopped, reason, by, after_trial=after_trial)


def pause(target: Target, *, reason: str, by: User | None = None) -> int:
    """Let nothing further begin: waiting episodes pause at once, others after their current trial."""
    with transaction.atomic():
        return _record_act("pause", target, _select_episodes(target).wish(Episode.Wish.PAUSE), reason, by)


def resume(target: Target, *, reason: str, by: User | None = None) -> int:
    """Let paused episodes continue where they stopped."""
    with transaction.atomic():
        paused = _select_episodes(target).order_by(*EPISODE_ORDER).filter(status=Episode.Status.PAUSED)
        waiting = list(paused.prefetch_related("run__experiment"))
        resumed = _record_act("resume", target, _select_episodes(target).resume(), reason, by)
        transaction.on_commit(lambda: [advance.hint(episode) for episode in waiting])
    return resumed


def _select_episodes(target: Target) -> EpisodeQuerySet:
    """Select the target's own episodes that our workers advance."""
    if isinstance(target, Episode):
        return _select_of_runs(Run.objects.filter(pk=target.run_id)).filter(pk=target.pk)
    return _select_of_runs(Run.objects.filter(**{"experiment" if isinstance(target, Experiment) else "pk": target.pk}))


def _select_of_runs(runs: QuerySet[Run]) -> EpisodeQuerySet:
    """Select without a join to the episode. An update of joined rows selects first and changes later, even if a row
    changed in between: it would cancel a trial that was just done, or pause one that was just taken."""
    own = runs.filter(experiment__origin=Experiment.Origin.RUN, experiment__deleted_at=None)
    return Episode.objects.filter(run__in=own)


def _record_act(verb: str, target: Target, episodes: int, reason: str, by: User | None, **detail: object) -> int:
    """Record the act and update run and experiment. Raise NotPossible if there was no such episode."""
    if not episodes:
        raise NotPossible(f"{verb}: {_name_target(target)} has no such episode")
    note_activity(by, verb, target, detail={"episodes": episodes, **detail}, reason=reason)
    # Lock all runs before the first one follows, and with it the experiment: ending a trial locks its run and then the
    # experiment, and would wait for us while we wait for its run.
    parts = Run.objects.filter(pk__in=_select_episodes(target).values("run"))
    for run in list(parts.order_by("pk").select_for_update()):
        run.follow()
    return episodes


def _name_target(target: Target) -> str:
    return f"{type(target).__name__.lower()} {target.public_id}"


def _find_slot(episode: Episode, plan: EpisodePlan) -> TrialSlot:
    if blocked := episode.trials.blocked().select_related("task").first():
        return recorded.slot_of(blocked)
    step = protocols.next_step(plan, recorded.read_history(episode))
    if not isinstance(step, RunTrial):
        raise NotPossible(f"episode {episode.public_id} does not wait for a trial but for {type(step).__name__}")
    return step.slot


def _find_due(episode: Episode, plan: EpisodePlan) -> NextStep | None:
    blocked = {recorded.slot_of(trial) for trial in episode.trials.blocked().select_related("task")}
    return protocols.next_step(plan, recorded.read_history(episode), blocked)
