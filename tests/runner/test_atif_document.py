"""Whole attempts as ATIF documents, held against Harbor's own validator."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner.trajectories.atif_document import atif_document
from runner.trajectories.reading import open_file
from runner.types import Observation, Source, Step, ToolCall, Trajectory, TrajectoryHead, TrajectoryKind, Usage
from tests.harbor_validator import assert_valid_atif, complaints, written

pytestmark = pytest.mark.slow  # the validator is installed first

FIXTURES = Path(__file__).resolve().parents[1] / "fixtures" / "trajectories"
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
    assert_valid_atif((main, Trajectory(head, STEPS[:2])), None, tmp_path)
    assert atif_document((main,))["final_metrics"] == {
        "total_prompt_tokens": 10,
        "total_cached_tokens": 2,
        "total_completion_tokens": 3,
        "total_cost_usd": 0.5,
        "total_steps": 3,
    }


def test_it_holds_every_format_we_read_against_harbor(tmp_path: Path) -> None:
    paths = [path for path in sorted(FIXTURES.rglob("*")) if path.is_file()]
    documents = []
    for path in paths:
        read = open_file(path)
        trajectories = (read.load(), *(subagent.load() for subagent in read.subagents))
        if trajectories[0].steps:
            documents.append(written(trajectories, None, tmp_path / path.name))
    assert len(documents) >= 10
    assert complaints(*documents) == {}


def test_harbor_refuses_what_is_no_document(tmp_path: Path) -> None:
    document = atif_document((Trajectory(TrajectoryHead(agent_name="shell", agent_version="2"), STEPS),))
    document["steps"][1]["step_id"] = 7
    (tmp_path / "broken.json").write_text(json.dumps(document))
    (said,) = complaints(tmp_path / "broken.json").values()
    assert any("step" in complaint for complaint in said)


def test_it_refuses_an_attempt_without_a_step() -> None:
    with pytest.raises(ValueError, match="at least one step"):
        atif_document(())
