"""How far work has come: counts, spending, time left, who is at it, and what that costs the database."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from benchapp.experiments.work import progress
from benchapp.experiments.work.progress import WorkProgress, at_work, progress_of, workforce
from benchapp.models import Attempt, Episode, Experiment, Run, Trial
from benchapp.record import live
from tests.worlds.factories import make_attempt, make_episode, make_experiment, make_run, make_trial

pytestmark = pytest.mark.django_db


def running_attempt(trial: Trial, **fields: Any) -> Attempt:
    return Attempt.objects.create(trial=trial, number=1, status="running", **fields)


@pytest.fixture
def experiment() -> Experiment:
    """One run: two passed, one failed, one skipped, one at work, one waiting; ten seconds a trial."""
    experiment = make_experiment(status="running")
    episode = make_episode(make_run(experiment, status="running"), status="running")
    for success in (True, True, False):
        make_trial(episode, success=success, duration_seconds=10.0)
    make_trial(episode, finished=False, status="skipped")
    running_attempt(make_trial(episode, finished=False, status="running"), started_at=timezone.now())
    make_trial(episode, finished=False)
    Trial.objects.update(finished_at=None)  # the pace is tested on its own
    return experiment


def test_it_counts_what_is_planned_done_and_passed(experiment: Experiment) -> None:
    found = progress_of([experiment])[experiment.pk]
    assert (found.done, found.total, found.passed, found.scored, found.running) == (4, 6, 2, 3, 1)
    run = experiment.runs.get()
    assert progress_of([run])[run.pk] == found


def test_what_is_left_takes_the_median_shared_by_those_at_work(experiment: Experiment) -> None:
    assert progress_of([experiment])[experiment.pk].eta_seconds == 20.0
    other = Trial.objects.filter(status="waiting").first()
    assert other is not None
    running_attempt(other)
    assert progress_of([experiment])[experiment.pk].eta_seconds == 10.0


def test_without_anybody_at_work_nobody_knows_when_it_ends(experiment: Experiment) -> None:
    Attempt.objects.filter(status="running").delete()
    assert progress_of([experiment])[experiment.pk].eta_seconds is None


def test_what_waits_for_an_operator_is_left_out_of_the_time_left(experiment: Experiment) -> None:
    Episode.objects.update(status="blocked")
    assert progress_of([experiment])[experiment.pk].eta_seconds is None


def test_a_run_without_a_finished_trial_borrows_the_others_median(experiment: Experiment) -> None:
    second = make_episode(make_run(experiment, replicate=2, status="waiting"), status="waiting")
    make_trial(second, finished=False)
    assert progress_of([experiment])[experiment.pk].eta_seconds == 30.0


def test_spending_counts_what_was_never_scored_and_says_what_is_unknown(experiment: Experiment) -> None:
    trial = Trial.objects.filter(success=True).first()
    assert trial is not None
    before = progress_of([experiment])[experiment.pk]
    make_attempt(trial, counts=False, input_tokens=1_000, output_tokens=1, cost_usd=None)
    after = progress_of([experiment])[experiment.pk]
    assert (after.spent_tokens or 0) - (before.spent_tokens or 0) == 1_001
    assert after.unknown_cost == before.unknown_cost + 1


def test_nothing_known_is_not_nothing_spent() -> None:
    run = make_run()
    found = progress_of([run])[run.pk]
    assert (found.spent_usd, found.spent_tokens, found.eta_seconds, found.total) == (None, None, None, 0)


def test_many_runs_cost_no_more_than_few(experiment: Experiment) -> None:
    def count() -> int:
        with CaptureQueriesContext(connection) as asked:
            progress_of(Experiment.objects.all())
        return len(asked)

    few = count()
    for replicate in range(2, 12):
        episode = make_episode(make_run(experiment, replicate=replicate, status="running"), status="running")
        make_trial(episode)
    for _ in range(5):
        make_trial(make_episode(make_run(make_experiment(status="running"), status="running"), status="running"))
    assert count() == few <= 9


# --- right now ------------------------------------------------------------------------------------------------------


def test_an_attempt_without_a_sign_of_life_is_stuck(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.STUCK_SECONDS = 60
    Attempt.objects.filter(status="running").update(started_at=timezone.now() - timedelta(seconds=300))
    (attempt,) = Attempt.objects.filter(status="running")
    seen: dict[str, live.Seen] = {}
    monkeypatch.setattr(live, "latest_of", lambda attempts: seen)
    (silent,) = at_work()
    assert silent.is_stuck
    assert silent.step is None
    seen[str(attempt.public_id)] = live.Seen(timezone.now() - timedelta(seconds=5), {"step_id": 7})
    (alive,) = at_work()
    assert (alive.is_stuck, alive.step) == (False, {"step_id": 7})
    seen[str(attempt.public_id)] = live.Seen(timezone.now() - timedelta(seconds=61), {"step_id": 7})
    assert at_work()[0].is_stuck


def test_while_the_broker_is_away_nobody_is_called_stuck(
    experiment: Experiment, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.STUCK_SECONDS = 0
    monkeypatch.setattr(live, "latest_of", lambda attempts: None)
    (found,) = at_work()
    assert (found.silent_seconds, found.is_stuck) == (None, False)


def test_who_is_at_work_costs_one_query(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "latest_of", lambda attempts: {})
    with CaptureQueriesContext(connection) as asked:
        for found in at_work():
            assert found.attempt.trial.episode.run.experiment.name
    assert len(asked) == 1


def test_the_workforce_is_unknown_while_the_broker_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    def away() -> Any:
        raise ConnectionError("no broker")

    monkeypatch.setattr(progress.django_rq, "get_connection", away)
    assert workforce() == progress.Workforce(None, None)


def test_a_step_tells_when_the_broker_took_it() -> None:
    assert live.published_at("1772409600000-3") == datetime(2026, 3, 2, tzinfo=UTC)


def test_only_what_stands_is_shown(experiment: Experiment, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "latest_of", lambda attempts: {})
    Experiment.objects.update(deleted_at=timezone.now())
    assert at_work() == []
    assert Run.objects.count() == 1


def test_what_comes_between_trials_counts_in_the_time_left_and_a_pause_does_not() -> None:
    episode = make_episode(make_run(make_experiment(status="running"), status="running"), status="running")
    at = timezone.now()
    for gap in (0, 30, 30, 7_200, 30):
        at += timedelta(seconds=gap)
        Trial.objects.filter(pk=make_trial(episode).pk).update(duration_seconds=5.0, finished_at=at)
    for _ in range(2):
        make_trial(episode, finished=False)
    assert progress_of([episode.run], 1)[episode.run.pk].eta_seconds == 60.0


def test_the_bounds_of_the_time_left_come_from_the_spread_of_the_durations() -> None:
    episode = make_episode(make_run(make_experiment(status="running"), status="running"), status="running")
    for seconds in (60.0, 120.0, 240.0, 480.0, 600.0):
        Trial.objects.filter(pk=make_trial(episode).pk).update(duration_seconds=seconds, finished_at=None)
    for _ in range(10):
        make_trial(episode, finished=False)
    found = progress_of([episode.run], 1)[episode.run.pk]
    assert (found.eta_low_seconds, found.eta_seconds, found.eta_high_seconds) == (1200.0, 2400.0, 4800.0)
    assert found.time_left == ""  # a third is done and the range is wide
    assert replace(found, total=10).time_left == "about 20 min to 1 h 30 min"
    assert replace(found, eta_high_seconds=2000).time_left == "about 20 to 35 min"
    assert replace(found, total=1_000, eta_high_seconds=2000).time_left == ""
    assert replace(found, total=1_000, drops_trials=True).time_left == "at most 1 h 30 min"
    assert WorkProgress().time_left == ""
