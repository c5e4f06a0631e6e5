"""Which sandboxes belong to nobody: what the record knows, what the labels know, and the command that removes them."""

from __future__ import annotations

import subprocess
import sys
import uuid
from dataclasses import replace
from datetime import timedelta
from io import StringIO
from pathlib import Path

import pytest
from django.core.management import CommandError, call_command
from django.utils import timezone

from benchapp.deploy.workers import sweep_at_start
from benchapp.experiments.work.sandbox_sweep import is_dead
from benchapp.models import Attempt
from runner.sandboxes.docker.docker_engine import ATTEMPT_LABEL, OWNER_LABEL, Leftover
from runner.sandboxes.processes import ProcessName, this_process
from tests.docker_images import base_image
from tests.runner.container_trials import MACHINE, container_task, left_behind
from tests.worlds.factories import make_attempt, make_episode, make_trial

pytestmark = pytest.mark.django_db

GONE = str(replace(this_process(), started="1"))
ELSEWHERE = str(ProcessName("another-machine", 4, "5"))


def leftover(attempt: str, owner: str = GONE) -> Leftover:
    return Leftover("container", "c" * 64, {ATTEMPT_LABEL: attempt, OWNER_LABEL: owner})


@pytest.fixture
def attempt() -> Attempt:
    """Running under its episode's current lease."""
    episode = make_episode(lease_owner=ELSEWHERE, lease_until=timezone.now() + timedelta(minutes=1), lease_epoch=3)
    made = make_attempt(make_trial(episode=episode))
    Attempt.objects.filter(pk=made.pk).update(status=Attempt.Status.RUNNING, lease_epoch=3)
    made.refresh_from_db()
    return made


def test_an_attempt_that_somebody_works_on_lives_wherever_its_worker_is(attempt: Attempt) -> None:
    for owner in (GONE, ELSEWHERE, str(this_process()), ""):
        assert not is_dead(leftover(str(attempt.public_id), owner))


def test_an_attempt_of_an_earlier_lease_is_dead(attempt: Attempt) -> None:
    Attempt.objects.filter(pk=attempt.pk).update(lease_epoch=2)
    assert is_dead(leftover(str(attempt.public_id), ELSEWHERE))


def test_an_attempt_whose_lease_ran_out_is_dead(attempt: Attempt) -> None:
    episode = attempt.trial.episode
    type(episode).objects.filter(pk=episode.pk).update(lease_until=timezone.now() - timedelta(seconds=1))
    assert is_dead(leftover(str(attempt.public_id), ELSEWHERE))


def test_an_attempt_that_has_just_ended_may_still_be_putting_its_sandbox_away(attempt: Attempt) -> None:
    ended = Attempt.objects.filter(pk=attempt.pk)
    ended.update(status=Attempt.Status.FINISHED, finished_at=timezone.now())
    assert not is_dead(leftover(str(attempt.public_id), ELSEWHERE))
    assert is_dead(leftover(str(attempt.public_id), GONE))
    ended.update(finished_at=timezone.now() - timedelta(hours=1))
    assert is_dead(leftover(str(attempt.public_id), ELSEWHERE))


@pytest.mark.parametrize("name", ["", "t", str(uuid.UUID(int=7))])
def test_what_the_record_does_not_know_dies_with_its_process(name: str) -> None:
    assert is_dead(leftover(name, GONE))
    assert not is_dead(leftover(name, str(this_process())))
    assert not is_dead(leftover(name, ELSEWHERE))
    assert not is_dead(leftover(name, ""))


OPEN_AND_DIE = """
import os, sys
from pathlib import Path
from runner.sandboxes.docker.docker_sandbox import open_sandbox
from tests.runner.container_trials import container_task
sandbox = open_sandbox(container_task(Path(sys.argv[1])), name=sys.argv[2])
print(sandbox.mark, flush=True)
os._exit(9)
"""


def orphan(folder: Path, attempt: str) -> str:
    """The mark of a sandbox whose process died."""
    command = [sys.executable, "-c", OPEN_AND_DIE, str(folder), attempt]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


@pytest.mark.docker
@pytest.mark.slow
def test_the_command_removes_what_a_crash_left_and_leaves_a_running_attempt(attempt: Attempt, tmp_path: Path) -> None:
    base_image()
    container_task(tmp_path, MACHINE)
    left, running = orphan(tmp_path, ""), orphan(tmp_path, str(attempt.public_id))
    try:
        out = StringIO()
        call_command("sandbox_sweep", "--dry-run", stdout=out)
        assert "would remove container" in out.getvalue()
        assert len(left_behind(left)) == 1
        sweep_at_start()
        assert left_behind(left) == []
        assert len(left_behind(running)) == 1
    finally:
        Attempt.objects.filter(pk=attempt.pk).update(lease_epoch=1)
        call_command("sandbox_sweep", stdout=StringIO())
    assert left_behind(running) == []


def test_the_command_says_that_no_engine_answers(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("DOCKER_HOST", f"unix://{tmp_path}/none.sock")
    with pytest.raises(CommandError, match="no Docker engine answers"):
        call_command("sandbox_sweep")
    sweep_at_start()  # a worker starts all the same
