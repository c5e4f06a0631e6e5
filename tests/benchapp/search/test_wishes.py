"""Cancel, pause and resume: at once where nobody works, after the trial where somebody does."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from benchapp.experiments.launch import launch
from benchapp.experiments.plans import plan_of, suite_of
from benchapp.experiments.work import advance as jobs
from benchapp.experiments.work import budgets, operations
from benchapp.models import Activity, Attempt, Episode, Experiment, ModelCall, Run
from benchapp.record.writing.human_acts import NotPossible
from benchapp.record.writing.recording import RowRecorder
from runner.base.digests import EMPTY_LIBRARY
from runner.base.errors import LeaseLost
from runner.base.types import ModelRequest, Phase, TrialSlot
from runner.engine import engine
from runner.sandboxes import sandbox_kind
from tests.benchapp.small_rows import hold
from tests.worlds.factories import make_user

pytestmark = pytest.mark.django_db

FIRST = TrialSlot(Phase.ACQUISITION, "E1-LS1-T1")
SPEC: dict[str, Any] = {
    "name": "Two replicates",
    "suite": "starter",
    "environments": ["E1"],
    "conditions": ["no-skill"],
    "replicates": 2,
    "agent": "nop",
}


@pytest.fixture
def hints(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    given: list[str] = []
    monkeypatch.setattr(jobs, "put_hint", lambda episode, needs, **named: given.append(episode) or True)
    monkeypatch.setattr(jobs.slices, "list_hinted", lambda _, **named: set(given))
    return given


@pytest.fixture
def experiment(hints: list[str]) -> Experiment:
    return launch(SPEC)


def status_of(episode: Episode) -> str:
    return Episode.objects.values_list("status", flat=True).get(pk=episode.pk)


def statuses() -> list[str]:
    return list(Episode.objects.order_by("id").values_list("status", flat=True))


def during_a_trial(monkeypatch: pytest.MonkeyPatch, act: Any) -> None:
    """The operator acts while the worker is in the middle of its work."""
    true_advance = engine.advance

    def advance(*arguments: Any) -> bool:
        act()
        return true_advance(*arguments)

    monkeypatch.setattr(engine, "advance", advance)


def test_what_waits_pauses_at_once_and_gets_no_hint(experiment: Experiment, hints: list[str]) -> None:
    hints.clear()
    assert operations.pause(experiment, reason="the provider is slow", by=make_user(username="ada")) == 2
    experiment.refresh_from_db()
    assert (statuses(), experiment.status) == (["paused", "paused"], "paused")
    assert jobs.reconcile() == 0
    act = Activity.objects.exclude(verb="launch").get()
    assert (act.verb, act.actor_name, act.reason, act.target_id) == (
        "pause", "ada", "the provider is slow", experiment.public_id,
    )  # fmt: skip
    assert act.detail == {"episodes": 2}


def test_a_running_trial_ends_before_its_episode_pauses(
    experiment: Experiment, hints: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    episode = Episode.objects.order_by("id")[0]
    during_a_trial(monkeypatch, lambda: operations.pause(episode, reason="later"))
    hints.clear()
    jobs.advance(str(episode.public_id))
    assert Attempt.objects.get().counts
    episode.refresh_from_db()
    assert (episode.status, episode.wish, episode.lease_owner, hints) == ("paused", "", "", [])
    assert status_of(Episode.objects.order_by("id")[1]) == "waiting"


def test_what_was_paused_goes_on_where_it_stands(
    experiment: Experiment, hints: list[str], django_capture_on_commit_callbacks: Any
) -> None:
    operations.pause(experiment, reason="later")
    hints.clear()
    with django_capture_on_commit_callbacks(execute=True):
        assert operations.resume(experiment, reason="now") == 2
    assert statuses() == ["waiting", "waiting"]
    assert sorted(hints) == sorted(map(str, Episode.objects.values_list("public_id", flat=True)))
    jobs.advance(hints[0])
    assert Attempt.objects.get().counts


def test_a_pause_that_did_not_come_yet_can_be_taken_back(experiment: Experiment) -> None:
    episode = Episode.objects.order_by("id")[0]
    hold(episode)
    operations.pause(episode, reason="later")
    assert (status_of(episode), Episode.objects.get(pk=episode.pk).wish) == ("running", "pause")
    assert operations.resume(episode, reason="no, now") == 1
    assert Episode.objects.get(pk=episode.pk).wish == ""


def test_cancel_after_the_trial_keeps_the_trial(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    episode = Episode.objects.order_by("id")[0]
    during_a_trial(monkeypatch, lambda: operations.cancel(experiment, reason="enough", after_trial=True))
    jobs.advance(str(episode.public_id))
    assert statuses() == ["cancelled", "cancelled"]
    assert Attempt.objects.get().counts
    experiment.refresh_from_db()
    assert experiment.status == "cancelled"


def test_cancel_now_takes_nothing_more_from_whoever_works(experiment: Experiment) -> None:
    episode = Episode.objects.order_by("id")[0]
    recorder = RowRecorder(episode, hold(episode))
    recorder.start_attempt(FIRST, snapshot=EMPTY_LIBRARY, retrieved=())
    assert operations.cancel(Run.objects.get(episodes=episode), reason="wrong model") == 1
    with pytest.raises(LeaseLost):
        recorder.seed("E1-LS1", {})
    assert Attempt.objects.get().status == "running"
    jobs.reconcile()
    attempt = Attempt.objects.select_related("trial").get()
    assert (attempt.status, attempt.trial.status, attempt.counts) == ("interrupted", "waiting", False)
    assert statuses() == ["cancelled", "waiting"]


def test_a_call_under_way_ends_with_the_episode_that_is_cancelled(experiment: Experiment) -> None:
    for episode in Episode.objects.order_by("id"):
        recorder = RowRecorder(episode, hold(episode))
        recorder.start_call("asked", purpose="author", model="scripted/x", request=ModelRequest(messages=()))
    operations.cancel(Episode.objects.order_by("id")[0], reason="wrong model")
    calls = ModelCall.objects.order_by("episode_id").values_list("status", "error", "cost_usd")
    assert list(calls) == [("failed", "interrupted: its episode was cancelled", None), ("started", "", None)]


@pytest.mark.parametrize("stop", ["pause", "block"])
def test_what_a_vanished_worker_left_ends_though_its_episode_stopped_meanwhile(
    experiment: Experiment, tmp_path: Path, stop: str
) -> None:
    """Nobody takes such an episode over soon, so nobody else would end its sandbox."""
    episode = Episode.objects.order_by("id")[0]
    recorder = RowRecorder(episode, hold(episode))
    attempt = recorder.start_attempt(FIRST, snapshot=EMPTY_LIBRARY, retrieved=())
    sandbox = sandbox_kind("local").open_sandbox(plan_of(episode, suite_of(episode)).task(FIRST.task), name=attempt)
    recorder.note_sandbox(attempt, sandbox.handle)
    Episode.objects.filter(pk=episode.pk).update(lease_owner="", lease_until=None)  # freed: its holder is dead
    if stop == "pause":
        operations.pause(episode, reason="later")
    else:
        budgets.block_all(episode.run, "Budget spent.")
    jobs.reconcile()
    assert Attempt.objects.get().status == "interrupted"
    assert not sandbox.folder.exists()


def test_a_skipped_trial_stays_skipped_when_what_was_left_of_it_is_ended(experiment: Experiment) -> None:
    episode = Episode.objects.select_related("run__experiment", "environment").order_by("id")[0]
    RowRecorder(episode, hold(episode)).start_attempt(FIRST, snapshot=EMPTY_LIBRARY, retrieved=())
    Episode.objects.filter(pk=episode.pk).update(lease_owner="", lease_until=None)
    budgets.block_all(episode.run, "Budget spent.")
    operations.skip(Episode.objects.get(pk=episode.pk), reason="its fixture is broken")
    jobs.advance(str(episode.public_id))
    skipped = episode.trials.get(phase=FIRST.phase, task__key=FIRST.task)
    assert (skipped.status, skipped.attempts.get().status) == ("skipped", "interrupted")


def test_blocked_and_paused_episodes_are_cancelled_too(experiment: Experiment) -> None:
    first, second = Episode.objects.order_by("id")
    Episode.objects.block(first.pk, epoch=hold(first), reason="x")
    operations.pause(second, reason="later")
    assert operations.cancel(experiment, reason="enough") == 2
    assert statuses() == ["cancelled", "cancelled"]


def test_the_wish_for_an_episode_whose_worker_vanished_is_granted_by_the_next(experiment: Experiment) -> None:
    episode = Episode.objects.order_by("id")[0]
    recorder = RowRecorder(episode, hold(episode))
    recorder.start_attempt(FIRST, snapshot=EMPTY_LIBRARY, retrieved=())
    operations.pause(episode, reason="later")
    Episode.objects.filter(pk=episode.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
    jobs.advance(str(episode.public_id))
    assert status_of(episode) == "paused"
    assert Attempt.objects.get().status == "interrupted"


@pytest.mark.parametrize(
    ("status", "act"),
    [
        ("done", operations.pause),
        ("done", operations.cancel),
        ("done", operations.resume),
        ("cancelled", operations.cancel),
        ("blocked", operations.pause),
        ("waiting", operations.resume),
    ],
)
def test_what_does_not_fit_is_refused_and_not_kept(experiment: Experiment, status: str, act: Any) -> None:
    Episode.objects.update(status=status)
    with pytest.raises(NotPossible, match="has no such episode"):
        act(experiment, reason="x")
    assert not Activity.objects.exclude(verb="launch").exists()


def test_imports_are_nothing_to_operate(experiment: Experiment) -> None:
    Experiment.objects.update(origin="imported")
    with pytest.raises(NotPossible):
        operations.pause(experiment, reason="x")


def test_what_was_imported_blocked_is_not_retried(experiment: Experiment) -> None:
    Experiment.objects.update(origin="imported")
    Episode.objects.update(status="blocked")
    with pytest.raises(NotPossible):
        operations.retry(Episode.objects.select_related("run__experiment").order_by("id")[0], reason="x")
    assert statuses() == ["blocked", "blocked"]


def test_the_command_takes_experiments_runs_and_episodes(experiment: Experiment) -> None:
    out = StringIO()
    run, episode = Run.objects.order_by("id")[0], Episode.objects.order_by("id")[1]
    call_command("episodes", "--pause", str(run.public_id), stdout=out)
    call_command("episodes", "--cancel", str(episode.public_id), "--reason", "wrong", stdout=out)
    call_command("episodes", "--resume", str(experiment.public_id), stdout=out)
    assert out.getvalue().splitlines() == ["Paused 1 episode.", "Cancelled 1 episode.", "Resumed 1 episode."]
    assert statuses() == ["waiting", "cancelled"]
    with pytest.raises(CommandError, match="there is no experiment, run or episode"):
        call_command("episodes", "--pause", "00000000-0000-0000-0000-000000000000")


@pytest.mark.parametrize("after_trial", [False, True])
def test_an_act_looks_at_each_episode_in_the_moment_it_changes_it(experiment: Experiment, after_trial: bool) -> None:
    """A statement that first picks episodes by their state and then changes those would cancel one that ended
    between."""
    run, episode = Run.objects.order_by("id")[0], Episode.objects.order_by("id")[1]
    with CaptureQueriesContext(connection) as queries:
        operations.pause(experiment, reason="x")
        operations.resume(run, reason="x")
        operations.cancel(episode, reason="x", after_trial=after_trial)
        operations.cancel(experiment, reason="x", after_trial=after_trial)
    updates = [row["sql"] for row in queries if row["sql"].startswith('UPDATE "benchapp_episode"')]
    assert len(updates) >= 4
    assert not [sql for sql in updates if 'FROM "benchapp_episode"' in sql]


def test_an_act_locks_every_run_before_the_experiment(experiment: Experiment) -> None:
    """As workers do, one run each: an act that locked the experiment and then a run could block them for ever."""
    with CaptureQueriesContext(connection) as queries:
        operations.pause(experiment, reason="x")
    asked = [row["sql"] for row in queries]
    runs = next(at for at, sql in enumerate(asked) if 'ORDER BY "benchapp_run"."id"' in sql)
    own = f'"benchapp_experiment"."id" = {experiment.pk}'
    assert runs < next(at for at, sql in enumerate(asked) if 'FROM "benchapp_experiment"' in sql and own in sql)


def test_whoever_took_an_episode_that_was_cancelled_says_nothing_about_it(experiment: Experiment) -> None:
    episode = Episode.objects.order_by("id")[0]
    hold(episode)
    operations.cancel(episode, reason="wrong model")
    epoch = Episode.objects.get(pk=episode.pk).lease_epoch  # as if it had been read a moment too late
    told = [
        Episode.objects.block(episode.pk, epoch=epoch, reason="SetupError"),
        Episode.objects.finish(episode.pk, epoch=epoch),
        Episode.objects.release(episode.pk, epoch=epoch),
        Episode.objects.postpone(episode.pk, epoch=epoch),
        Episode.objects.count_vanished(episode.pk, epoch=epoch, reason="gone"),
    ]
    assert not any(told)
    assert (status_of(episode), Episode.objects.get(pk=episode.pk).blocked_reason) == ("cancelled", "")
