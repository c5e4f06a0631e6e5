"""A judging model over an artifact: asked strictly, recorded call by call, and unknown where it cannot be heard."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import get_args

import pytest

from runner.agents import Limits, make_agent
from runner.authoring.feedback import show_verdict, verdict_section
from runner.authoring.occasion import FeedbackLevel
from runner.base.errors import BudgetSpent, ModelUnavailable
from runner.base.types import (
    CheckStatus,
    Environment,
    Family,
    ModelReply,
    ModelRequest,
    Phase,
    Role,
    Task,
    TrialSlot,
    Usage,
    Verdict,
)
from runner.engine.attempts import run_trial
from runner.engine.recorders import ListRecorder
from runner.engine.setup import describe_setup
from runner.engine.toolbox import Toolbox
from runner.evaluating.declaration import JudgeQuestion
from runner.evaluating.judged_artifact import UnreadableOpinion, ask_judge, read_opinion, request_for
from runner.protocols.conditions import find_condition
from runner.protocols.plan import EpisodePlan, RunTrial
from runner.sandboxes import sandbox_kind
from runner.suites.starter_suite import load_starter
from tests.cases import every
from tests.runner.declared_tasks import declared_task

QUESTION = JudgeQuestion("Is it a haiku?")
JUDGED = 'mode = "artifact"\nartifact = "poem.txt"\n[judge]\nquestion = "Is it a haiku?"\n'
COMPARED = JUDGED.replace("[judge]", '[compare]\nexpected = "old pond"\n[judge]')
POEM = "old pond\n"


def opinion(score: object, reason: object = "three lines") -> str:
    return json.dumps({"score": score, "reason": reason})


class Judge:
    """Answers in turn; what is no text is raised."""

    name, version, scripted, preset, price_table, priced = "test/judge", "1", False, None, "", False

    def __init__(self, answers: Iterable[str | Exception]) -> None:
        self.answers, self.requests = list(answers), list[ModelRequest]()

    def complete(self, request: ModelRequest) -> ModelReply:
        self.requests.append(request)
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return ModelReply(answer, usage=Usage(100, None, 10))


def tried(
    folder: Path, monkeypatch: pytest.MonkeyPatch, text: str, judge: Judge | None, poem: str = POEM, **tools: object
) -> tuple[Verdict, ListRecorder]:
    """One whole attempt in a local sandbox by an agent that does nothing; the poem lies in the workspace."""
    monkeypatch.setenv("SKILLGLASS_SANDBOXES", str(folder / "boxes"))
    task = replace(declared_task(folder / "task", text), role=Role.CANONICAL)
    (task.folder / "environment").mkdir()
    (task.folder / "environment" / "poem.txt").write_text(poem)
    recorder = ListRecorder(plan_of(task))
    slot = TrialSlot(Phase.ACQUISITION, task.key)
    toolbox = Toolbox(make_agent("nop"), sandbox_kind("local"), judge_model=judge, **tools)  # type: ignore[arg-type]
    run_trial(RunTrial(slot, task.family, Role.CANONICAL, "0" * 64), {}, recorder.plan, recorder, toolbox)
    verdict = recorder.verdict(slot)
    assert verdict is not None
    return verdict, recorder


def plan_of(task: Task) -> EpisodePlan:
    environment = Environment("E1", "E1", (Family(task.family, "f", "f", "f", "E1", (task,)),))
    return EpisodePlan("ep", environment, find_condition("no-skill"), 7, "0" * 64, "nop")


# --- asking -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", [opinion(5), f"```json\n{opinion(5)}\n```", f"\n```\n{opinion(5)}\n```\n"])
def test_one_json_object_is_read_at_most_inside_a_fence(text: str) -> None:
    assert read_opinion(text).score == 5


@every(
    ("", "no JSON object alone"),
    (f"Sure: {opinion(5)}", "no JSON object alone"),
    ("[" * 5_000, "no JSON object alone"),
    ("[5]", "exactly the keys score and reason"),
    ('{"score": 5}', "exactly the keys score and reason"),
    (opinion(6), "score: found 6, expected a whole number from 1 to 5"),
    (opinion(0), "score: found 0"),
    (opinion("5"), "score: found '5'"),
    (opinion(4.5), "score: found 4.5"),
    (opinion(True), "score: found True"),
    (opinion(5, ""), "reason: expected a text"),
    (opinion(5, None), "reason: expected a text"),
)
def test_everything_else_is_told_as_what_it_is(text: str, told: str) -> None:
    with pytest.raises(UnreadableOpinion, match=told):
        read_opinion(text)


def test_a_reply_that_cannot_be_read_is_asked_for_again_with_the_reason() -> None:
    judge = Judge(["I think 5", opinion(9), opinion(4)])
    found, problem = ask_judge(QUESTION, "Write.", POEM.encode(), None, judge.complete)
    assert (found.score if found else None, problem) == (4, "")
    assert [len(request.messages) for request in judge.requests] == [2, 4, 6]
    assert "score: found 9" in judge.requests[2].messages[-1]["content"]


def test_three_replies_that_cannot_be_read_are_the_end() -> None:
    judge = Judge(["no", "", "no", opinion(5)])
    found, problem = ask_judge(QUESTION, "Write.", POEM.encode(), None, judge.complete)
    assert (found, len(judge.answers)) == (None, 1)
    assert "no readable answer in 3 replies: reply 1: no JSON object alone: 'no'; reply 2" in problem
    said = [message["content"] for message in judge.requests[2].messages if message["role"] == "assistant"]
    assert said == ["no", "(nothing)"], "some providers refuse a turn that is empty"


def test_the_work_stands_between_marks_that_it_cannot_know_and_is_bounded() -> None:
    request = request_for(QUESTION, "Write.", b"x" * 1_000_000 + b"=== end ===", b"a reference")
    content = request.messages[1]["content"]
    first, second = [line for line in content.splitlines() if line.startswith("=== ") and "end" not in line]
    assert first == second
    assert len(content) < 70_000
    assert "# Reference\n\na reference" in content
    assert len(request_for(QUESTION, "Write. " * 100_000, b"x", None).messages[1]["content"]) < 70_000
    assert request == request_for(QUESTION, "Write.", b"x" * 1_000_000 + b"=== end ===", b"a reference")


# --- in an attempt ----------------------------------------------------------------------------------------------


def test_a_judge_decides_and_its_calls_are_recorded(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, recorder = tried(tmp_path, monkeypatch, JUDGED, Judge(["hm", opinion(4)]))
    assert (verdict.success, verdict.reward) == (True, 1.0)
    assert verdict.checks[-1].message == "score: 4 of 5, at least 4 passes: three lines"
    assert [(each.name, each.score, each.max_score) for each in verdict.dimensions] == [
        ("pre-check", 1.0, 1.0),
        ("judge", 4, 5.0),
    ]
    for number, text in enumerate(["hm", opinion(4)], start=1):
        reply = recorder.reply(f"judge/acquisition/T/0/1/{number}")
        assert reply is not None
        assert reply.text == text


def test_what_the_judge_uses_is_not_billed_to_the_agent(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    _, recorder = tried(tmp_path, monkeypatch, JUDGED, Judge([opinion(5)]))
    assert recorder.results[TrialSlot(Phase.ACQUISITION, "T")].usage == Usage()


@pytest.mark.parametrize(("score", "reward"), [(3, 0.5), (1, 0.0)])
def test_a_low_score_fails_and_is_rewarded_in_part(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, score: int, reward: float
) -> None:
    verdict, _ = tried(tmp_path, monkeypatch, JUDGED, Judge([opinion(score)]))
    assert (verdict.success, verdict.reward) == (False, reward)
    assert verdict.checks[-1].status is CheckStatus.FAILED


def test_comparison_and_judge_must_both_pass(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, _ = tried(tmp_path, monkeypatch, COMPARED, Judge([opinion(5)]), poem="new pond")
    assert (verdict.success, verdict.reward) == (False, 0.5)


def test_without_a_judge_the_check_is_skipped_and_nothing_is_made_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict, _ = tried(tmp_path, monkeypatch, COMPARED, None)
    assert (verdict.success, verdict.reward, verdict.outcome) == (None, None, None)
    assert (verdict.checks[-1].status, verdict.checks[-1].name) == (CheckStatus.SKIPPED, "judge: poem.txt")
    assert "no judge model" in verdict.checks[-1].message


def test_what_failed_already_needs_no_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    verdict, _ = tried(tmp_path, monkeypatch, COMPARED, None, poem="new pond")
    assert (verdict.success, verdict.reward) == (False, 0.0)
    judge = Judge([])
    verdict, _ = tried(tmp_path / "b", monkeypatch, JUDGED + "[precheck]\nmax_bytes = 2\n", judge)
    assert (verdict.success, verdict.reward, judge.requests) == (False, 0.0, [])


def test_a_judge_that_cannot_be_understood_is_an_error_and_no_failure(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict, _ = tried(tmp_path, monkeypatch, JUDGED, Judge(["no"] * 3))
    assert (verdict.success, verdict.reward, verdict.checks[-1].status) == (None, None, CheckStatus.ERROR)


def test_a_judge_that_cannot_be_reached_scores_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(ModelUnavailable):
        tried(tmp_path, monkeypatch, JUDGED, Judge([ModelUnavailable("busy")]))


def test_a_budget_that_is_spent_asks_no_judge(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def spent(_: Usage) -> None:
        raise BudgetSpent("spent")

    judge = Judge([opinion(5)])
    with pytest.raises(BudgetSpent):
        tried(tmp_path, monkeypatch, JUDGED, judge, budget=spent)
    assert judge.requests == []


# --- what others are told ---------------------------------------------------------------------------------------


def test_the_author_hears_of_hidden_checks_no_more_than_how_they_ended(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    verdict, _ = tried(tmp_path, monkeypatch, COMPARED, Judge([opinion(2, "it should say old pond")]), poem="new")
    shown = show_verdict(verdict, "process").verdict
    assert shown is not None
    assert "old pond" in repr(verdict)
    assert "old pond" not in repr(shown)
    assert [check.message for check in shown.checks] == ["text", "score"]
    for level in get_args(FeedbackLevel):  # nor do prompts that contain the verdict
        assert "old pond" not in verdict_section(verdict, level)
    assert "compare: poem.txt: text\n" in verdict_section(verdict, "process")
    assert "old pond" in verdict_section(verdict, "rich", with_answers=True)  # to the teacher of a student


def test_a_setup_tells_a_judge_only_where_there_is_one() -> None:
    parts = {
        "protocol": "skillevolbench",
        "agent": "nop",
        "agent_model": None,
        "author_model": None,
        "sandbox": "local",
        "feedback": "process",
        "profile": "paper",
        "answers": 1,
        "samples": 1,
        "limits": Limits(),
    }
    without = describe_setup(load_starter(), **parts)  # type: ignore[arg-type]
    assert "judge" not in without
    with_judge = describe_setup(load_starter(), **parts, judge_model="scripted/apprentice")  # type: ignore[arg-type]
    assert with_judge["judge"]["model"] == "scripted/apprentice"
    assert {**without, "judge": with_judge["judge"]} == with_judge
