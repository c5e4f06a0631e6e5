"""What must not be recorded is taken out before anything is made of a trial's texts."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from runner.agents import AgentRun
from runner.base.types import (
    Check,
    CheckGroup,
    CheckStatus,
    CompactionKind,
    Dimension,
    FailedTry,
    ModelReply,
    ModelRequest,
    Source,
    Step,
    ToolCall,
    Trajectory,
    TrajectoryHead,
    Usage,
    Verdict,
)
from runner.engine.engine import run_episode
from runner.engine.recorders import ListRecorder
from runner.engine.toolbox import Cleaner
from tests.runner.small_episode import FixedAuthor, small_environment, small_plan, small_toolbox, ticking_clock

SECRET = "asks."  # ends the instruction of every task of the small episode


def text(value: str) -> str:
    return value.replace(SECRET, "[gone]")


def step(value: Step) -> Step:
    return replace(value, message=text(value.message))


def test_trajectory_compactions_evidence_and_prompt_are_made_of_the_same_clean_texts(tmp_path: Path) -> None:
    plan = small_plan("raw-trajectory", small_environment(tmp_path))
    recorder = ListRecorder(plan, ticking_clock())
    run_episode(plan, recorder, replace(small_toolbox(), clean=Cleaner(text, step)))
    for slot, result in recorder.results.items():
        compaction = recorder.compaction(slot, CompactionKind.ROUGH)
        assert SECRET not in str(result.trajectories)
        assert f"Do what {slot.task} [gone]" in compaction.text
        assert "## Earlier trials" not in compaction.text  # the cut behind the instruction still finds its place
        assert SECRET not in compaction.text


def test_the_author_is_sent_what_is_recorded_and_judged_by_what_is_recorded(tmp_path: Path) -> None:
    plan = small_plan("selfgen-always", small_environment(tmp_path))
    recorder, author = ListRecorder(plan, ticking_clock()), FixedAuthor()
    clean = Cleaner(lambda value: value.replace("Lesson of", "[gone]"))
    run_episode(plan, recorder, replace(small_toolbox(author=author), clean=clean))
    assert author.prompts == [str(call.request.messages[-1]["content"]) for call in recorder.calls]
    assert "Lesson of" not in str(recorder.transactions)
    assert any("[gone]" in str(decision.patch) for decision in recorder.decisions)


def test_it_cleans_every_text_of_a_verdict_and_no_number() -> None:
    check = Check(CheckGroup.HIDDEN, f"a {SECRET}", CheckStatus.FAILED, f"b {SECRET}")
    verdict = Verdict(
        "suite", False, 0.5, checks=(check,), dimensions=(Dimension(f"c {SECRET}", 0.5, reason=f"d {SECRET}"),),
        rewards={f"e {SECRET}": 0.5}, output=f"f {SECRET}",
    )  # fmt: skip
    found = Cleaner(text).verdict(verdict)
    assert str(found) == str(verdict).replace(SECRET, "[gone]")


def test_it_leaves_the_shape_of_a_request_alone() -> None:
    content = [{"type": "text", "text": f"x {SECRET}"}, {"n": 1, "flag": True, "none": None}]
    request = ModelRequest(({"role": "user", "content": content},), seed=3, json_object=True)
    found = Cleaner(text).request(request)
    assert found.messages == ({"role": "user", "content": [{"type": "text", "text": "x [gone]"}, content[1]]},)
    assert (found.seed, found.json_object) == (3, True)


def test_it_cleans_every_text_of_a_reply_whatever_field_holds_it() -> None:
    """A provider may echo the key it was sent anywhere: as its model, its finish reason, the id of a call."""
    call = ToolCall(f"a {SECRET}", f"b {SECRET}", {f"c {SECRET}": [f"d {SECRET}", {"e": f"f {SECRET}"}]}, {"g": SECRET})
    reply = ModelReply(
        f"h {SECRET}", (call,), Usage(1, 2, 3), f"i {SECRET}", f"j {SECRET}", f"k {SECRET}",
        failed_tries=(FailedTry(f"l {SECRET}", 2.0, Usage(input_at_least=4)),),
    )  # fmt: skip
    found = Cleaner(text).reply(reply)
    assert str(found) == str(reply).replace(SECRET, "[gone]")
    assert Cleaner(text).reply(found) == found


def test_it_cleans_what_a_log_says_of_its_agent_and_model() -> None:
    head = TrajectoryHead(agent_name=f"a {SECRET}", agent_version=f"b {SECRET}", model=f"c {SECRET}")
    found = Cleaner(text).run(AgentRun((Trajectory(head, ()),), Usage(), 1, None))
    assert SECRET not in str(found)


def test_it_cleans_the_log_that_a_trajectory_was_read_from() -> None:
    kept = Trajectory(TrajectoryHead(), (Step(1, Source.USER, f"a {SECRET}"),), source=f"b {SECRET}")
    run = AgentRun((kept, replace(kept, source=None)), Usage(), 1)
    first, second = Cleaner(text, step).run(run).trajectories
    assert (first.source, first.steps[0].message, second.source) == ("b [gone]", "a [gone]", None)
