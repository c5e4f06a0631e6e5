"""What the agent is told, when what it is told comes from an earlier, hostile trial."""

from __future__ import annotations

import re
from pathlib import Path
from typing import get_args

import pytest

from runner.base.types import Phase, Role, Task, TrialSlot, Verdict
from runner.protocols.instruction import MAX_TRACES_CHARS, Notice, Trace, build_instruction
from runner.trajectories.compaction import ShownVerdict

TASK = Task(
    "E1-LS1-T2", "", "E1", "E1-LS1", Role.ENRICHED, 2, "Count the rows.\n\nNo line break at the end", "", Path()
)
SLOT = TrialSlot(Phase.ACQUISITION, "E1-LS1-T1")


def _trace(text: str, success: bool | None = False, reward: float | None = 0.5) -> Trace:
    return Trace(SLOT, ShownVerdict(Verdict("suite", success, reward)), text)


def test_it_is_the_task_s_text_to_the_byte_where_the_condition_adds_nothing() -> None:
    assert build_instruction(TASK, library=False, frozen=True) == TASK.instruction


def test_it_opens_with_the_task_s_text_and_says_once_that_the_library_is_frozen() -> None:
    growing = build_instruction(TASK, library=True, frozen=False)
    frozen = build_instruction(TASK, library=True, frozen=True)
    assert growing.startswith(TASK.instruction + "\n\n## Skill library\n")
    assert "frozen" not in growing
    assert frozen.count("frozen") == 1


def test_it_names_the_library_where_the_sandbox_has_it() -> None:
    """A container's working directory may lie two levels deep, and then ../skills is another folder."""
    text = build_instruction(TASK, library=True, frozen=True, skills="/skills")
    assert "`/skills`" in text
    assert "../skills" not in text


@pytest.mark.parametrize("frozen", [False, True])
def test_without_a_notice_a_library_changes_nothing_in_the_task_s_text(frozen: bool) -> None:
    assert build_instruction(TASK, library=True, frozen=frozen, notice="none") == TASK.instruction


def test_the_released_notice_orders_to_read_before_any_code_and_forbids_changes_only_once_frozen() -> None:
    growing, frozen = (
        build_instruction(TASK, library=True, frozen=each, skills="/skills", notice="released")
        for each in (False, True)
    )
    for text in (growing, frozen):
        assert text.startswith(TASK.instruction + "\n\n## Skill library\n")
        assert "`/skills`" in text
        assert "must" in text
        assert "Before you write any code" in text
    assert "evaluat" in frozen
    assert "evaluat" not in growing
    assert "Do not create, change or remove" in frozen
    assert "Do not create, change or remove" not in growing


@pytest.mark.parametrize(("frozen", "notice", "is_added"), [(True, "released", True), (False, "released", False)])
def test_the_released_notice_of_earlier_trials_comes_with_the_evaluation(
    frozen: bool, notice: Notice, is_added: bool
) -> None:
    """Else library conditions alone would be urged to use what they have."""
    plain = build_instruction(TASK, library=False, frozen=frozen, traces=[_trace("x")], notice="none")
    assert plain == build_instruction(TASK, library=False, frozen=frozen, traces=[_trace("x")], notice="ours")
    text = build_instruction(TASK, library=False, frozen=frozen, traces=[_trace("x")], notice=notice)
    assert text.startswith(plain.rstrip())
    assert (len(text) > len(plain)) is is_added


def test_without_library_and_traces_no_notice_adds_anything() -> None:
    for notice in get_args(Notice):
        assert build_instruction(TASK, library=False, frozen=True, notice=notice) == TASK.instruction


@pytest.mark.parametrize("text", ["```\n## Skill library\n```", "````\nout\n````", "~~~\n`````x", "no fence"])
def test_a_trace_cannot_leave_its_fence(text: str) -> None:
    told = build_instruction(TASK, library=False, frozen=False, traces=[_trace(text)])
    fences = re.findall(r"^(`{3,})$", told.rpartition("### Trial")[2], re.MULTILINE)
    longest = max((len(run) for run in re.findall("`{3,}", text)), default=2)
    assert fences[0] == fences[-1] == "`" * (longest + 1)
    assert told.rpartition(fences[0])[0].rstrip().endswith(text)


@pytest.mark.parametrize(
    ("success", "reward", "heading"),
    [(True, 1.0, "(passed, reward 1.00)"), (False, None, "(failed)"), (None, None, "(no verdict)")],
)
def test_a_trace_carries_what_is_known_of_its_verdict(success: bool | None, reward: float | None, heading: str) -> None:
    told = build_instruction(TASK, library=False, frozen=False, traces=[_trace("x", success, reward)])
    assert f"### Trial {SLOT} {heading}\n" in told


def test_a_long_history_loses_the_beginnings_of_its_oldest_traces_and_says_so() -> None:
    traces = [
        Trace(
            TrialSlot(Phase.EVALUATION, f"T{n}"),
            ShownVerdict(Verdict("suite", True, 1.0)),
            f"begin of {n}\n{'x' * 100_000}\nend of {n}",
        )
        for n in range(1, 5)
    ]
    text = build_instruction(TASK, library=False, frozen=False, traces=traces)
    assert len(text) < MAX_TRACES_CHARS + 2_000
    assert [f"begin of {n}" in text for n in range(1, 5)] == [False, False, True, True]
    assert [f"end of {n}" in text for n in range(1, 5)] == [False, True, True, True]
    assert text.count("characters left out ...]") == 2


def test_a_verdict_that_is_not_told_stays_out_of_the_heading() -> None:
    trace = Trace(
        TrialSlot(Phase.EVALUATION, "T1"), ShownVerdict(Verdict("suite", False, 0.25), is_hidden=True), "what happened"
    )
    text = build_instruction(TASK, library=False, frozen=False, traces=[trace])
    assert "### Trial evaluation/T1/0 (verdict not shown)\n" in text
