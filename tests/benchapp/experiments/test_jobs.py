"""Hints may be lost, doubled or late; the record decides."""

from __future__ import annotations

import errno
import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import django_rq
import pytest
from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone
from rq import SimpleWorker

from benchapp.deploy import embedded_broker
from benchapp.experiments import launch as launching
from benchapp.experiments.launch import launch
from benchapp.experiments.launch_spec import Unlaunchable
from benchapp.experiments.preparation import Prepared, prepare
from benchapp.experiments.work import advance as jobs
from benchapp.experiments.work import operations
from benchapp.experiments.work.budgets import REASON, raise_budget
from benchapp.experiments.work.worker_labels import labels_of, queue_for, queues_of
from benchapp.models import Attempt, Episode, Experiment, ModelCall, Run, Trial
from benchapp.models.experiments import Progress
from benchapp.record import live
from benchapp.record.writing.recording import RowRecorder
from runner import suites
from runner.base.errors import BudgetSpent, LeaseLost, ModelRefused, ModelUnavailable, SandboxError, SetupError
from runner.base.types import ModelRequest, Phase, Source, Step, TrialSlot
from runner.engine import engine
from runner.engine.toolbox import toolbox_for
from runner.protocols.recorder import TrialDone
from runner.sandboxes import sandbox_kind
from runner.sandboxes.processes import ProcessName, read_start_of_process, this_machine
from tests.benchapp.small_rows import hold

pytestmark = pytest.mark.django_db

SPEC: dict[str, Any] = {
    "name": "One environment",
    "suite": "starter",
    "environments": ["E1"],
    "conditions": ["no-skill"],
    "replicates": 1,
    "agent": "nop",
    "agent_model": "scripted/apprentice",
    "author_model": "scripted/apprentice",
}


@pytest.fixture
def queued(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Hints go into this list instead of a broker."""
    hints: list[str] = []
    monkeypatch.setattr(jobs, "put_hint", lambda episode, needs, **named: hints.append(episode) or True)
    monkeypatch.setattr(jobs.slices, "list_hinted", lambda _, **named: set(hints))
    return hints


@pytest.fixture
def episode(queued: list[str], django_capture_on_commit_callbacks: Callable) -> Episode:
    with django_capture_on_commit_callbacks(execute=True):
        experiment = launch(SPEC)
    return Episode.objects.get(run__experiment=experiment)


def failing(monkeypatch: pytest.MonkeyPatch, error: Exception) -> None:
    def advance(*_: object) -> bool:
        raise error

    monkeypatch.setattr(engine, "advance", advance)


def test_a_budget_that_was_raised_before_the_run_blocked_is_not_overlooked(
    episode: Episode, queued: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The call is refused, an operator raises the budget, and only then the worker comes to block the run."""
    Run.objects.update(budget_tokens=10)

    def advance(*_: object) -> bool:
        raise_budget(Run.objects.get(), tokens=1_000)
        raise BudgetSpent(f"{REASON} Run x has used 10 of 10 tokens.")

    monkeypatch.setattr(engine, "advance", advance)
    queued.clear()
    jobs.advance(str(episode.public_id))
    episode.refresh_from_db()
    assert (episode.status, episode.blocked_reason, queued) == ("waiting", "", [str(episode.public_id)])
    failing(monkeypatch, BudgetSpent(f"{REASON} Run x has used 1,000 of 1,000 tokens."))
    jobs.advance(str(episode.public_id))
    episode.refresh_from_db()
    assert (episode.status, episode.blocked_reason.partition(" ")[0]) == ("blocked", "Budget")


@pytest.mark.parametrize("budget", [{}, {"budget_tokens": 10}, {"budget_usd": 0.5}])
def test_the_runner_is_told_whether_a_budget_counts_on_what_is_used(
    budget: dict[str, Any], episode: Episode, monkeypatch: pytest.MonkeyPatch
) -> None:
    Run.objects.update(**budget)
    told: list[bool] = []
    monkeypatch.setattr(engine, "advance", lambda plan, recorder, toolbox: told.append(toolbox.has_budget) or False)
    jobs.advance(str(episode.public_id))
    assert told == [bool(budget)]


# --- launching ------------------------------------------------------------------------------------------------------


def test_a_launch_plans_every_trial_and_hints_at_every_episode(episode: Episode, queued: list[str]) -> None:
    assert queued == [str(episode.public_id)]
    assert set(episode.trials.values_list("phase", "task__role", "status", "is_done")) == {
        (phase, role, "waiting", False)
        for phase, roles in (
            ("acquisition", ("canonical", "enriched", "variant")),
            ("deployment", ("context-shift", "adversarial", "composition")),
        )
        for role in roles
    }
    assert episode.trials.count() == 12
    assert all(trial.task_revision.digest and trial.task_revision.instruction for trial in episode.trials.all())


def test_conditions_of_one_experiment_share_their_setup_and_seeds(queued: list[str]) -> None:
    experiment = launch({**SPEC, "conditions": ["no-skill", "selfgen-always"], "replicates": 2, "seed": 5})
    runs = experiment.runs.order_by("condition", "replicate")
    assert [(run.condition, run.replicate, run.seed) for run in runs] == [
        ("no-skill", 1, 5), ("no-skill", 2, 6), ("selfgen-always", 1, 5), ("selfgen-always", 2, 6),
    ]  # fmt: skip
    assert len({run.setup_digest for run in runs}) == 1
    assert {run.author_model for run in runs.filter(condition="no-skill")} == {""}
    assert all(run.scripted for run in runs)


def test_a_key_is_launched_once(queued: list[str]) -> None:
    first, second = launch({**SPEC, "key": "demo"}), launch({**SPEC, "key": "demo", "seed": 0})  # as by default
    assert first == second
    assert Run.objects.count() == 1


def test_a_key_that_was_launched_with_another_file_launches_nothing_and_names_what_differs(queued: list[str]) -> None:
    launch({**SPEC, "key": "demo"})
    with pytest.raises(Unlaunchable, match=r"key: 'demo' was launched with another limits\.max_turns, seed \(expected"):
        launch({**SPEC, "key": "demo", "seed": 99, "limits": {"max_turns": 9}})
    assert Run.objects.count() == 1


def test_a_key_stands_when_the_file_has_learned_new_fields(queued: list[str]) -> None:
    first = launch({**SPEC, "key": "demo"})
    older = {name: value for name, value in first.spec.items() if name not in ("record", "limits")}
    Experiment.objects.update(spec=older)
    assert launch({**SPEC, "key": "demo"}) == first


def test_a_key_that_is_launched_twice_at_the_same_moment_is_one_experiment(
    queued: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    value, others = {**SPEC, "key": "demo"}, []

    def prepare_slowly(*arguments: Any, **options: Any) -> Prepared:
        if not others:
            others.append(None)
            others.append(launch(value))
        return prepare(*arguments, **options)

    monkeypatch.setattr(launching, "prepare", prepare_slowly)
    assert launch(value) == others[1]
    assert Experiment.objects.count() == 1


def test_the_key_of_a_deleted_experiment_launches_nothing_and_says_so(queued: list[str]) -> None:
    launch({**SPEC, "key": "demo"})
    Experiment.objects.update(deleted_at=timezone.now())
    with pytest.raises(Unlaunchable, match="key: the experiment launched as 'demo' was deleted"):
        launch({**SPEC, "key": "demo"})


@pytest.mark.parametrize(
    ("change", "told"),
    [
        ({"conditions": ["no-skills"]}, "unknown condition 'no-skills'"),
        ({"conditions": []}, "conditions"),
        ({"suite": "other"}, "unknown suite 'other'"),
        ({"environments": ["E9"]}, "no environment 'E9'"),
        ({"agent": "hand"}, "unknown agent 'hand'"),
        ({"agent_model": "nobody/x"}, "unknown model provider 'nobody'"),
        ({"conditions": ["selfgen-always"], "author_model": None}, "author model"),
        ({"replicates": 0}, "replicates"),
        ({"sample": 2}, "sample"),
    ],
)
def test_what_cannot_run_is_told_before_anything_is_written(
    queued: list[str], change: dict[str, object], told: str
) -> None:
    with pytest.raises(SetupError, match=told):
        launch({**SPEC, **change})
    assert not Experiment.objects.exists()


# --- advancing ------------------------------------------------------------------------------------------------------


def test_one_job_is_one_trial_and_leads_to_the_next(episode: Episode, queued: list[str]) -> None:
    queued.clear()
    jobs.advance(str(episode.public_id))
    episode.refresh_from_db()
    assert episode.trials.filter(is_done=True).count() == 1
    assert (episode.lease_owner, episode.lease_until, episode.status) == ("", None, "running")
    assert queued == [str(episode.public_id)]
    run = Run.objects.get()
    assert (run.status, run.experiment.status) == ("running", "running")
    assert run.experiment.started_at is not None


@pytest.mark.slow
def test_the_last_job_ends_episode_run_and_experiment(episode: Episode, queued: list[str]) -> None:
    while queued:
        jobs.advance(queued.pop())
    experiment = Experiment.objects.get()
    assert (experiment.status, experiment.runs.get().status) == ("done", "done")
    assert experiment.finished_at is not None
    assert experiment.runs.get().episodes.get().status == "done"
    assert episode.trials.filter(is_done=True, status="failed").count() == 12  # nop solves nothing
    assert episode.entries.count() == 13  # and a freeze
    jobs.advance(str(episode.public_id))  # a late hint
    assert Attempt.objects.count() == 12


def test_a_second_hint_for_a_held_episode_does_nothing(episode: Episode) -> None:
    hold(episode)
    jobs.advance(str(episode.public_id))
    assert not Attempt.objects.exists()


def test_a_hint_for_a_deleted_experiment_does_nothing(episode: Episode) -> None:
    Experiment.objects.update(deleted_at=timezone.now())
    jobs.advance(str(episode.public_id))
    assert not Attempt.objects.exists()


def test_a_machine_failure_is_tried_again_later(
    episode: Episode, queued: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    queued.clear()
    failing(monkeypatch, ModelUnavailable("rate limit", retry_after_seconds=40))
    jobs.advance(str(episode.public_id))
    episode.refresh_from_db()
    assert (episode.failures, episode.status, queued) == (1, "running", [])
    assert jobs.reconcile() == 0
    wait = (episode.lease_until - timezone.now()).total_seconds()
    assert 35 < wait <= 40 * jobs.LONGER


def test_a_full_disk_of_the_worker_is_a_failure_of_its_machine(
    episode: Episode, queued: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/var/skillglass/new"))
    jobs.advance(str(episode.public_id))
    episode.refresh_from_db()
    assert (episode.failures, episode.status) == (1, "running")
    assert "/var/skillglass/new: No space left on device" in episode.last_failure


def test_episodes_that_failed_together_do_not_come_back_together(
    queued: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    experiment = launch({**SPEC, "replicates": 6})
    failing(monkeypatch, ModelUnavailable("rate limit", retry_after_seconds=1_000))
    for waiting in Episode.objects.filter(run__experiment=experiment):
        jobs.advance(str(waiting.public_id))
    until = sorted(Episode.objects.values_list("lease_until", flat=True))
    assert (until[-1] - until[0]).total_seconds() > 20
    assert (until[0] - timezone.now()).total_seconds() > 900


def test_a_machine_that_keeps_failing_blocks_the_episode(
    episode: Episode, monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.INFRASTRUCTURE_RETRIES = 2
    failing(monkeypatch, SandboxError("no space left"))
    for _ in range(4):
        assert Episode.objects.get().status in ("waiting", "running")
        Episode.objects.update(lease_until=None)
        jobs.advance(str(episode.public_id))
    episode.refresh_from_db()
    assert episode.status == "blocked"
    assert episode.blocked_reason.startswith("The machine failed 4 times in a row. SandboxError: no space left")
    assert Experiment.objects.get().status == "blocked"
    assert episode.trials.filter(status="blocked").count() == 1, "with the next one it was the machine"


def test_a_machine_that_keeps_failing_blocks_at_once_where_trials_depend_on_one_another(
    queued: list[str], monkeypatch: pytest.MonkeyPatch, settings: Any
) -> None:
    settings.INFRASTRUCTURE_RETRIES = 0
    launch({**SPEC, "conditions": ["raw-trajectory"]})
    failing(monkeypatch, SandboxError("no space left"))
    jobs.advance(str(Episode.objects.get().public_id))
    assert Episode.objects.get().status == "blocked"
    assert not Trial.objects.filter(status="blocked").exists()


def test_progress_ends_a_row_of_failures(episode: Episode) -> None:
    Episode.objects.update(failures=4)
    jobs.advance(str(episode.public_id))
    episode.refresh_from_db()
    assert episode.failures == 0


@pytest.mark.parametrize(
    ("error", "told"),
    [(ModelRefused("invalid key"), "invalid key"), (ZeroDivisionError("ours"), "ZeroDivisionError: ours")],
    ids=["of a model", "of ours"],
)
def test_any_other_error_blocks_with_its_trace(
    episode: Episode, queued: list[str], monkeypatch: pytest.MonkeyPatch, error: Exception, told: str
) -> None:
    queued.clear()
    failing(monkeypatch, error)
    jobs.advance(str(episode.public_id))
    episode.refresh_from_db()
    assert (episode.status, episode.lease_owner, queued) == ("blocked", "", [])
    assert episode.blocked_reason.startswith(told)
    assert "in advance" in episode.blocked_reason


def test_the_reason_of_a_block_holds_no_key_and_can_be_stored(
    episode: Episode, monkeypatch: pytest.MonkeyPatch
) -> None:
    failing(monkeypatch, ModelRefused("wrong key \0 sk-abcdef0123456789abcdef"))
    jobs.advance(str(episode.public_id))
    episode.refresh_from_db()
    assert episode.blocked_reason.startswith("wrong key \u2400 [redacted:api-key]")
    assert "sk-abcdef" not in episode.blocked_reason


def test_a_changed_setup_blocks_and_names_what_changed(episode: Episode) -> None:
    run = Run.objects.get()
    run.setup["suite"]["digest"] = "another"
    Run.objects.update(setup=run.setup, setup_digest="0" * 64)
    jobs.advance(str(episode.public_id))
    episode.refresh_from_db()
    assert "the setup changed since the launch: suite.digest" in episode.blocked_reason
    assert not Attempt.objects.exists()


def test_whoever_lost_the_lease_says_nothing_more(
    episode: Episode, queued: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    queued.clear()
    failing(monkeypatch, LeaseLost("taken over"))
    jobs.advance(str(episode.public_id))
    episode.refresh_from_db()
    assert (episode.status, episode.failures, queued) == ("running", 0, [])


def test_a_model_that_is_away_is_not_waited_for_once_the_lease_is_lost(
    episode: Episode, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A cancel takes the lease away; the wait may have minutes to go."""
    waits: list[Any] = []
    monkeypatch.setattr(jobs, "toolbox_for", lambda *given: waits.append(given[-1]) or toolbox_for(*given))
    told: list[str] = []

    def advance(plan: object, recorder: RowRecorder, toolbox: object) -> bool:
        (lease,) = (each for each in recorder._watch.__closure__ if hasattr(each.cell_contents, "lost"))
        lease.cell_contents.lost.set()
        try:
            waits[0](86_400.0)
        except LeaseLost as error:
            told.append(str(error))
            raise
        return True

    monkeypatch.setattr(jobs.engine, "advance", advance)
    jobs.advance(str(episode.public_id))
    assert len(told) == 1
    assert "while it waited for its model" in told[0]


def test_a_live_step_stops_work_whose_lease_is_lost(episode: Episode, monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[bool] = []

    def advance(plan: object, recorder: RowRecorder, toolbox: object) -> bool:
        Episode.objects.filter(pk=episode.pk).update(lease_epoch=99)
        lease_of(recorder).lost.set()
        recorder.live_step("attempt", Step(1, Source.AGENT, "still here"))
        told.append(True)
        return True

    def lease_of(recorder: RowRecorder) -> Any:
        return next(cell.cell_contents for cell in recorder._watch.__closure__ if hasattr(cell.cell_contents, "lost"))

    monkeypatch.setattr(engine, "advance", advance)
    jobs.advance(str(episode.public_id))
    assert told == []


# --- taking over ----------------------------------------------------------------------------------------------------


def test_whoever_takes_over_ends_the_old_attempt_and_its_processes(episode: Episode, tmp_path: Path) -> None:
    former = RowRecorder(episode, hold(episode))
    attempt = former.start_attempt(first_slot(episode), snapshot=empty(), retrieved=())
    former.start_call("open", purpose="author", model="scripted/x", request=ModelRequest(messages=()))
    sandbox = sandbox_kind("local").open_sandbox(task_stub(), name="left")
    former.note_sandbox(attempt, sandbox.handle)
    sandbox.execute("sleep 300 & echo $! > left.pid", timeout_seconds=10)
    pid = int((sandbox.folder / "workspace" / "left.pid").read_text())
    assert read_start_of_process(pid) is not None
    Episode.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    jobs.advance(str(episode.public_id))
    old, new = Attempt.objects.order_by("number")
    assert (old.status, old.counts, new.status, new.counts) == ("interrupted", False, "finished", True)
    assert read_start_of_process(pid) is None
    assert not sandbox.folder.exists()
    assert ModelCall.objects.get().status == "failed"
    entries = RowRecorder(episode, 0).history()
    assert [entry.sequence for entry in entries] == [1]
    assert isinstance(entries[0].event, TrialDone)


def first_slot(episode: Episode) -> TrialSlot:
    return TrialSlot(Phase.ACQUISITION, episode.trials.filter(phase="acquisition").order_by("task__key")[0].task.key)


def empty() -> str:
    from runner.base.digests import EMPTY_LIBRARY

    return EMPTY_LIBRARY


def task_stub() -> Any:
    from runner.suites import load_suite

    return load_suite("starter").environments[0].families[0].tasks[0]


# --- reconciling ----------------------------------------------------------------------------------------------------


def test_a_free_episode_without_a_hint_gets_one(episode: Episode, queued: list[str]) -> None:
    queued.clear()  # the broker was restarted
    assert (jobs.reconcile(), jobs.reconcile()) == (1, 0)
    assert queued == [str(episode.public_id)]


def test_a_lease_that_ran_out_counts_as_free(episode: Episode, queued: list[str]) -> None:
    queued.clear()
    hold(episode)
    assert jobs.reconcile() == 0
    Episode.objects.update(lease_until=timezone.now() - timedelta(seconds=1))
    assert jobs.reconcile() == 1


def test_the_lease_of_a_dead_process_is_freed_at_once(episode: Episode, queued: list[str]) -> None:
    queued.clear()
    child = subprocess.Popen([sys.executable, "-c", "pass"])
    name = ProcessName(this_machine(), child.pid, read_start_of_process(child.pid) or "unknown")
    child.wait()
    hold(episode)
    Episode.objects.update(lease_owner=str(name))
    assert jobs.reconcile() == 1
    episode.refresh_from_db()
    assert (episode.lease_owner, episode.lease_until) == ("", None)


def test_a_run_ends_though_its_last_worker_was_killed_before_it_said_so(episode: Episode) -> None:
    """Between the end of the episode and that of its run: nobody is given a hint for an episode that is done."""
    Episode.objects.finish(episode.pk, epoch=hold(episode))
    Run.objects.update(status="running")
    Experiment.objects.update(status="running")
    assert jobs.reconcile() == 0
    assert (Run.objects.get().status, Experiment.objects.get().status) == ("done", "done")


@pytest.mark.parametrize("change", [{"origin": "imported"}, {"deleted_at": timezone.now()}])
def test_what_is_not_ours_to_run_gets_no_hint(episode: Episode, queued: list[str], change: dict[str, Any]) -> None:
    queued.clear()
    Experiment.objects.update(**change)
    assert jobs.reconcile() == 0


def test_a_whole_is_open_while_a_part_is_and_then_as_bad_as_its_worst() -> None:
    assert Progress.of_parts(["waiting", "waiting"]) == "waiting"
    assert Progress.of_parts(["waiting", "done"]) == "running"
    assert Progress.of_parts(["blocked", "running"]) == "running"
    assert Progress.of_parts(["blocked", "cancelled", "done"]) == "blocked"
    assert Progress.of_parts(["cancelled", "done"]) == "cancelled"
    assert Progress.of_parts(["done"]) == "done"


# --- with a broker --------------------------------------------------------------------------------------------------


@pytest.fixture
def broker(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    url = embedded_broker.broker_url(tmp_path / "valkey")
    process = subprocess.Popen(embedded_broker.broker_command(tmp_path / "valkey"), stdout=subprocess.DEVNULL)
    try:
        assert embedded_broker.wait_for(url)
        monkeypatch.setitem(django_rq.settings.QUEUES["default"], "URL", url)
        monkeypatch.setattr(live, "_silent_until", 0.0)
        yield url
    finally:
        process.terminate()
        process.wait(60)


def test_hints_go_through_the_broker_and_are_seen_there(broker: str) -> None:
    episode = Episode.objects.get(run__experiment=launch(SPEC))
    assert jobs.reconcile() == 1
    assert jobs.reconcile() == 0
    assert jobs.slices.list_hinted(jobs.HINT) == {str(episode.public_id)}
    django_rq.get_queue().empty()
    assert jobs.reconcile() == 1


def test_a_queue_that_is_long_enough_is_left_alone_and_filled_again_later(
    broker: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(jobs, "ENOUGH_HINTS", 3)
    launch({**SPEC, "replicates": 8})
    assert jobs.reconcile() == 3
    with CaptureQueriesContext(connection) as captured:
        assert jobs.reconcile() == 0
    assert not any('"replicate"' in query["sql"].partition("ORDER BY")[2] for query in captured)
    first = jobs.slices.list_hinted(jobs.HINT)
    django_rq.get_queue().get_jobs()[0].delete()
    assert jobs.reconcile() == 3
    assert len(jobs.slices.list_hinted(jobs.HINT)) == 5
    assert first <= jobs.slices.list_hinted(jobs.HINT), "what was taken away comes first"


@pytest.mark.parametrize("order", ["interleaved", "one-by-one"])
def test_doubled_hints_end_with_the_next_trial(broker: str, order: str) -> None:
    experiment = launch({**SPEC, "order": order, "replicates": 2})
    one, other = Episode.objects.filter(run__experiment=experiment)
    for episode in (one, other, one, one):
        assert jobs.hint(episode)
    first, second = str(one.public_id), str(other.public_id)
    jobs.advance(first)  # whichever of them a worker takes
    queue = django_rq.get_queue()
    waiting = [job.partition("_")[2].rpartition("_")[0] for job in queue.get_job_ids()]
    assert waiting == ([second, first] if order == "interleaved" else [first, second])
    assert len(queue.connection.keys("rq:job:*")) == 2, "a hint that is dropped leaves nothing behind"


def test_what_needs_labels_waits_for_a_worker_that_has_them(broker: str) -> None:
    plain = Episode.objects.get(run__experiment=launch(SPEC))
    wanting = Episode.objects.get(run__experiment=launch({**SPEC, "name": "On a GPU", "worker_labels": ["gpu"]}))
    both = frozenset({"gpu", "region=eu"})
    assert jobs.reconcile() == 1, "a worker without labels leaves the other episode alone"
    assert jobs.reconcile(both) == 1
    assert (jobs.reconcile(), jobs.reconcile(both)) == (0, 0)
    assert jobs.slices.list_hinted(jobs.HINT) == {str(plain.public_id)}
    names = [queue.name for queue in queues_of(both)]
    assert names == ["default:gpu:region=eu", "default:gpu", "default:region=eu", "default"]
    assert labels_of(names) == both
    [hinted] = queue_for({"gpu"}).get_job_ids()
    assert str(wanting.public_id) in hinted

    Episode.objects.filter(pk=plain.pk).update(status="done")
    assert not jobs.is_any_waiting()
    assert jobs.is_any_waiting(both)


def test_every_hint_goes_to_the_queue_of_its_labels_at_once(
    broker: str, django_capture_on_commit_callbacks: Callable
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        experiment = launch({**SPEC, "replicates": 2, "worker_labels": ["gpu"]})
    assert (django_rq.get_queue().count, queue_for({"gpu"}).count) == (0, 2), "launched"
    with django_capture_on_commit_callbacks(execute=True):
        operations.pause(experiment, reason="")
        operations.resume(experiment, reason="")
    assert (django_rq.get_queue().count, queue_for({"gpu"}).count) == (0, 4), "resumed"
    episodes = Episode.objects.filter(run__experiment=experiment)
    with CaptureQueriesContext(connection) as captured:
        for episode in episodes.prefetch_related("run__experiment"):
            jobs.hint(episode)
    assert len(captured) == 3, "for any number of episodes"
    assert (django_rq.get_queue().count, queue_for({"gpu"}).count) == (0, 6)


def test_a_hint_in_the_wrong_queue_is_moved_to_the_right_one(broker: str) -> None:
    episode = Episode.objects.get(run__experiment=launch({**SPEC, "worker_labels": ["gpu"]}))
    jobs.put_hint(str(episode.public_id), frozenset())
    at = django_rq.get_connection()
    SimpleWorker(queues_of([]), connection=at).work(burst=True)
    episode.refresh_from_db()
    assert (episode.status, episode.lease_epoch) == ("waiting", 0)
    assert queue_for({"gpu"}).count == 1
    SimpleWorker(queues_of(["gpu"]), connection=at).work(burst=True)
    episode.refresh_from_db()
    assert episode.status == "done"
    assert (django_rq.get_queue().count, queue_for({"gpu"}).count) == (0, 0)


def test_a_task_names_labels_that_a_worker_must_have(tmp_path: Path) -> None:
    suite = Path(shutil.copytree(Path(suites.__file__).parent / "starter", tmp_path / "labelled"))
    file = min(suite.rglob("task.toml"))
    text = file.read_text()
    file.write_text(text.replace("[metadata]", '[metadata]\nworker_labels = ["gpu"]'))
    call_command("load_suite", str(suite), "--key", "labelled", stdout=StringIO())
    wanted = {
        **SPEC,
        "key": "labelled",
        "suite": "labelled",
        "environments": [],
        "sandbox": "docker",
        "worker_labels": ["region=eu"],
    }
    experiment = launch(wanted)
    assert experiment.spec["worker_labels"] == ["gpu", "region=eu"]
    assert launch(wanted) == experiment, "the same file, launched again"

    file.write_text(text.replace("[metadata]", '[metadata]\nworker_labels = ["GPU"]'))
    with pytest.raises(Unlaunchable, match="worker_labels: with those that the tasks need: 'GPU': expected lower-case"):
        prepare(wanted)


@pytest.mark.parametrize("labels", [["GPU"], ["a b"], ["a:b"], ["a,b"], list("abcdef")])
def test_labels_that_name_no_queue_are_refused(labels: list[str]) -> None:
    with pytest.raises(Unlaunchable, match="worker_labels"):
        prepare({**SPEC, "worker_labels": labels})


def test_a_trial_does_not_read_the_whole_queue(broker: str, monkeypatch: pytest.MonkeyPatch) -> None:
    hinted = Episode.objects.get(run__experiment=launch(SPEC))
    episode = str(hinted.public_id)
    for _ in range(3):
        jobs.hint(hinted)

    def refuse(*_: object) -> list[str]:
        pytest.fail("it may hold ten thousand hints")

    with monkeypatch.context() as patched:
        patched.setattr(django_rq.queues.DjangoRQ, "get_job_ids", refuse)
        jobs.advance(episode)
    assert jobs.slices.list_hinted(jobs.HINT) == {episode}
    assert django_rq.get_queue().count == 1
    assert len(django_rq.get_connection().keys("skillglass:hints:*")) == 1


def test_live_steps_are_capped_and_shortened(broker: str) -> None:
    for number in range(1, 1_200):
        live.publish("a", Step(number, Source.AGENT, "x" * (10_000 if number == 1_199 else 1)))
    steps = live.read("a", count=5_000)
    assert live.MAX_STEPS <= len(steps) < live.MAX_STEPS + 200
    assert steps[-1][1]["step_id"] == 1_199
    assert steps[-1][1]["message"].endswith("[... 6,000 characters]")
    assert live.read("a", after=steps[-2][0]) == steps[-1:]


def test_a_broker_that_is_away_fails_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(live, "_silent_until", 0.0)
    assert jobs.hint(Episode(run=Run(experiment=Experiment()))) is False
    began = time.monotonic()
    for number in range(1, 50):
        live.publish("a", Step(number, Source.AGENT, "text"))
    assert live.read("a") == []
    assert time.monotonic() - began < 30  # and not 49 times the time a connection may take


def test_a_launch_without_a_broker_is_recorded_and_waits(django_capture_on_commit_callbacks: Callable) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        experiment = launch(SPEC)
    assert experiment.status == "waiting"
    assert Trial.objects.filter(status="waiting").count() == 12
