"""Rows say what the list recorder says, and nothing is written behind another holder's back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime

import pytest
from django.apps import apps

from benchapp.experiments.work.budgets import Spent, count_spent
from benchapp.models import (
    Attempt,
    Blob,
    Decision,
    Entry,
    Episode,
    ModelCall,
    Snapshot,
    SnapshotFile,
    Trial,
)
from benchapp.record import log_context, recorded
from benchapp.record.trajectory_store import iterate_steps
from benchapp.record.writing.recording import RowRecorder
from runner.base.errors import FrozenLibrary, LeaseLost, ModelUnavailable, SandboxError
from runner.base.suite import Suite
from runner.base.types import (
    AttemptResult,
    Check,
    CheckGroup,
    CheckStatus,
    Compaction,
    CompactionKind,
    Dimension,
    Failure,
    File,
    ModelReply,
    ModelRequest,
    Phase,
    SkillUse,
    Source,
    Span,
    Step,
    Trajectory,
    TrajectoryHead,
    TrajectoryKind,
    TrialSlot,
    Usage,
    UseKind,
    Verdict,
)
from runner.engine.engine import advance, run_episode
from runner.engine.recorders import ListRecorder
from runner.protocols.audit import audit
from runner.protocols.conditions import CONDITIONS
from runner.protocols.recorder import AGENT_WROTE, Frozen, Refused
from runner.trajectories.atif_values import write_bounded
from tests.benchapp.small_rows import hold, make_episode, recorder_of, small_suite
from tests.runner.small_episode import FixedAgent, small_toolbox, ticking_clock

pytestmark = pytest.mark.django_db

FIRST = TrialSlot(Phase.ACQUISITION, "E1-LS1-T1")
REQUEST = ModelRequest(messages=({"role": "user", "content": "write"},), seed=3, json_object=True)


@pytest.fixture(scope="module")
def suite(tmp_path_factory: pytest.TempPathFactory) -> Suite:
    return small_suite(tmp_path_factory.mktemp("tasks"))


def a_result(**changes: object) -> AttemptResult:
    """A result with something in every part."""
    at = datetime(2026, 1, 1, tzinfo=UTC)
    steps = (Step(1, Source.USER, "do it"), Step(2, Source.AGENT, "done"))
    spans = (Span(1, "message", 0, 5, 5, "head"),)
    result = AttemptResult(
        trajectories=(
            Trajectory(TrajectoryHead(agent_name="fixed"), steps, Usage(1, 0, 1, None)),
            Trajectory(TrajectoryHead(TrajectoryKind.SUBAGENT, "helper", parent="main"), steps[:1]),
        ),
        verdict=Verdict(
            source="suite",
            success=False,
            reward=0.25,
            outcome=0.5,
            process=None,
            overall=0.375,
            checks=(
                Check(CheckGroup.HIDDEN, "totals", CheckStatus.FAILED, "expected 4, found 3", 0.01),
                Check(CheckGroup.PUBLIC, "exists", CheckStatus.PASSED),
            ),
            dimensions=(Dimension("care", 1.0, 4.0, 0.5, "hasty"),),
            rewards={"reward": 0.25},
            output="1 passed, 1 failed\n",
            verifier_digest="v" * 64,
            duration_seconds=0.5,
        ),
        compactions=(
            Compaction(CompactionKind.RICH, "compaction/1", "rich text", 3, spans, 2, 2),
            Compaction(CompactionKind.ROUGH, "compaction/1", "rough", 2, (), 2, 0),
        ),
        skill_uses=(SkillUse("tidy", UseKind.READ, 2, "tidy/SKILL.md"),),
        usage=Usage(10, 2, 5, 0.01),
        turns=1,
        started_at=at,
        finished_at=at.replace(second=3),
        agent_seconds=2.0,
        verifier_seconds=1.0,
        failure=Failure("AgentTimeout", "took too long", "trace"),
    )
    return replace(result, **changes)


def finished(recorder: RowRecorder, slot: TrialSlot = FIRST, **changes: object) -> Trial:
    attempt = recorder.start_attempt(slot, snapshot=recorder_snapshot(), retrieved=())
    recorder.finish_attempt(attempt, a_result(**changes))
    return Attempt.objects.get(public_id=attempt).trial


def recorder_snapshot() -> str:
    return Snapshot.objects.put({}).digest


# --- the same episode in rows and in memory -------------------------------------------------------------------------


@pytest.mark.parametrize("condition", CONDITIONS)
def test_it_records_the_history_that_the_list_recorder_keeps(suite: Suite, condition: str) -> None:
    episode, plan = make_episode(suite, condition)
    recorder = recorder_of(episode)
    run_episode(plan, recorder, small_toolbox(FixedAgent(writes={"note/SKILL.md": "mine"})))
    in_memory = ListRecorder(plan, ticking_clock())
    run_episode(plan, in_memory, small_toolbox(FixedAgent(writes={"note/SKILL.md": "mine"})))
    assert recorder.history() == in_memory.history()
    assert audit(plan, recorder.history()) == []
    assert not episode.trials.exclude(is_done=True).exists()
    assert {entry.event.__class__.__name__ for entry in recorder.history()} >= {"TrialDone", "Refused", "Frozen"}


def test_it_reads_back_what_the_author_was_shown_and_answered(suite: Suite) -> None:
    episode, plan = make_episode(suite)
    recorder, in_memory = recorder_of(episode), ListRecorder(plan, ticking_clock())
    for each in (recorder, in_memory):
        run_episode(plan, each, small_toolbox())
    assert len(in_memory.decisions) == Decision.objects.filter(episode=episode).count() > 1
    assert any(decision.evidence for decision in in_memory.decisions)
    for decision in in_memory.decisions:
        assert decision.call is not None
        assert recorder.reply(decision.call) == in_memory.reply(decision.call)
        assert recorder.library(decision.after) == in_memory.library(decision.after)
        for shown in decision.evidence:
            ours = recorder.compaction(shown.slot, shown.compaction)
            assert ours.text
            assert ours == in_memory.compaction(shown.slot, shown.compaction)
            assert recorder.verdict(shown.slot) == in_memory.verdict(shown.slot) is not None
            documents = [write_bounded(each.trajectories(shown.slot)) for each in (recorder, in_memory)]
            assert documents[0] == documents[1] != b""


def test_a_process_that_stops_after_any_trial_is_continued_by_the_next(suite: Suite) -> None:
    episode, plan = make_episode(suite)
    more = True
    while more:
        recorder = recorder_of(episode)
        more = advance(plan, recorder, small_toolbox())
        Episode.objects.release(episode.pk, epoch=recorder.epoch)
    in_memory = ListRecorder(plan, ticking_clock())
    run_episode(plan, in_memory, small_toolbox())
    assert recorder.history() == in_memory.history()


def test_the_history_takes_two_queries_whatever_its_length(suite: Suite, django_assert_num_queries: Callable) -> None:
    episode, plan = make_episode(suite, "raw-trajectory")
    recorder = recorder_of(episode)
    run_episode(plan, recorder, small_toolbox())
    with django_assert_num_queries(2):
        recorded.read_history(episode)


# --- one attempt ----------------------------------------------------------------------------------------------------


def test_a_finished_attempt_is_read_back_exactly(suite: Suite) -> None:
    episode, _ = make_episode(suite)
    recorder = recorder_of(episode)
    finished(recorder)
    result = a_result()
    assert recorder.verdict(FIRST) == result.verdict
    assert [recorder.compaction(FIRST, kind) for kind in CompactionKind] == list(result.compactions)
    assert recorder.trajectories(FIRST) == result.trajectories


def test_a_finished_attempt_leaves_its_trajectories_with_parents_and_steps(suite: Suite) -> None:
    episode, _ = make_episode(suite)
    trial = finished(recorder_of(episode))
    attempt = trial.counting_attempt()
    assert attempt is not None
    main, helper = attempt.trajectories.all()
    assert helper.parent == main
    assert list(iterate_steps(main)) == list(a_result().trajectories[0].steps)


def test_the_log_of_a_program_is_kept_beside_the_steps_made_of_it(suite: Suite) -> None:
    episode, _ = make_episode(suite)
    main, helper = a_result().trajectories
    trial = finished(recorder_of(episode), trajectories=(replace(main, source='{"type":"result\x00"}\n'), helper))
    attempt = trial.counting_attempt()
    assert attempt is not None
    first, second = attempt.trajectories.all()
    assert Blob.objects.read(first.source_id) == '{"type":"result␀"}\n'.encode()
    assert second.source_id is None


def test_a_trial_row_carries_the_numbers_of_its_attempt(suite: Suite) -> None:
    episode, _ = make_episode(suite)
    trial = finished(recorder_of(episode))
    trial.refresh_from_db()
    assert (trial.status, trial.success, trial.reward) == ("failed", False, 0.25)
    assert (trial.checks_passed, trial.checks_total, trial.steps, trial.turns) == (1, 2, 2, 1)
    assert (trial.input_tokens, trial.cost_usd, trial.exception_type) == (10, 0.01, "AgentTimeout")
    assert (trial.skills_read, trial.attempts_total, trial.duration_seconds) == (1, 1, 3.0)


def test_an_attempt_with_a_call_of_unknown_cost_keeps_what_the_others_cost(suite: Suite) -> None:
    recorder, used = recorder_of(make_episode(suite)[0]), Usage(10, 2, 5, 0.5) + Usage(3)
    costs = Attempt.objects.values_list("cost_usd", "priced_usd")
    attempt = recorder.start_attempt(FIRST, snapshot=recorder_snapshot(), retrieved=())
    recorder.bill(attempt, used, "a list")
    assert costs.get() == (None, 0.5)
    recorder.abandon_attempt(attempt, SandboxError("gone"), usage=used + Usage(1, 0, 1, 0.25))
    assert costs.get() == (None, 0.75)
    trial = finished(recorder, usage=used)
    assert (trial.cost_usd, costs.get(counts=True)) == (None, (None, 0.5))


def test_an_attempt_without_verdict_stays_unscored_and_is_no_failure(suite: Suite) -> None:
    episode, _ = make_episode(suite)
    recorder = recorder_of(episode)
    trial = finished(recorder, verdict=None)
    assert (trial.status, trial.success, trial.is_done) == (Trial.Status.UNSCORED, None, True)
    assert recorder.verdict(FIRST) is None


def test_what_the_agent_wrote_into_its_copy_is_a_refusal_after_its_trial(suite: Suite) -> None:
    episode, _ = make_episode(suite)
    recorder = recorder_of(episode)
    finished(recorder, library_writes=("tidy/SKILL.md",))
    assert recorder.history()[-1].event == Refused(FIRST, ("tidy/SKILL.md",), AGENT_WROTE)


def test_text_that_no_database_holds_is_made_visible(suite: Suite) -> None:
    episode, _ = make_episode(suite)
    check = Check(CheckGroup.TEST, "name\0", CheckStatus.FAILED, "half \ud800 pair")
    trial = finished(
        recorder_of(episode),
        verdict=Verdict("suite", False, checks=(check,), output="\0"),
        failure=Failure("Odd\0", "\ud800", "\0"),
        skill_uses=(SkillUse("a\0b", UseKind.READ, 1, "a\0b/SKILL.md"),),
        library_writes=("a\0b/x",),
    )
    row = trial.counting_attempt().verdicts.get().checks.get()
    assert (row.name, row.message) == ("name\u2400", "half \ufffd pair")


def test_a_machine_failure_is_kept_unscored_and_takes_no_place_on_the_spine(suite: Suite) -> None:
    episode, _ = make_episode(suite)
    recorder = recorder_of(episode)
    attempt = recorder.start_attempt(FIRST, snapshot=recorder_snapshot(), retrieved=())
    recorder.abandon_attempt(attempt, SandboxError("the container is gone"))
    row = Attempt.objects.get(public_id=attempt)
    assert (row.status, row.counts, row.exception_type) == ("infrastructure", False, "SandboxError")
    assert row.trial.status == Trial.Status.WAITING
    assert recorder.history() == ()
    again = finished(recorder)
    assert [tried.number for tried in again.attempts.all()] == [1, 2]


def test_what_a_failed_build_said_is_kept_with_the_attempt(suite: Suite) -> None:
    episode, _ = make_episode(suite)
    recorder = recorder_of(episode)
    attempt = recorder.start_attempt(FIRST, snapshot=recorder_snapshot(), retrieved=())
    log = "Step 1\n" * 1_000 + "TOKEN=sk-abcdef0123456789abcdef\nE: no such package"
    recorder.abandon_attempt(attempt, SandboxError("its image cannot be built", log))
    row = Attempt.objects.get(public_id=attempt)
    assert row.exception_message.startswith("its image cannot be built\n\nThe end of the log:\n")
    assert row.exception_message.endswith("E: no such package")
    assert len(row.exception_message) <= 2_000
    whole = row.exception.content().decode()
    assert (whole.count("Step 1"), "sk-abcdef" in whole) == (1_000, False)


def test_log_lines_carry_the_attempt_while_it_runs(suite: Suite) -> None:
    episode, _ = make_episode(suite)
    recorder = recorder_of(episode)
    with log_context.about(episode="e-1"):
        for number, end in enumerate((recorder.abandon_attempt, recorder.finish_attempt)):
            attempt = recorder.start_attempt(FIRST, snapshot=recorder_snapshot(), retrieved=())
            assert log_context.present() == {"episode": "e-1", "attempt": attempt}
            end(attempt, SandboxError("disk full") if number == 0 else a_result())
            assert log_context.present() == {"episode": "e-1"}


def test_no_key_that_an_error_quotes_is_kept(suite: Suite) -> None:
    episode, _ = make_episode(suite)
    recorder = recorder_of(episode)
    attempt = recorder.start_attempt(FIRST, snapshot=recorder_snapshot(), retrieved=())
    error = ModelUnavailable("refused: sk-abcdef0123456789abcdef")
    recorder.start_call("open", purpose="author", model="some/model", request=REQUEST)
    recorder.finish_call("open", None, error)
    recorder.abandon_attempt(attempt, error)
    assert episode.calls.get().error == "refused: [redacted:api-key]"
    assert Attempt.objects.get(public_id=attempt).exception_message == "refused: [redacted:api-key]"


def test_a_trial_remembers_what_it_was_shown_in_that_order(suite: Suite) -> None:
    episode, _ = make_episode(suite, "raw-trajectory")
    recorder = recorder_of(episode)
    earlier = [TrialSlot(Phase.ACQUISITION, f"E1-LS1-T{number}") for number in (2, 1)]
    for slot in earlier:
        finished(recorder, slot)
    third = TrialSlot(Phase.ACQUISITION, "E1-LS1-T3")
    recorder.start_attempt(third, snapshot=recorder_snapshot(), retrieved=tuple(reversed(earlier)))  # lost
    attempt = recorder.start_attempt(third, snapshot=recorder_snapshot(), retrieved=tuple(earlier))
    recorder.finish_attempt(attempt, a_result())
    assert recorder.history()[-1].event.retrieved == tuple(earlier)


# --- the author -----------------------------------------------------------------------------------------------------


def test_a_failed_call_gives_no_reply_and_may_be_made_again(suite: Suite) -> None:
    episode, _ = make_episode(suite)
    recorder = recorder_of(episode)
    recorder.start_call("induce/1", purpose="author", model="scripted/apprentice", request=REQUEST)
    recorder.finish_call("induce/1", None, ModelUnavailable("rate limit", 3.0))
    assert recorder.reply("induce/1") is None
    recorder.start_call("induce/1", purpose="author", model="scripted/apprentice", request=REQUEST)
    reply = ModelReply('{"half": "\ud800"}', usage=Usage(7, 1, 2, 0.5), model="scripted")
    recorder.finish_call("induce/1", reply)
    assert recorder.reply("induce/1") == reply
    failed, answered = episode.calls.all()
    assert (failed.status, failed.error) == ("failed", "rate limit")
    assert (answered.scripted, answered.input_tokens, answered.cost_usd) == (True, 7, 0.5)


def test_a_call_made_of_many_is_billed_while_it_is_under_way_and_when_it_fails(suite: Suite) -> None:
    episode, _ = make_episode(suite)
    recorder = recorder_of(episode)
    recorder.start_call("outside/1", purpose="generator", model="generator/own+here", request=REQUEST)
    recorder.bill_call("outside/1", Usage(700, 0, 20, 0.5), "preset here")
    assert count_spent(episode.run) == Spent(usd=0.5, tokens=720)
    recorder.finish_call("outside/1", None, ModelUnavailable("rate limit", 3.0))
    assert count_spent(episode.run) == Spent(usd=0.5, tokens=720)
    recorder.start_call("outside/1", purpose="generator", model="generator/own+here", request=REQUEST)
    recorder.bill_call("outside/1", Usage(300, 0, 10, 0.25), "preset here")
    recorder.finish_call(
        "outside/1", ModelReply("{}", usage=Usage(300, 0, 10, 0.25).in_part()), price_table="preset here"
    )
    assert count_spent(episode.run) == Spent(usd=0.75, tokens=1_030, unpriced=1)
    failed, answered = episode.calls.all()
    assert (failed.status, failed.output_tokens, failed.price_table) == ("failed", 20, "preset here")
    assert (answered.output_tokens, answered.output_at_least, answered.priced_usd) == (None, 10, 0.25)


def test_a_decision_row_tells_what_changed_and_what_was_shown(suite: Suite) -> None:
    episode, plan = make_episode(suite)
    run_episode(plan, recorder_of(episode), small_toolbox())
    applied = episode.decisions.filter(status="applied", family__key="E1-LS1").order_by("number")
    first, last = applied.first(), applied.last()
    assert (first.lines_removed, first.files_changed) == (0, 1)
    assert first.lines_added == first.after.files.get().lines
    assert (last.lines_added, last.lines_removed, last.files_changed) == (2, 0, 1)
    assert [shown.trial.task.key for shown in last.evidence.all()] == ["E1-LS1-T1", "E1-LS1-T2", "E1-LS1-T3"]
    assert all(shown.compaction.kind == "rich" for shown in last.evidence.all())
    rejected = episode.decisions.filter(status="rejected").first()
    assert rejected.findings[0].keys() == {"rule", "path", "message", "severity"}
    assert (rejected.before, rejected.lines_added) == (rejected.after, 0)


def test_the_episode_row_holds_its_present_library(suite: Suite) -> None:
    episode, plan = make_episode(suite)
    run_episode(plan, recorder_of(episode), small_toolbox())
    episode.refresh_from_db()
    assert episode.library == episode.decisions.last().after


# --- the fence ------------------------------------------------------------------------------------------------------

WRITES: dict[str, Callable[[RowRecorder, str], object]] = {
    "start_attempt": lambda r, _: r.start_attempt(FIRST, snapshot=recorder_snapshot(), retrieved=()),
    "note_sandbox": lambda r, attempt: r.note_sandbox(attempt, {"kind": "local"}),
    "bill": lambda r, attempt: r.bill(attempt, Usage(1, 0, 1, 0.5), "a list"),
    "finish_attempt": lambda r, attempt: r.finish_attempt(attempt, a_result(library_writes=("x/y",))),
    "abandon_attempt": lambda r, attempt: r.abandon_attempt(attempt, SandboxError("gone")),
    "set_aside": lambda r, _: r.set_aside(FIRST, SandboxError("gone")),
    "seed": lambda r, _: r.seed("E1-LS1", {"tidy/SKILL.md": File(b"text")}),
    "start_call": lambda r, _: r.start_call("k", purpose="author", model="scripted/x", request=REQUEST),
    "bill_call": lambda r, _: r.bill_call("open", Usage(1, 0, 1, 0.5), "a list"),
    "finish_call": lambda r, _: r.finish_call("open", ModelReply("text")),
    "freeze": lambda r, _: r.freeze(Frozen(recorder_snapshot(), "l" * 64, "s" * 64, "e" * 64)),
    "refuse": lambda r, _: r.refuse(Refused(FIRST, ("a",), "frozen")),
}
CONTENT = {Blob, Snapshot, SnapshotFile}  # addressed by digest; harmless without a row that points at it


def rows() -> dict[str, list[dict[str, object]]]:
    """Every row of the record but its contents and the episodes' leases."""
    kinds = [kind for kind in apps.get_app_config("benchapp").get_models() if kind not in CONTENT | {Episode}]
    return {kind.__name__: list(kind.objects.order_by("pk").values()) for kind in kinds}


@pytest.mark.parametrize("write", WRITES)
def test_whoever_lost_the_lease_leaves_nothing_behind(suite: Suite, write: str) -> None:
    episode, _ = make_episode(suite)
    recorder = recorder_of(episode)
    attempt = recorder.start_attempt(FIRST, snapshot=recorder_snapshot(), retrieved=())
    recorder.start_call("open", purpose="author", model="scripted/x", request=REQUEST)
    Episode.objects.release(episode.pk, epoch=recorder.epoch)
    hold(episode)  # somebody else
    before = rows()
    with pytest.raises(LeaseLost):
        WRITES[write](recorder, attempt)
    assert rows() == before


def test_a_decision_after_the_lease_was_lost_leaves_nothing_behind(suite: Suite) -> None:
    episode, plan = make_episode(suite)
    finishing = ListRecorder(plan, ticking_clock())
    run_episode(plan, finishing, small_toolbox())
    recorder = recorder_of(episode)
    finished(recorder)
    hold_again(episode, recorder)
    first = next(decision for decision in finishing.decisions if decision.status == "applied")
    with pytest.raises(LeaseLost):
        recorder.decide(replace(first, evidence=()), finishing.library(first.after))
    assert not Decision.objects.exists()


def hold_again(episode: Episode, recorder: RowRecorder) -> None:
    Episode.objects.release(episode.pk, epoch=recorder.epoch)
    hold(episode)


def test_every_writing_method_of_the_protocol_is_held_against_the_fence() -> None:
    reading = {
        "history",
        "library",
        "compaction",
        "verdict",
        "trajectories",
        "reply",
        "trials_set_aside",
        "reasons_set_aside",
        "live_step",
        "attempt_number",
    }
    public = {name for name in vars(RowRecorder) if not name.startswith("_")}
    assert public - reading == WRITES.keys() | {"decide"}


def test_a_frozen_library_is_not_written_to_whoever_asks(suite: Suite) -> None:
    episode, plan = make_episode(suite)
    memory = ListRecorder(plan, ticking_clock())
    run_episode(plan, memory, small_toolbox())
    recorder = recorder_of(episode)
    finished(recorder)
    recorder.freeze(Frozen(recorder_snapshot(), "l" * 64, "s" * 64, "e" * 64))
    before = rows()
    with pytest.raises(FrozenLibrary, match="seed of E1-LS1 was not taken"):
        recorder.seed("E1-LS1", {"tidy/SKILL.md": File(b"late")})
    with pytest.raises(FrozenLibrary, match="decision 1 was not taken"):
        recorder.decide(replace(memory.decisions[0], evidence=()), {"tidy/SKILL.md": File(b"late")})
    assert rows() == before


def test_one_transaction_records_the_attempt_and_its_entry_or_neither(
    suite: Suite, monkeypatch: pytest.MonkeyPatch
) -> None:
    episode, _ = make_episode(suite)
    recorder = recorder_of(episode)
    attempt = recorder.start_attempt(FIRST, snapshot=recorder_snapshot(), retrieved=())
    before = rows()

    def full(*_: object, **__: object) -> None:
        raise OSError("disk full")

    monkeypatch.setattr(Entry, "save", full)
    with pytest.raises(OSError, match="disk full"):
        recorder.finish_attempt(attempt, a_result())
    assert rows() == before
    assert ModelCall.objects.count() == 0
