"""What keeps failing is shown with its trace and stops; what is not the episode's fault does not count against it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from datetime import timedelta
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import django_rq
import pytest
from django.db import OperationalError
from django.utils import timezone

from benchapp.deploy import embedded_broker, workers
from benchapp.experiments.launch import launch
from benchapp.experiments.plans import plan_of, suite_of
from benchapp.experiments.work import advance as jobs
from benchapp.models import Attempt, Episode, Experiment, Suite
from benchapp.record import live
from benchapp.record.writing.recording import RowRecorder
from runner.base.digests import EMPTY_LIBRARY
from runner.base.errors import ImageError, SandboxError
from runner.base.types import Phase, TrialSlot
from runner.engine import engine
from runner.sandboxes import sandbox_kind
from runner.sandboxes.processes import ProcessName, read_start_of_process, this_machine
from tests.benchapp.small_rows import hold

pytestmark = pytest.mark.django_db

FIRST = TrialSlot(Phase.ACQUISITION, "E1-LS1-T1")
SPEC: dict[str, Any] = {
    "name": "One environment",
    "suite": "starter",
    "environments": ["E1"],
    "conditions": ["no-skill"],
    "replicates": 1,
    "agent": "nop",
}


@pytest.fixture
def episode(monkeypatch: pytest.MonkeyPatch) -> Episode:
    monkeypatch.setattr(jobs, "hint", lambda _, **named: True)
    return Episode.objects.get(run__experiment=launch(SPEC))


def fail_with(monkeypatch: pytest.MonkeyPatch, *errors: Exception) -> None:
    left = list(errors)
    true_advance = engine.advance

    def advance(*arguments: Any) -> bool:
        if left:
            raise left.pop(0)
        return true_advance(*arguments)

    monkeypatch.setattr(engine, "advance", advance)


def vanish(episode: Episode) -> None:
    """A worker takes the episode, starts its trial and is gone."""
    Episode.objects.filter(pk=episode.pk).update(lease_until=None)
    recorder = RowRecorder(episode, hold(episode))
    recorder.start_attempt(FIRST, snapshot=EMPTY_LIBRARY, retrieved=())
    Episode.objects.filter(pk=episode.pk).update(lease_until=timezone.now() - timedelta(seconds=1))


def advance(episode: Episode) -> Episode:
    jobs.advance(str(episode.public_id))
    return Episode.objects.get(pk=episode.pk)


def test_every_failure_of_the_machine_leaves_its_trace_until_something_succeeds(
    episode: Episode, monkeypatch: pytest.MonkeyPatch
) -> None:
    fail_with(monkeypatch, SandboxError("no space left"))
    failed = advance(episode)
    assert failed.failures == 1
    assert failed.last_failure.startswith("SandboxError: no space left\n\nTraceback")
    Episode.objects.update(lease_until=None)
    went_on = advance(episode)
    assert (went_on.failures, went_on.last_failure) == (0, "")


def test_workers_that_vanish_again_and_again_at_one_trial_block_the_episode(episode: Episode, settings: Any) -> None:
    settings.INFRASTRUCTURE_RETRIES = 2
    for _ in range(2):  # found by whoever comes next, who vanishes too before it has done anything
        vanish(episode)
        epoch = hold(episode)
        assert jobs.end_interrupted(episode, epoch) == 1
        assert Episode.objects.count_vanished(episode.pk, epoch=epoch, reason="gone") in (1, 2)
    vanish(episode)
    blocked = advance(episode)
    assert (blocked.status, blocked.lease_owner) == ("blocked", "")
    assert blocked.blocked_reason.startswith(
        "The machine failed 3 times in a row, the last time because its worker vanished"
    )
    assert list(Attempt.objects.values_list("status", "counts")) == [("interrupted", False)] * 3
    assert Experiment.objects.get().status == "blocked"


def test_a_worker_that_vanished_once_is_followed_by_one_that_succeeds(episode: Episode) -> None:
    vanish(episode)
    went_on = advance(episode)
    assert (went_on.status, went_on.failures, went_on.last_failure) == ("running", 0, "")
    assert sorted(Attempt.objects.values_list("status", flat=True)) == ["finished", "interrupted"]


def test_an_operator_who_retries_begins_a_new_row_of_failures(episode: Episode, settings: Any) -> None:
    settings.INFRASTRUCTURE_RETRIES = 0
    vanish(episode)
    assert advance(episode).status == "blocked"
    assert Episode.objects.retry(episode.pk)
    assert advance(episode).failures == 0
    assert Attempt.objects.filter(counts=True).count() == 1


def test_how_a_work_horse_ended_is_kept_for_whoever_looks(episode: Episode) -> None:
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    name = ProcessName(this_machine(), child.pid, read_start_of_process(child.pid) or "unknown")
    child.wait()
    vanish(episode)
    Episode.objects.update(lease_owner=str(name))
    jobs.note_killed(str(episode.public_id), "signal SIGKILL")
    told = Episode.objects.get().last_failure
    assert told.endswith("the process that worked on it ended: signal SIGKILL.")
    epoch = hold(episode)
    Episode.objects.count_vanished(episode.pk, epoch=epoch, reason="vanished")
    assert Episode.objects.get().last_failure == told


def test_a_killed_work_horse_s_sandbox_ends_where_it_ran(episode: Episode, monkeypatch: pytest.MonkeyPatch) -> None:
    """Before the episode is given back: whoever takes it over may be on another machine."""
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    gone = str(ProcessName(this_machine(), child.pid, read_start_of_process(child.pid) or "unknown"))
    child.wait()
    recorder = RowRecorder(episode, hold(episode), worker=gone)
    attempt = recorder.start_attempt(FIRST, snapshot=EMPTY_LIBRARY, retrieved=())
    sandbox = sandbox_kind("local").open_sandbox(plan_of(episode, suite_of(episode)).task(FIRST.task), name=attempt)
    recorder.note_sandbox(attempt, sandbox.handle)
    there_when_freed: list[bool] = []
    monkeypatch.setattr(jobs, "reconcile", lambda labels: there_when_freed.append(sandbox.folder.exists()))
    monkeypatch.setattr(workers.Worker, "handle_work_horse_killed", lambda *_: None)
    monkeypatch.setattr(workers.connections, "close_all", lambda: None)
    worker = workers.EpisodeWorker.__new__(workers.EpisodeWorker)
    worker.queues = []
    worker.handle_work_horse_killed(SimpleNamespace(args=[str(episode.public_id)], id="x"), child.pid, 9, None)
    assert there_when_freed == [False]


def test_nothing_is_noted_about_an_episode_that_somebody_else_holds(episode: Episode) -> None:
    hold(episode)
    Episode.objects.update(
        lease_owner=str(ProcessName(this_machine(), os.getpid(), read_start_of_process(os.getpid()) or ""))
    )
    jobs.note_killed(str(episode.public_id), "signal SIGKILL")
    assert Episode.objects.get().last_failure == ""


@pytest.mark.parametrize(
    ("status", "told"), [(9, "signal SIGKILL (perhaps out of memory"), (15, "signal SIGTERM"), (256, "exit code 1")]
)
def test_a_wait_status_is_told_in_words(status: int, told: str) -> None:
    assert workers._render_exit(status).startswith(told)


@pytest.mark.django_db(transaction=True)  # the job closes its connection, and a transaction around it would be lost
def test_a_database_that_goes_away_is_no_failure_of_the_episode(
    episode: Episode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "DATABASE_PAUSES", (0, 0))
    fail_with(monkeypatch, OperationalError("server closed the connection unexpectedly"))
    set_aside = advance(episode)
    assert (set_aside.status, set_aside.failures, set_aside.lease_owner) == ("running", 0, "")
    assert "server closed the connection" in set_aside.last_failure
    assert advance(episode).trials.filter(is_done=True).count() == 1


def test_a_machine_without_the_suites_folder_leaves_the_episode_to_others(episode: Episode, tmp_path: Path) -> None:
    Suite.objects.update(path=str(tmp_path / "elsewhere"))
    left = advance(episode)
    assert (left.status, left.failures, left.lease_owner) == ("running", 0, "")
    assert f"its folder {tmp_path / 'elsewhere'} is not on this machine" in left.last_failure
    assert left.lease_until is not None
    assert 0 < (left.lease_until - timezone.now()).total_seconds() <= jobs.SUITE_PAUSE_SECONDS
    assert not Attempt.objects.exists()


# --- the log of an episode ------------------------------------------------------------------------------------------


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    url = embedded_broker.broker_url(tmp_path / "valkey")
    process = subprocess.Popen(embedded_broker.broker_command(tmp_path / "valkey"), stdout=subprocess.DEVNULL)
    try:
        assert embedded_broker.wait_for(url)
        monkeypatch.setitem(django_rq.settings.QUEUES["default"], "URL", url)
        yield url
    finally:
        process.terminate()
        process.wait(60)


def test_a_line_that_cannot_be_formatted_stops_no_work(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(logging, "raiseExceptions", False)
    told = logging.LogRecord("a.library", logging.INFO, __file__, 1, "%d files", ("many",), None)
    tail = live.Tail("a")
    monkeypatch.setattr(tail, "handleError", (kept := []).append)
    tail.emit(told)
    assert kept == [told]


def test_the_tail_of_an_episodes_log_is_capped_redacted_and_its_own(
    broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PROVIDER_API_KEY", "sk-abcdef0123456789abcdef")
    log = logging.getLogger("benchapp.test")
    with live.keep_tail("a"):
        for number in range(live.MAX_LINES + 50):
            log.warning("line %d", number)
        log.warning("refused: %s", "sk-abcdef0123456789abcdef")
        log.warning("long %s the end", "x" * 5_000)
    with live.keep_tail("b"):
        log.warning("another episode\nin two lines")
    log.warning("nobody's")
    lines = live.read_log("a")
    assert len(lines) == live.MAX_LINES
    assert lines[0].endswith("line 52")
    assert "sk-abc" not in lines[-2]
    assert lines[-1].endswith("x the end")
    assert len(lines[-1]) < live.MAX_LINE + 100
    assert [line.rpartition(" WARNING ")[2] for line in live.read_log("b")] == ["another episode", "in two lines"]


@pytest.mark.parametrize("error", [SandboxError, ImageError])
def test_the_log_of_a_failed_build_is_kept_from_its_end(
    broker: str, episode: Episode, monkeypatch: pytest.MonkeyPatch, settings: Any, error: type[Exception]
) -> None:
    settings.INFRASTRUCTURE_RETRIES = 0
    said = "".join(f"#7 {line} downloading\n" for line in range(5_000)) + "#8 ERROR: no rule to make target 'all'"
    fail_with(monkeypatch, error("E1/Dockerfile: cannot be built " + "x" * 9_000, said))
    advance(episode)
    log = "\n".join(live.read_log(str(episode.public_id)))
    assert "#8 ERROR: no rule to make target 'all'" in log
    assert "#7 0 downloading" not in log
    fail_with(monkeypatch, error("E1/Dockerfile: cannot be built " + "x" * 90_000, said))
    blocked = Episode.objects.get() if error is ImageError else advance_at_once(episode)
    assert blocked.status == "blocked"
    assert "#8 ERROR: no rule to make target 'all'" in blocked.blocked_reason
    assert "in advance" in blocked.blocked_reason, "and where it was raised"


def advance_at_once(episode: Episode) -> Episode:
    Episode.objects.update(lease_until=None)
    return advance(episode)


def test_without_a_broker_work_goes_on_and_the_tail_is_unknown(
    episode: Episode, monkeypatch: pytest.MonkeyPatch
) -> None:
    def away() -> Any:
        raise ConnectionError("no broker")

    monkeypatch.setattr(live.django_rq, "get_connection", away)
    assert advance(episode).trials.filter(is_done=True).count() == 1
    assert live.read_log(str(episode.public_id)) is None
