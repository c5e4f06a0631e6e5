"""Whole attempts as ATIF documents, held against Harbor's own validator."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest

from runner.agents import AgentJob, make_agent
from runner.base.types import (
    ModelReply,
    ModelRequest,
    Observation,
    Source,
    Step,
    Task,
    ToolCall,
    Trajectory,
    TrajectoryHead,
    TrajectoryKind,
    Usage,
)
from runner.sandboxes.local import open_sandbox
from runner.trajectories.atif_values import MAX_BYTES, atif_document, write_bounded
from runner.trajectories.readers.reading import open_file
from tests.harbor_validator import assert_valid_atif, complaints, written

pytestmark = pytest.mark.slow  # the validator is installed first

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "trajectories"
CALL = ToolCall("1", "shell", {"command": "ls"})
STEPS = (
    Step(1, Source.USER, "Do it.", timestamp="yesterday", usage=Usage(1)),
    Step(2, Source.AGENT, "", tool_calls=(CALL,), observations=(Observation("a", "1", is_error=True),), usage=Usage(9)),
    Step(3, Source.SYSTEM, observations=(Observation("late", "1"),), extra={"late_result": True}),
)


def test_it_writes_a_document_that_harbor_takes(tmp_path: Path) -> None:
    main = Trajectory(
        TrajectoryHead(agent_name="shell", agent_version="2", session_id="s"), STEPS, Usage(10, 2, 3, 0.5)
    )
    head = TrajectoryHead(kind=TrajectoryKind.SUBAGENT, name="subagent-1", parent="main", agent_name="shell")
    assert_valid_atif((main, Trajectory(head, STEPS[:2])), tmp_path)
    assert atif_document((main,))["final_metrics"] == {
        "total_prompt_tokens": 10,
        "total_cached_tokens": 2,
        "total_completion_tokens": 3,
        "total_cost_usd": 0.5,
        "total_steps": 3,
    }


class Brief:
    """A model that runs two commands, one of which fails, and submits."""

    name, version, scripted, preset, price_table, priced = "brief", "1", True, None, "", False

    def __init__(self) -> None:
        self.calls = [("shell", {"command": "echo 1"}), ("shell", {"command": "false"}), ("submit", {})]

    def complete(self, request: ModelRequest) -> ModelReply:
        name, arguments = self.calls.pop(0)
        return ModelReply(
            "So.", (ToolCall(f"c{len(self.calls)}", name, arguments),), Usage(10, 4, 2, 0.1), reasoning="Hm."
        )


def test_it_writes_what_our_own_agent_did(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("SKILLGLASS_SANDBOXES", str(tmp_path / "boxes"))
    task = Task("T", "t", "E1", "F1", None, 1, "Do it.", "0" * 64, tmp_path)
    sandbox = open_sandbox(task, name="t")
    try:
        run = make_agent("shell").run(AgentJob(task, "Do it.", (), 7), sandbox, Brief(), lambda step: None)
    finally:
        sandbox.close()
    assert run.turns == 3
    assert_valid_atif(run.trajectories, tmp_path)
    assert [step["source"] for step in atif_document(run.trajectories)["steps"]] == ["system", "user"] + 3 * ["agent"]


def test_it_holds_every_format_we_read_against_harbor(tmp_path: Path) -> None:
    paths = [path for path in sorted(FIXTURES.rglob("*")) if path.is_file()]
    documents = []
    for path in paths:
        read = open_file(path)
        trajectories = (read.load(), *(subagent.load() for subagent in read.subagents))
        if trajectories[0].steps:
            documents.append(written(trajectories, tmp_path / path.name))
    assert len(documents) >= 10
    assert complaints(*documents) == {}


def test_harbor_refuses_what_is_no_document(tmp_path: Path) -> None:
    document = atif_document((Trajectory(TrajectoryHead(agent_name="shell", agent_version="2"), STEPS),))
    document["steps"][1]["step_id"] = 7
    (tmp_path / "broken.json").write_text(json.dumps(document))
    (said,) = complaints(tmp_path / "broken.json").values()
    assert any("step" in complaint for complaint in said)


def test_a_document_for_programs_is_cut_to_size_and_stays_valid(tmp_path: Path) -> None:
    short = Trajectory(TrajectoryHead(agent_name="shell", agent_version="2"), STEPS)
    assert json.loads(write_bounded((short,))) == atif_document((short,))
    long = ToolCall("1", "shell", {"command": "begin" + "x" * MAX_BYTES + "end"})
    work = Step(2, Source.AGENT, "é" * MAX_BYTES, tool_calls=(long,), observations=(Observation("a", "1"),))
    written = write_bounded((replace(short, steps=(STEPS[0], work)),))
    assert len(written) <= MAX_BYTES
    (tmp_path / "cut.json").write_bytes(written)
    assert complaints(tmp_path / "cut.json") == {}
    command = json.loads(written)["steps"][1]["tool_calls"][0]["arguments"]["command"]
    assert command.startswith("beginx")
    assert command.endswith("xend")
    assert "characters left out" in command


def test_a_document_that_no_cut_makes_small_is_left_out() -> None:
    steps = tuple(Step(number, Source.USER, "Do it.") for number in range(1, MAX_BYTES // 50))
    assert write_bounded((Trajectory(TrajectoryHead(), steps),)) == b""
    assert write_bounded(()) == write_bounded((Trajectory(TrajectoryHead(), ()),)) == b""


def test_it_refuses_an_attempt_without_a_step() -> None:
    with pytest.raises(ValueError, match="at least one step"):
        atif_document(())
