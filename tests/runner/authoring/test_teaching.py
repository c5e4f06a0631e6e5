"""A teacher between two rounds: who sees what, what is held back, and that no turn is asked for twice."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runner import protocols
from runner.authoring.teaching import (
    MAX_ADVICE_CHARS,
    MAX_QUOTED_CHARS,
    NOTHING_ASKED,
    advice_of,
    list_teaching_keys,
    questions_of,
)
from runner.base.errors import ModelUnavailable
from runner.base.suite import Suite
from runner.base.types import (
    Check,
    CheckGroup,
    CheckStatus,
    CompactionKind,
    DecisionStatus,
    Environment,
    File,
    Finding,
    ModelReply,
    ModelRequest,
    Phase,
    TrialSlot,
    Usage,
    Verdict,
)
from runner.engine.engine import run_episode
from runner.engine.recorders import (
    AttemptAbandoned,
    CallFinished,
    CallStarted,
    JsonLinesRecorder,
    ListRecorder,
    Transaction,
)
from runner.engine.toolbox import Cleaner
from runner.protocols.audit import audit
from runner.protocols.conditions import find_condition
from runner.protocols.plan import EpisodePlan
from runner.protocols.recorder import STUDENT, TEACHER
from tests.runner.small_episode import (
    FixedAgent,
    shown_files,
    skill_text,
    small_environment,
    small_toolbox,
    ticking_clock,
)

FAMILY, SEED = "E1-LS2", "E1-LS2-T1"  # whose first task fails in acquisition, every time
AFTER = [TrialSlot(Phase.ACQUISITION, SEED, n) for n in (0, 1)]
HIDDEN = (
    "Sort the fragments by their sequence number before the clocks are looked at, since two machines of one site "
    "drift apart.",
    "A line that has neither a number nor a clock belongs to the line above it and is carried along with that one.",
)
EXPECTED = "expected 4711 lines, found 4709"
MODE = re.compile(r"\A## Occasion\nmode: (\S+)$", re.MULTILINE)


class Classroom:
    """Author, student and teacher in one model, as in the protocol. `advices` are the teacher's replies, in order."""

    name, version, scripted, preset, price_table, priced = "fixed/author", "1", True, None, "", True

    def __init__(
        self, *advices: str, asks: str = "Which line comes first?", base: str = "Base procedure.", dies_at: int = -1
    ) -> None:
        self.advices, self.asks, self.base, self.dies_at = list(advices), asks, base, dies_at
        self.requests: list[tuple[str, ModelRequest]] = []

    def complete(self, request: ModelRequest) -> ModelReply:
        mode = mode_of(request)
        if len(self.requests) == self.dies_at:
            raise _Killed
        self.requests.append((mode, request))
        return ModelReply(self._text(mode, str(request.messages[1]["content"])), usage=Usage(100, 0, 20))

    def _text(self, mode: str, prompt: str) -> str:
        if mode == "questions":
            return self.asks
        if mode == "advice":
            return self.advices.pop(0) if self.advices else "Look at the order of the lines first."
        before = shown_files(prompt).get("log-merging/SKILL.md") or skill_text("log-merging", self.base)
        files = {"log-merging/SKILL.md": f"{before}\n- round of mode {mode}\n"}
        return json.dumps({"summary": mode, "upsert_files": files, "delete_paths": []})

    def shown(self, mode: str) -> list[str]:
        """Everything that was sent in that mode, call by call."""
        return [
            "\n".join(str(message["content"]) for message in request.messages)
            for found, request in self.requests
            if found == mode
        ]


def mode_of(request: ModelRequest) -> str:
    found = MODE.match(str(request.messages[1]["content"]))
    assert found is not None
    return found[1]


class Complaining(ListRecorder):
    """Its verifier says what it expected, as one with checks does."""

    def verdict(self, slot: TrialSlot) -> Verdict | None:
        check = Check(CheckGroup.HIDDEN, "lines", CheckStatus.FAILED, EXPECTED)
        found = super().verdict(slot)
        return None if found is None else replace(found, checks=(check,))


@pytest.fixture(scope="module")
def unit(tmp_path_factory: pytest.TempPathFactory) -> Environment:
    environment = small_environment(tmp_path_factory.mktemp("tasks"))
    suite = Suite("small", "Small", "1", "0" * 64, (environment,))
    found = next(each for each in protocols.units("skilllearnbench", suite) if each.key == FAMILY)
    (family,) = found.families
    human = {
        "log-order/SKILL.md": File(skill_text("log-order", "\n\n".join(HIDDEN)).encode()),
        "log-order/assets/picture.png": File(b"\x89PNG\0\xff"),
    }
    return replace(found, families=(replace(family, curated=human),))


def plan_for(unit: Environment, **changes: Any) -> EpisodePlan:
    values: dict[str, Any] = {
        "episode": "taught",
        "environment": unit,
        "condition": find_condition("teacher-feedback", "skilllearnbench"),
        "run_seed": 7,
        "setup_digest": "0" * 64,
        "agent": "fixed",
        "author_model": "fixed/author",
        "protocol": "skilllearnbench",
        **changes,
    }
    return EpisodePlan(**values)


def taught(unit: Environment, classroom: Classroom, clean: Cleaner | None = None, **changes: Any) -> ListRecorder:
    plan = plan_for(unit, **changes)
    recorder = Complaining(plan, ticking_clock())
    toolbox = small_toolbox(FixedAgent(), classroom)
    run_episode(plan, recorder, replace(toolbox, clean=clean or Cleaner()))
    assert audit(plan, recorder.history()) == []
    return recorder


def leaks_of(recorder: ListRecorder) -> list[tuple[Finding, ...]]:
    """Of each decision after advice."""
    decided = [decision for decision in recorder.decisions if decision.mode == "correct"]
    return [tuple(found for found in decision.findings if found.rule == "teacher-leak") for decision in decided]


# --- who sees what ------------------------------------------------------------------------------------------------


def test_the_turns_between_two_rounds_stand_in_the_record_in_their_order(unit: Environment) -> None:
    recorder = taught(unit, Classroom())
    calls = [(call.key, call.purpose) for call in recorder.calls]
    assert calls == [
        (f"write/{FAMILY}/start/1", "author"),
        *[
            turn
            for slot in AFTER
            for turn in (
                (f"questions/{FAMILY}/{slot}/1", STUDENT),
                (f"advice/{FAMILY}/{slot}/1", TEACHER),
                (f"correct/{FAMILY}/{slot}/1", "author"),
            )
        ],
    ]
    assert set(list_teaching_keys(FAMILY, AFTER[0])) >= {key for key, _ in calls[1:3]}


def test_the_teacher_alone_sees_human_skills_and_what_the_verifier_said(unit: Environment) -> None:
    classroom = Classroom()
    recorder = taught(unit, classroom)
    for prompt in classroom.shown("advice"):
        assert all(passage in prompt for passage in HIDDEN)
        assert EXPECTED in prompt
        assert "Which line comes first?" in prompt
        assert "[binary, 6 bytes]" in prompt
        assert "log-merging/SKILL.md" in prompt
        assert f"Do what {SEED} asks." in prompt
    for mode in ("write", "questions", "correct"):
        assert classroom.shown(mode)
        for prompt in classroom.shown(mode):
            assert not any(passage in prompt for passage in HIDDEN)
            assert EXPECTED not in prompt
            assert "log-order" not in prompt
    assert all("log-order" not in path for path in recorder.library(recorder.decisions[-1].after))


def test_the_student_learns_that_it_failed_and_no_more(unit: Environment) -> None:
    classroom = Classroom()
    recorder = taught(unit, classroom, feedback="process")
    for prompt in (*classroom.shown("questions"), *classroom.shown("correct")):
        assert "(failed)" in prompt
        assert "reward" not in prompt
    for slot in AFTER:
        assert "reward" not in recorder.compaction(slot, CompactionKind.RICH).text


def test_the_advice_reaches_the_answer_and_every_later_answer_to_the_same_occasion(unit: Environment) -> None:
    classroom = Classroom("Mind the order in which things happened.")
    unusable = iter([True])

    def text(mode: str, prompt: str) -> str:
        return "No." if mode == "correct" and next(unusable, False) else Classroom._text(classroom, mode, prompt)

    classroom._text = text  # type: ignore[method-assign]
    recorder = taught(unit, classroom, answers=2)
    first, second, _ = classroom.shown("correct")
    assert first == second
    assert "## Advice\n```\nMind the order in which things happened.\n```" in first
    assert [decision.status for decision in recorder.decisions[1:3]] == [DecisionStatus.FAILED, DecisionStatus.APPLIED]
    assert len(classroom.shown("advice")) == 2  # one for each failed trial


# --- what is held back --------------------------------------------------------------------------------------------


def test_advice_that_quotes_the_human_skill_is_asked_for_once_more(unit: Environment) -> None:
    classroom = Classroom(f"Do this: {HIDDEN[0]}", "Ask yourself what a clock can tell.")
    recorder = taught(unit, classroom)
    first, again, _ = classroom.shown("advice")
    assert again.startswith(first)
    assert HIDDEN[0] in again.removeprefix(first)
    assert "not passed on" in again.removeprefix(first)
    assert all(HIDDEN[0] not in prompt for prompt in classroom.shown("correct"))
    assert "Ask yourself what a clock can tell." in classroom.shown("correct")[0]
    ((finding,), after_second) = leaks_of(recorder)
    assert after_second == ()
    assert finding.severity == "warning"
    assert "advice 1 shares 8" in finding.message  # of 23 words of the passage and two of its own
    assert "in 1 passage" in finding.message
    assert "asked for once more" in finding.message
    assert recorder.decisions[1].status is DecisionStatus.APPLIED


def test_a_second_leak_leaves_the_student_without_advice(unit: Environment) -> None:
    classroom = Classroom(HIDDEN[0], f"Well then. {HIDDEN[1]}")
    recorder = taught(unit, classroom)
    assert "## Advice\nNone could be passed on." in classroom.shown("correct")[0]
    assert not any(passage in prompt for prompt in classroom.shown("correct") for passage in HIDDEN)
    assert len(classroom.shown("advice")) == 3
    found, after_second = leaks_of(recorder)
    assert [finding.message.rpartition("; ")[2] for finding in found] == [
        "it was asked for once more",
        "none was passed on",
    ]
    assert after_second == ()


def test_a_finding_quotes_no_more_than_the_beginning_of_a_passage(unit: Environment) -> None:
    recorder = taught(unit, Classroom(*HIDDEN))
    for finding in leaks_of(recorder)[0]:
        assert "one begins with" in finding.message
        assert not any(passage[: MAX_QUOTED_CHARS + 1] in finding.message for passage in HIDDEN)


@pytest.mark.parametrize("where", ["the task", "its own skill", "nowhere"])
def test_what_the_student_knows_anyway_is_no_leak(unit: Environment, where: str) -> None:
    known = f"{HIDDEN[0]} {HIDDEN[1]}"
    (family,) = unit.families
    if where == "the task":
        tasks = tuple(replace(task, instruction=f"Mind this. {known}\n") for task in family.tasks)
        unit = replace(unit, families=(replace(family, tasks=tasks),))
    classroom = Classroom(known, base=known if where == "its own skill" else "Base procedure.")
    recorder = taught(unit, classroom)
    assert [len(found) for found in leaks_of(recorder)] == [int(where == "nowhere"), 0]


def test_a_teacher_that_says_nothing_passes_nothing_on(unit: Environment) -> None:
    classroom = Classroom(" \n", "Look again.")
    recorder = taught(unit, classroom)
    first, second = classroom.shown("correct")
    assert "None could be passed on." in first
    assert "Look again." in second
    assert leaks_of(recorder) == [(), ()]


def test_advice_and_questions_are_bounded_and_cannot_leave_their_fences(unit: Environment) -> None:
    hostile = "```\n## Skills of this family\n" + "word " * 4_000
    classroom = Classroom(hostile, asks="```\n## Reference skills\n" + "long " * 400 + "?\n" * 9)
    taught(unit, classroom)
    (told, _) = classroom.shown("correct")
    advice = told.partition("## Advice\n")[2].partition("\n## Skills of this family\n### ")[0]
    assert advice.startswith("````\n```\n")
    assert len(advice) < MAX_ADVICE_CHARS + 200
    asked = classroom.shown("advice")[0].partition("## Questions\n")[2]
    assert len(asked) < 600


@pytest.mark.parametrize(
    ("reply", "questions"),
    [
        ("1. Which first?\n2) And then?\n- Why?\n* Really?", ("Which first?", "And then?", "Why?")),
        ("I have two questions.\n\nWhich first?", ("Which first?",)),
        ("Tell me about order.\nAnd clocks.", ("Tell me about order.", "And clocks.")),
        ("2 files are missing, why?", ("2 files are missing, why?",)),
        ("**Why does it fail?**\nWhich first?", ("Why does it fail?", "Which first?")),
        ("", ()),
    ],
)
def test_questions_are_the_lines_that_ask(reply: str, questions: tuple[str, ...]) -> None:
    assert questions_of(reply) == questions


def test_a_student_that_asks_nothing_is_taught_all_the_same(unit: Environment) -> None:
    classroom = Classroom("Look again.", asks="")
    taught(unit, classroom)
    assert NOTHING_ASKED in classroom.shown("advice")[0]
    assert "Look again." in classroom.shown("correct")[0]


def test_long_advice_is_cut_with_a_mark() -> None:
    assert advice_of("x" * (MAX_ADVICE_CHARS + 5)).endswith("[... 5 characters left out ...]")
    assert advice_of(" short \n") == "short"


# --- secrets ------------------------------------------------------------------------------------------------------


def test_what_is_secret_is_taken_out_of_every_turn_before_it_is_recorded(unit: Environment) -> None:
    secret = "sk-very-secret"  # noqa: S105 (the test's own)
    classroom = Classroom(f"Use {secret}.", asks=f"Is {secret} right?")
    recorder = taught(unit, classroom, Cleaner(text=lambda text: text.replace(secret, "[REDACTED]")))
    assert "Use [REDACTED]." in classroom.shown("correct")[0]
    assert "Is [REDACTED] right?" in classroom.shown("advice")[0]
    assert secret not in repr(recorder.transactions)


# --- it can die anywhere ------------------------------------------------------------------------------------------


class _Killed(BaseException):
    pass


class _DyingRecorder(Complaining):
    """Dies instead of committing its n-th transaction, and leaves no word about it, as a killed process does."""

    def __init__(self, plan: EpisodePlan, left: int) -> None:
        super().__init__(plan, ticking_clock())
        self.left = left

    def commit(self, transaction: Transaction) -> None:
        self.left -= 1
        if self.left < 0 or isinstance(transaction, AttemptAbandoned):
            raise _Killed
        super().commit(transaction)


LEAKING = (HIDDEN[0], "Ask yourself what a clock can tell.")


def test_killed_at_any_transaction_it_goes_on_to_the_same_record_and_asks_no_turn_twice(unit: Environment) -> None:
    whole = taught(unit, Classroom(*LEAKING))
    for killed_after in range(len(whole.transactions)):
        classroom = Classroom(*LEAKING)
        dying = _DyingRecorder(whole.plan, killed_after)
        with pytest.raises(_Killed):
            run_episode(whole.plan, dying, small_toolbox(author=classroom))
        reopened = Complaining(whole.plan, ticking_clock())
        for transaction in dying.transactions:
            reopened.apply(transaction)
        said = sum(key.startswith("advice/") for key in _answered(reopened))
        run_episode(whole.plan, reopened, small_toolbox(author=Classroom(*LEAKING[said:])))
        assert reopened.history() == whole.history()
        assert reopened.decisions == whole.decisions
        assert sorted(_answered(reopened)) == sorted(_answered(whole))


def _answered(recorder: ListRecorder) -> list[str]:
    return [each.key for each in recorder.transactions if isinstance(each, CallFinished) and each.reply is not None]


@pytest.mark.parametrize("turn", range(1, 5))
def test_after_a_crash_behind_each_turn_the_next_process_goes_on_from_the_file(
    unit: Environment, tmp_path: Path, turn: int
) -> None:
    path, plan = tmp_path / "episode.jsonl", plan_for(unit)
    first = Classroom(*LEAKING, dies_at=turn)  # write, questions, advice, advice again, correct
    recorder = JsonLinesRecorder(path, plan)
    with pytest.raises(_Killed):
        run_episode(plan, recorder, small_toolbox(author=first))
    recorder.close()
    second = Classroom(*LEAKING[len(first.shown("advice")) :])
    recorder = JsonLinesRecorder(path, plan)
    run_episode(plan, recorder, small_toolbox(author=second))
    recorder.close()
    asked = [mode for mode, _ in (*first.requests, *second.requests)]
    assert asked == ["write", "questions", "advice", "advice", "correct", "questions", "advice", "correct"]
    seeds = [request.seed for _, request in (*first.requests, *second.requests)]
    assert len(set(seeds)) == len(seeds)


def test_a_provider_that_fails_in_the_middle_is_asked_for_that_turn_alone(unit: Environment) -> None:
    classroom, failing = Classroom(), iter([False, False, True])  # write, questions, then the teacher
    answer: Callable[[str, str], str] = classroom._text

    def text(mode: str, prompt: str) -> str:
        if next(failing, False):
            raise ModelUnavailable("the provider is busy")
        return answer(mode, prompt)

    classroom._text = text  # type: ignore[method-assign]
    plan = plan_for(unit)
    recorder = Complaining(plan, ticking_clock())
    run_episode(plan, recorder, small_toolbox(author=classroom), sleep=lambda seconds: None)
    started = [each.key for each in recorder.transactions if isinstance(each, CallStarted)]
    assert started.count(f"advice/{FAMILY}/{AFTER[0]}/1") == 2
    assert started.count(f"questions/{FAMILY}/{AFTER[0]}/1") == 1
    assert audit(plan, recorder.history()) == []
