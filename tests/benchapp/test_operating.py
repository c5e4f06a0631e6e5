"""Retry, skip, cancel: possible where they make sense, and kept with who and why."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command

from benchapp import jobs, operating, recorded
from benchapp.launching import launch
from benchapp.models import Activity, Attempt, Episode, Experiment
from runner.errors import SetupError
from runner.recorder import Skipped
from runner.types import Phase, Slot
from tests.benchapp.small_rows import hold
from tests.factories import make_user

pytestmark = pytest.mark.django_db

FIRST = Slot(Phase.ACQUISITION, "E1-LS1-T1")
SPEC: dict[str, Any] = {
    "name": "One environment",
    "suite": "starter",
    "environments": ["E1"],
    "conditions": ["no-skill"],
    "replicates": 1,
    "agent": "nop",
    "agent_model": "scripted/apprentice",
}


@pytest.fixture
def episode(monkeypatch: pytest.MonkeyPatch) -> Episode:
    monkeypatch.setattr(jobs, "hint", lambda _: True)
    return Episode.objects.get(run__experiment=launch(SPEC))


@pytest.fixture
def blocked(episode: Episode) -> Episode:
    Episode.objects.block(episode.pk, epoch=hold(episode), reason="SandboxError: no space left\n\ntrace")
    episode.run.follow()
    return Episode.objects.select_related("run__experiment", "environment").get()


def test_a_blocked_episode_goes_on_and_the_act_is_kept(blocked: Episode) -> None:
    operator = make_user(username="ada")
    operating.retry(blocked, reason="made room", by=operator)
    assert Experiment.objects.get().status == "waiting"
    act = Activity.objects.get()
    assert (act.verb, act.actor, act.actor_name, act.reason) == ("retry", operator, "ada", "made room")
    assert (act.target_kind, act.target_id) == ("episode", blocked.public_id)
    jobs.advance(str(blocked.public_id))
    assert Attempt.objects.get().counts


def test_a_skipped_acquisition_trial_taints_the_episode(blocked: Episode) -> None:
    assert operating.skip(blocked, reason="its fixture is broken") == FIRST
    blocked.refresh_from_db()
    assert (blocked.is_tainted, blocked.status) == (True, "waiting")
    assert [entry.event for entry in recorded.history(blocked)] == [Skipped(FIRST, "its fixture is broken")]
    skipped = blocked.trials.get(status="skipped")
    assert (skipped.task.key, skipped.success, skipped.is_done) == ("E1-LS1-T1", None, False)
    jobs.advance(str(blocked.public_id))
    assert Attempt.objects.get().trial.task.key == "E1-LS1-T2"


@pytest.mark.parametrize("status", ["waiting", "running", "done", "cancelled"])
def test_only_a_blocked_episode_is_retried_or_skipped(episode: Episode, status: str) -> None:
    Episode.objects.update(status=status)
    with pytest.raises(operating.NotPossible, match="not blocked"):
        operating.retry(episode, reason="x")
    with pytest.raises(operating.NotPossible, match="not blocked"):
        operating.skip(episode, reason="x")
    assert not Activity.objects.exists()
    assert recorded.history(episode) == ()


def test_a_skip_needs_a_reason(blocked: Episode) -> None:
    with pytest.raises(operating.NotPossible, match="reason"):
        operating.skip(blocked, reason=" ")


def test_a_skip_is_for_the_trial_that_was_looked_at(blocked: Episode) -> None:
    """Somebody else retried it meanwhile; it went on and blocked again, elsewhere."""
    operating.retry(Episode.objects.get(), reason="made room")
    Episode.objects.block(blocked.pk, epoch=hold(blocked), reason="SandboxError: no space left, again")
    with pytest.raises(operating.NotPossible, match="went on since"):
        operating.skip(blocked, reason="its fixture is broken")
    assert not blocked.trials.filter(status="skipped").exists()


def test_an_episode_without_a_readable_file_is_refused_and_no_crash(blocked: Episode) -> None:
    Experiment.objects.update(spec={})
    with pytest.raises(SetupError, match="suite: expected, and not there"):
        operating.skip(Episode.objects.get(), reason="x")


def test_a_cancelled_experiment_is_not_worked_on_and_keeps_what_it_has(episode: Episode) -> None:
    jobs.advance(str(episode.public_id))
    assert operating.cancel(Experiment.objects.get(), reason="enough") == 1
    jobs.advance(str(episode.public_id))
    assert Attempt.objects.count() == 1
    assert Experiment.objects.get().status == "cancelled"


def test_the_command_lists_what_waits_and_lets_it_go_on(blocked: Episode) -> None:
    out = StringIO()
    call_command("episodes", stdout=out)
    assert f"{blocked.public_id}  blocked  One environment / no-skill · rep 1 / E1" in out.getvalue()
    assert "SandboxError: no space left" in out.getvalue()
    call_command("episodes", "--skip", str(blocked.public_id), "--reason", "broken", stdout=out)
    assert "left out acquisition/E1-LS1-T1/0" in out.getvalue()
    with pytest.raises(CommandError, match="not blocked"):
        call_command("episodes", "--retry", str(blocked.public_id))
