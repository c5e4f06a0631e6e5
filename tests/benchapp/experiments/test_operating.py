"""Retry, skip, cancel: possible where they make sense, and kept with who and why."""

from __future__ import annotations

from io import StringIO
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext

from benchapp.audit import findings
from benchapp.audit.record_check import Flaw
from benchapp.experiments.forks import fork
from benchapp.experiments.launch import launch
from benchapp.experiments.plans import plan_of, suite_of
from benchapp.experiments.work import advance, operations
from benchapp.models import Activity, Attempt, Decision, Episode, Experiment, ModelCall
from benchapp.record import live, recorded
from benchapp.record.writing.human_acts import NotPossible
from benchapp.record.writing.recording import RowRecorder
from demo.scripted import Scripted
from runner.base.digests import EMPTY_LIBRARY
from runner.base.errors import ImageError, LeaseLost, ModelRefused, SetupError
from runner.base.types import ModelReply, ModelRequest, Phase, Task, TrialSlot
from runner.protocols.audit import audit
from runner.protocols.recorder import Entry, Frozen, Skipped
from runner.sandboxes import local
from tests.benchapp.small_rows import hold
from tests.worlds.factories import make_user

pytestmark = pytest.mark.django_db

FIRST = TrialSlot(Phase.ACQUISITION, "E1-LS1-T1")
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
    monkeypatch.setattr(advance, "hint", lambda _, **named: True)
    return Episode.objects.get(run__experiment=launch(SPEC))


@pytest.fixture
def blocked(episode: Episode) -> Episode:
    Episode.objects.block(episode.pk, epoch=hold(episode), reason="SandboxError: no space left\n\ntrace")
    episode.run.follow()
    return Episode.objects.select_related("run__experiment", "environment").get()


def test_a_blocked_episode_goes_on_and_the_act_is_kept(blocked: Episode) -> None:
    operator = make_user(username="ada")
    operations.retry(blocked, reason="made room", by=operator)
    assert Experiment.objects.get().status == "waiting"
    act = Activity.objects.exclude(verb="launch").get()
    assert (act.verb, act.actor, act.actor_name, act.reason) == ("retry", operator, "ada", "made room")
    assert (act.target_kind, act.target_id) == ("episode", blocked.public_id)
    advance.advance(str(blocked.public_id))
    assert Attempt.objects.get().counts


def test_a_skipped_acquisition_trial_taints_the_episode(blocked: Episode) -> None:
    assert operations.skip(blocked, reason="its fixture is broken") == FIRST
    blocked.refresh_from_db()
    assert (blocked.is_tainted, blocked.status) == (True, "waiting")
    assert [entry.event for entry in recorded.read_history(blocked)] == [Skipped(FIRST, "its fixture is broken")]
    skipped = blocked.trials.get(status="skipped")
    assert (skipped.task.key, skipped.success, skipped.is_done) == ("E1-LS1-T1", None, False)
    advance.advance(str(blocked.public_id))
    assert Attempt.objects.get().trial.task.key == "E1-LS1-T2"


@pytest.mark.parametrize("status", ["waiting", "running", "done", "cancelled"])
def test_only_a_blocked_episode_is_retried(episode: Episode, status: str) -> None:
    Episode.objects.update(status=status)
    with pytest.raises(NotPossible, match="not blocked"):
        operations.retry(episode, reason="x")
    assert not Activity.objects.exclude(verb="launch").exists()


@pytest.mark.parametrize("status", ["done", "cancelled"])
def test_an_episode_that_has_ended_is_not_skipped_in(episode: Episode, status: str) -> None:
    Episode.objects.update(status=status)
    with pytest.raises(NotPossible, match=f"is {status}"):
        operations.skip(episode, reason="x")
    assert not Activity.objects.exclude(verb="launch").exists()
    assert recorded.read_history(episode) == ()


def test_a_trial_that_failed_once_is_skipped_without_waiting_for_the_other_tries(episode: Episode) -> None:
    Episode.objects.postpone(episode.pk, epoch=hold(episode), seconds=3_600, reason="SandboxError: no such image")
    assert operations.skip(Episode.objects.get(), reason="its image does not exist") == FIRST
    went_on = Episode.objects.get()
    assert (went_on.is_tainted, went_on.failures, went_on.last_failure, went_on.lease_until) == (True, 0, "", None)
    advance.advance(str(episode.public_id))
    assert Attempt.objects.get().trial.task.key == "E1-LS1-T2"


def test_a_trial_is_skipped_before_its_turn_while_another_is_at_work(episode: Episode) -> None:
    recorder = RowRecorder(episode, hold(episode))
    recorder.start_attempt(FIRST, snapshot=EMPTY_LIBRARY, retrieved=())
    epoch = Episode.objects.get().lease_epoch
    second = TrialSlot(Phase.ACQUISITION, "E1-LS1-T2")
    assert operations.skip(Episode.objects.get(), trial=second, reason="its image does not exist") == second
    held = Episode.objects.get()
    assert (held.lease_epoch, held.status, held.is_tainted) == (epoch, "running", True)
    with pytest.raises(LeaseLost, match="was skipped"):  # whoever looked before the skip
        recorder.start_attempt(second, snapshot=EMPTY_LIBRARY, retrieved=())
    assert recorded.read_history(episode) == (Entry(1, Skipped(second, "its image does not exist")),)


def test_a_trial_that_is_at_work_is_skipped_and_its_attempt_records_nothing_more(episode: Episode) -> None:
    recorder = RowRecorder(episode, hold(episode))
    recorder.start_attempt(FIRST, snapshot=EMPTY_LIBRARY, retrieved=())
    operations.skip(Episode.objects.get(), reason="its image does not exist")
    with pytest.raises(LeaseLost):
        recorder.freeze(Frozen(EMPTY_LIBRARY, EMPTY_LIBRARY, "", ""))
    advance.advance(str(episode.public_id))
    assert list(Attempt.objects.values_list("trial__task__key", "status").order_by("pk")) == [
        ("E1-LS1-T1", "interrupted"),
        ("E1-LS1-T2", "finished"),
    ]
    assert episode.trials.get(task__key="E1-LS1-T1").status == "skipped"


def test_a_paused_episode_stays_paused_when_a_trial_is_skipped(episode: Episode) -> None:
    operations.pause(episode, reason="lunch")
    assert operations.skip(Episode.objects.get(), reason="its image does not exist") == FIRST
    assert Episode.objects.get().status == "paused"


@pytest.mark.parametrize(("task", "told"), [("E1-LS1-T1", "is failed, not open"), ("E9-T1", "has no trial")])
def test_only_an_open_trial_of_the_episode_is_skipped(episode: Episode, task: str, told: str) -> None:
    advance.advance(str(episode.public_id))
    with pytest.raises(NotPossible, match=told):
        operations.skip(Episode.objects.get(), trial=TrialSlot(Phase.ACQUISITION, task), reason="x")
    assert not Activity.objects.exclude(verb="launch").exists()


def test_a_skip_needs_a_reason(blocked: Episode) -> None:
    with pytest.raises(NotPossible, match="reason"):
        operations.skip(blocked, reason=" ")


def test_a_skip_is_for_the_trial_that_was_looked_at(blocked: Episode) -> None:
    """Somebody else retried it meanwhile; it went on and blocked again, elsewhere."""
    operations.retry(Episode.objects.get(), reason="made room")
    Episode.objects.block(blocked.pk, epoch=hold(blocked), reason="SandboxError: no space left, again")
    with pytest.raises(NotPossible, match="changed: look"):
        operations.skip(blocked, reason="its fixture is broken")
    assert not blocked.trials.filter(status="skipped").exists()


def test_an_episode_without_a_readable_file_is_refused_and_no_crash(blocked: Episode) -> None:
    Experiment.objects.update(spec={})
    with pytest.raises(SetupError, match="suite: expected, and not there"):
        operations.skip(Episode.objects.get(), reason="x")


def test_a_cancelled_experiment_is_not_worked_on_and_keeps_what_it_has(episode: Episode) -> None:
    advance.advance(str(episode.public_id))
    assert operations.cancel(Experiment.objects.get(), reason="enough") == 1
    advance.advance(str(episode.public_id))
    assert Attempt.objects.count() == 1
    assert Experiment.objects.get().status == "cancelled"


def test_the_command_lists_what_waits_and_lets_it_go_on(blocked: Episode) -> None:
    out = StringIO()
    call_command("episodes", stdout=out)
    assert f"{blocked.public_id}  blocked  One environment / no-skill · rep 1 / E1" in out.getvalue()
    assert "SandboxError: no space left" in out.getvalue()
    call_command("episodes", "--skip", str(blocked.public_id), "--reason", "broken", stdout=out)
    assert "Skipped acquisition/E1-LS1-T1/0. The episode continues." in out.getvalue()
    with pytest.raises(CommandError, match="not blocked"):
        call_command("episodes", "--retry", str(blocked.public_id))
    named = ("--trial", "deployment/E1-LS1-T4/0", "--reason", "broken")
    call_command("episodes", "--skip", str(blocked.public_id), *named, stdout=out)
    assert "Skipped deployment/E1-LS1-T4/0. The episode continues." in out.getvalue()
    with pytest.raises(CommandError, match="expected phase/task/sample"):
        call_command("episodes", "--skip", str(blocked.public_id), "--trial", "E1-LS1-T4")


@pytest.mark.parametrize(("verb", "status"), [("pause", "paused"), ("cancel", "cancelled")])
def test_an_experiment_can_be_named_instead_of_its_id(episode: Episode, verb: str, status: str) -> None:
    named = Experiment.objects.get().name
    call_command("episodes", f"--{verb}", named, stdout=StringIO())
    assert Episode.objects.get().status == status
    if verb == "pause":
        call_command("episodes", "--resume", named, stdout=StringIO())
        assert Episode.objects.get().status == "waiting"
    with pytest.raises(CommandError, match="neither the name nor the id"):
        call_command("episodes", f"--{verb}", "another")


def test_the_command_counts_failures_in_a_row(episode: Episode) -> None:
    out = StringIO()
    Episode.objects.update(failures=3, last_failure="SandboxError: no space left")
    call_command("episodes", stdout=out)
    Episode.objects.update(failures=1)
    call_command("episodes", stdout=out)
    told = [line.strip() for line in out.getvalue().splitlines() if "SandboxError" in line]
    assert told == ["failed 3 times in a row: SandboxError: no space left", "failed once: SandboxError: no space left"]


def test_the_command_tells_a_broker_that_is_away_from_a_log_without_lines(
    episode: Episode, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(live, "read_log", lambda _: [])
    out = StringIO()
    call_command("episodes", "--log", str(episode.public_id), stdout=out)
    assert out.getvalue() == "no log lines\n"
    monkeypatch.setattr(live, "read_log", lambda _: None)
    with pytest.raises(CommandError, match="cannot reach the broker"):
        call_command("episodes", "--log", str(episode.public_id))


# --- answers of the author ------------------------------------------------------------------------------------------


@pytest.fixture
def refused(monkeypatch: pytest.MonkeyPatch) -> Episode:
    """Its author's provider refuses the first call."""
    monkeypatch.setattr(advance, "hint", lambda _, **named: True)
    changes = {"conditions": ["selfgen-always"], "agent_model": "scripted/apprentice", "agent": "shell", "seed": 3}
    found = Episode.objects.get(run__experiment=launch({**SPEC, **changes, "author_model": "scripted/apprentice"}))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(Scripted, "complete", refusing(Scripted.complete))
        advance.advance(str(found.public_id))
    return Episode.objects.select_related("run__experiment", "environment").get()


def refusing(true_complete: Any) -> Any:
    """Only the author: its requests have no tools."""

    def complete(self: Scripted, request: ModelRequest) -> ModelReply:
        if request.tools:
            reply: ModelReply = true_complete(self, request)
            return reply
        raise ModelRefused("litellm/small: the prompt has 9,000 tokens, the model takes 8,192")

    return complete


def test_a_refused_answer_is_skipped_and_recorded_as_failed(refused: Episode) -> None:
    assert (refused.status, refused.blocked_reason.splitlines()[0]) == (
        "blocked",
        "litellm/small: the prompt has 9,000 tokens, the model takes 8,192",
    )
    step = operations.skip_answer(refused, reason="too long for it", by=make_user(username="ada"))
    assert step.key == "induce/E1-LS1/acquisition/E1-LS1-T1/0/1"
    decision = Decision.objects.get()
    assert (decision.status, decision.error) == ("failed", "left out by ada: too long for it")
    assert (decision.before, decision.call, decision.round) == (decision.after, None, 0)
    assert [shown.trial.task.key for shown in decision.evidence.all()] == ["E1-LS1-T1"]
    went_on = Episode.objects.select_related("run__experiment", "environment").get()
    assert (went_on.status, went_on.blocked_reason, went_on.is_tainted, went_on.lease_owner) == (
        "waiting",
        "",
        True,
        "",
    )
    act = Activity.objects.exclude(verb="launch").get()
    assert (act.verb, act.target_kind, act.actor_name, act.reason) == ("skip", "episode", "ada", "too long for it")
    advance.advance(str(refused.public_id))
    assert Attempt.objects.latest("pk").trial.task.key == "E1-LS1-T2"
    assert audit(plan_of(went_on, suite_of(went_on)), recorded.read_history(went_on)) == []
    assert [finding for finding in findings() if isinstance(finding, Flaw)] == []


def test_an_answer_is_skipped_once_and_not_the_next_one_in_its_place(refused: Episode) -> None:
    """Two operators press the button at once, or one presses it twice."""
    (key,) = {operations.skip_answer(refused, answer="induce/E1-LS1/acquisition/E1-LS1-T1/0/1", reason="x").key}
    for seen in (refused, Episode.objects.select_related("run__experiment", "environment").get()):
        with pytest.raises(NotPossible, match="changed: look|does not wait for an answer"):
            operations.skip_answer(seen, reason="x", answer=key if seen is not refused else "")
    assert Decision.objects.count() == Activity.objects.exclude(verb="launch").count() == 1


def test_another_answer_than_the_one_looked_at_is_not_skipped(refused: Episode) -> None:
    with pytest.raises(NotPossible, match="now waits for the answer induce/E1-LS1/.*, not for induce/E1-LS2"):
        operations.skip_answer(refused, reason="x", answer="induce/E1-LS2/acquisition/E1-LS2-T1/0/1")
    assert not Decision.objects.exists()


@pytest.mark.parametrize("status", ["done", "cancelled"])
def test_no_answer_is_skipped_in_an_episode_that_has_ended(refused: Episode, status: str) -> None:
    Episode.objects.update(status=status)
    with pytest.raises(NotPossible, match=f"is {status}"):
        operations.skip_answer(refused, reason="x")
    with pytest.raises(NotPossible, match="needs a reason"):
        operations.skip_answer(refused, reason=" ")


def test_an_answer_is_skipped_after_a_retry_while_its_call_is_under_way(refused: Episode) -> None:
    operations.retry(refused, reason="another server")
    recorder = RowRecorder(refused, hold(refused))
    recorder.start_call(
        "induce/E1-LS1/acquisition/E1-LS1-T1/0/1", purpose="author", model="m", request=ModelRequest(())
    )
    operations.skip_answer(Episode.objects.select_related("run__experiment").get(), reason="it hangs")
    with pytest.raises(LeaseLost):
        recorder.finish_call("induce/E1-LS1/acquisition/E1-LS1-T1/0/1", ModelReply("late"))
    call = ModelCall.objects.filter(purpose="author").latest("pk")
    assert (call.status, call.error) == ("failed", "interrupted: an operator skipped this answer")
    assert Decision.objects.get().error == "left out by command line: it hangs"


def test_a_fork_of_an_episode_with_a_skipped_answer_is_tainted_too(refused: Episode) -> None:
    operations.skip_answer(refused, reason="x")
    advance.advance(str(refused.public_id))
    origin = Episode.objects.select_related("run__experiment__suite", "environment").get()
    before_it, after_it = FIRST, TrialSlot(Phase.ACQUISITION, "E1-LS1-T2")
    for place, is_tainted in ((before_it, False), (after_it, True)):
        assert fork(origin, before=place, reason="x").episodes.get().is_tainted is is_tainted


def test_the_command_skips_what_the_episode_stands_at(refused: Episode) -> None:
    out = StringIO()
    call_command("episodes", "--skip", str(refused.public_id), "--reason", "too long", stdout=out)
    assert out.getvalue().startswith("Skipped the author's answer induce/E1-LS1/acquisition/E1-LS1-T1/0/1. The library")
    call_command("episodes", "--skip", str(refused.public_id), "--reason", "broken", stdout=out)
    assert "Skipped acquisition/E1-LS1-T2/0. The episode continues." in out.getvalue()


# --- an experiment after an outage -----------------------------------------------------------------------------------


@pytest.fixture
def outage(monkeypatch: pytest.MonkeyPatch) -> Experiment:
    """Three of its four episodes are blocked."""
    monkeypatch.setattr(advance, "hint", lambda _, **named: True)
    experiment = launch({**SPEC, "environments": ["E1", "E2"], "conditions": ["no-skill", "raw-trajectory"]})
    for episode in Episode.objects.order_by("pk")[:3]:
        Episode.objects.block(episode.pk, epoch=hold(episode), reason="ModelUnavailable: connection refused")
    return experiment


@pytest.mark.parametrize("by_name", [True, False])
def test_the_command_retries_all_that_is_blocked_in_an_experiment_with_a_line_for_each(
    outage: Experiment, by_name: bool
) -> None:
    out = StringIO()
    call_command("episodes", "--retry", outage.name if by_name else str(outage.public_id), stdout=out)
    *lines, last = out.getvalue().splitlines()
    assert [line.partition("  ")[2] for line in lines] == [
        "continues  no-skill · rep 1 / E1",
        "continues  raw-trajectory · rep 1 / E1",
        "continues  no-skill · rep 1 / E2",
    ]
    assert last == "Retried 3 episodes."
    assert set(Episode.objects.values_list("status", flat=True)) == {"waiting"}
    with pytest.raises(CommandError, match=f"experiment {outage.public_id} is .*, not blocked"):
        call_command("episodes", "--retry", outage.name)


def test_the_command_says_which_episodes_somebody_else_retried_meanwhile(
    outage: Experiment, monkeypatch: pytest.MonkeyPatch
) -> None:
    true_retry = operations.retry

    def retry(episode: Episode, **options: Any) -> None:
        Episode.objects.filter(key="E2").update(status="waiting")
        true_retry(episode, **options)

    monkeypatch.setattr(operations, "retry", retry)
    out = StringIO()
    with pytest.raises(CommandError, match="1 of 3 episodes was not retried"):
        call_command("episodes", "--retry", str(outage.public_id), stdout=out)
    assert [line.split("  ")[1] for line in out.getvalue().splitlines()][:2] == ["continues", "continues"]
    assert "is waiting, not blocked" in out.getvalue()


def test_the_command_takes_no_name_that_is_unknown_or_not_the_only_one(outage: Experiment) -> None:
    with pytest.raises(CommandError, match="'Another' is neither the name nor the id"):
        call_command("episodes", "--retry", "Another")
    other = Experiment.objects.create(name=outage.name, spec={})
    with pytest.raises(CommandError, match=f"2 experiments are named 'One environment'.*{other.public_id}"):
        call_command("episodes", "--retry", outage.name)


# --- trials that were set aside -------------------------------------------------------------------------------------


@pytest.fixture
def hopeless(episode: Episode, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    """Tasks whose image cannot be built, until they are taken out of the set."""
    tasks = {"E1-LS1-T1", "E1-LS2-T4"}
    true_open = local.open_sandbox

    def open_sandbox(task: Task, **options: Any) -> Any:
        if task.key in tasks:
            raise ImageError(f"{task.key}/Dockerfile: line 3: COPY data.csv: no such file", "Step 3/9\nCOPY failed")
        return true_open(task, **options)

    monkeypatch.setattr(local, "open_sandbox", open_sandbox)
    return tasks


def run_on(episode: Episode) -> Episode:
    while Episode.objects.open().exists():
        advance.advance(str(episode.public_id))
    return Episode.objects.select_related("run__experiment", "environment").get()


def test_the_others_go_on_past_a_hopeless_trial_and_the_episode_names_it_at_its_end(
    episode: Episode, hopeless: set[str]
) -> None:
    advance.advance(str(episode.public_id))
    assert Episode.objects.get().status == "running"
    out = StringIO()
    call_command("episodes", stdout=out)
    assert (
        "blocked, other trials continue: acquisition/E1-LS1-T1/0: ImageError: E1-LS1-T1/Dockerfile: line 3"
        in out.getvalue()
    )
    ended = run_on(episode)
    assert (ended.status, ended.failures) == ("blocked", 0)
    assert ended.blocked_reason.splitlines()[0] == (
        "acquisition/E1-LS1-T1/0: ImageError: E1-LS1-T1/Dockerfile: line 3: COPY data.csv: no such file (and 1 more "
        "trial)"
    )
    assert "deployment/E1-LS2-T4/0: ImageError" in ended.blocked_reason
    assert sorted(ended.trials.values_list("status", flat=True)) == ["blocked"] * 2 + ["failed"] * 10
    assert Attempt.objects.filter(status="infrastructure").count() == 2  # one try each


def test_blocked_trials_cost_a_turn_one_query_and_their_reasons_two(episode: Episode, hopeless: set[str]) -> None:
    ended = run_on(episode)
    recorder = RowRecorder(ended, ended.lease_epoch)
    with CaptureQueriesContext(connection) as at_each_turn:
        slots = list(recorder.trials_set_aside())
    with CaptureQueriesContext(connection) as at_the_end:
        reasons = recorder.reasons_set_aside()
    assert list(reasons) == slots
    assert [reason.partition(":")[0] for reason in reasons.values()] == ["ImageError"] * 2
    assert (len(at_each_turn), len(at_the_end)) == (1, 2)


def test_what_was_set_aside_is_tried_again_once_an_operator_says_so(episode: Episode, hopeless: set[str]) -> None:
    blocked = run_on(episode)
    hopeless.clear()
    operations.retry(blocked, reason="mended")
    ended = run_on(episode)
    assert (ended.status, ended.blocked_reason, ended.is_tainted) == ("done", "", False)
    assert set(ended.trials.values_list("status", flat=True)) == {"failed"}
    assert audit(plan_of(ended, suite_of(ended)), recorded.read_history(ended)) == []


def test_what_was_set_aside_is_skipped_one_by_one(episode: Episode, hopeless: set[str]) -> None:
    assert operations.skip(run_on(episode), reason="broken") == FIRST
    left = run_on(episode)
    assert left.blocked_reason.startswith("deployment/E1-LS2-T4/0: ImageError")
    operations.skip(left, reason="broken")
    ended = run_on(episode)
    assert (ended.status, ended.is_tainted) == ("done", True)
    assert sorted(ended.trials.values_list("status", flat=True)) == ["failed"] * 10 + ["skipped"] * 2
