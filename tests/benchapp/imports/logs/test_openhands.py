"""What OpenHands keeps: lines of evaluations, conversations with a file an event, lists of events; versions 0 and 1."""

from __future__ import annotations

import json
from io import BytesIO
from pathlib import Path
from typing import Any

import pytest

from benchapp.imports.batch import import_paths
from benchapp.imports.format_check import check_format
from benchapp.imports.logs import openhands
from benchapp.models import Run, Trajectory, Trial
from runner.base.types import Step
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.reading import read_trajectory, sniff
from tests.benchapp.import_folders import write

pytestmark = pytest.mark.django_db
AT = "2026-03-01T10:00:0{}.000000"


def response(*calls: str, ident: str = "r1") -> dict[str, Any]:
    """A model's response that asks for these calls, whose ids are their commands."""
    asked = [
        {"id": call, "function": {"name": "execute_bash", "arguments": json.dumps({"command": call})}} for call in calls
    ]
    usage = {"prompt_tokens": 100, "completion_tokens": 10, "prompt_tokens_details": {"cached_tokens": 40}}
    return {
        "id": ident,
        "model": "lab/model-1",
        "choices": [{"message": {"role": "assistant", "content": "Look.", "tool_calls": asked}}],
        "usage": usage,
    }


def ran(number: int, call: str, answer: dict[str, Any], code: int = 0) -> list[dict[str, Any]]:
    about = {"function_name": "execute_bash", "tool_call_id": call, "model_response": answer}
    args = {"command": call, "thought": "Look." if number == 3 else "", "hidden": False, "cwd": None}
    action = {
        "id": number,
        "timestamp": AT.format(number),
        "source": "agent",
        "action": "run",
        "args": args,
        "tool_call_metadata": about,
    }
    seen = {
        "id": number + 1,
        "timestamp": AT.format(number + 1),
        "source": "agent",
        "cause": number,
        "observation": "run",
        "content": f"out of {call}",
        "extras": {"command": call, "metadata": {"exit_code": code}},
        "tool_call_metadata": {**about, "model_response": None},
    }
    return [action, seen]


SYSTEM = {
    "id": 0,
    "timestamp": AT.format(0),
    "source": "agent",
    "action": "system",
    "args": {"content": "You are.", "openhands_version": "0.35"},
}
ASKED = {
    "id": 1,
    "timestamp": AT.format(1),
    "source": "user",
    "action": "message",
    "args": {"content": "Fix it.\nNow."},
    "message": "Fix it.",
}
IDLE = {
    "id": 2,
    "timestamp": AT.format(2),
    "source": "environment",
    "observation": "agent_state_changed",
    "content": "",
    "extras": {},
}
TWO = response("ls", "cat x")
HISTORY = [SYSTEM, ASKED, IDLE, *ran(3, "ls", TWO), *ran(5, "cat x", TWO, code=1)]


def row(ident: str, **changes: Any) -> dict[str, Any]:
    found = {
        "instance_id": ident,
        "test_result": {"git_patch": "diff", "report": {"resolved": True, "failed_apply_patch": False}},
        "instruction": "<uploaded_files>\nFix it.",
        "metadata": {
            "agent_class": "CodeActAgent",
            "llm_config": {"model": "lab/model-1", "api_key": "sk-SECRET-1234567890"},
        },
        "history": HISTORY,
        "metrics": {
            "accumulated_cost": 0.0,
            "accumulated_token_usage": {"prompt_tokens": 100, "completion_tokens": 10},
        },
        "error": None,
    }
    return {**found, **changes}


def reading(value: Any) -> tuple[ReadTrajectory, list[Step]]:
    content = json.dumps(value).encode()
    found = read_trajectory(lambda: BytesIO(content))
    return found, list(found.steps)


def brief(steps: list[Step]) -> list[tuple[str, str, list[str], list[tuple[str, bool]]]]:
    return [
        (str(s.source), s.message, [c.name for c in s.tool_calls], [(o.content, o.is_error) for o in s.observations])
        for s in steps
    ]


# --- events -----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "shape", [HISTORY, {"trajectory": HISTORY}, {"history": [[event, event] for event in HISTORY[:0]] + HISTORY}]
)
def test_calls_of_one_response_are_one_step_whose_tokens_count_once(shape: Any) -> None:
    found, steps = reading(shape)
    assert brief(steps) == [
        ("system", "You are.", [], []),
        ("user", "Fix it.\nNow.", [], []),
        ("agent", "Look.", ["execute_bash", "execute_bash"], [("out of ls", False), ("out of cat x", True)]),
    ]
    assert (found.usage.input_tokens, found.usage.cached_tokens, found.usage.output_tokens) == (100, 40, 10)
    assert (found.head.agent_version, steps[2].model) == ("0.35", "lab/model-1")
    assert found.facts["events_without_step"] == {"agent_state_changed": 1}


def test_the_oldest_events_have_no_ids() -> None:
    """Those of 2024 have their arguments next to the action, and no source."""
    old = [
        {"content": "Add a license.", "action": "message"},
        {"command": "touch LICENSE", "thought": "I create it.", "action": "run"},
        {"content": "no space", "command": "touch LICENSE", "exit_code": 1, "observation": "run"},
        {"outputs": {}, "thought": "Done.", "action": "finish"},
    ]
    content = json.dumps(old).encode()
    steps = list(read_trajectory(lambda: BytesIO(content), source_format="openhands").steps)
    assert brief(steps) == [
        ("user", "Add a license.", [], []),
        ("agent", "I create it.", ["run"], [("no space", True)]),
        ("agent", "Done.", ["finish"], []),
    ]


NEW = [
    {
        "kind": "SystemPromptEvent",
        "source": "agent",
        "system_prompt": {"type": "text", "text": "You are."},
        "tools": [],
    },
    {
        "kind": "MessageEvent",
        "source": "user",
        "llm_message": {"role": "user", "content": [{"type": "text", "text": "Fix it."}]},
        "extended_content": [{"type": "text", "text": "A skill."}],
    },
    {
        "kind": "ActionEvent",
        "source": "agent",
        "thought": [{"type": "text", "text": "Look."}],
        "reasoning_content": "Hm.",
        "action": {"kind": "TerminalAction", "command": "ls"},
        "tool_name": "terminal",
        "tool_call_id": "c1",
        "tool_call": {"id": "c1", "name": "terminal", "arguments": '{"command": "ls"}'},
        "llm_response_id": "r1",
    },
    {
        "kind": "ObservationEvent",
        "source": "environment",
        "tool_name": "terminal",
        "tool_call_id": "c1",
        "observation": {"kind": "TerminalObservation", "content": [{"type": "text", "text": "x"}], "exit_code": 2},
    },
    {"kind": "Condensation", "source": "environment", "summary": "It was short.", "forgotten_event_ids": []},
    {"kind": "PauseEvent", "source": "user"},
    {"kind": "AgentErrorEvent", "source": "agent", "tool_name": "terminal", "error": "no such tool"},
]
NEW = [{"id": str(number), "timestamp": AT.format(number), **event} for number, event in enumerate(NEW)]


def test_events_of_version_1() -> None:
    assert sniff(BytesIO(json.dumps(NEW).encode())) == "openhands"
    found, steps = reading(NEW)
    assert brief(steps) == [
        ("system", "You are.", [], []),
        ("user", "Fix it.\nA skill.", [], []),
        ("agent", "Look.", ["terminal"], [("x", True)]),
        ("system", "It was short.", [], []),
        ("system", "", [], [("no such tool", True)]),
    ]
    assert steps[2].reasoning == "Hm."
    assert found.facts["events_without_step"] == {"PauseEvent": 1}


def test_a_list_of_events_is_a_session(tmp_path: Path) -> None:
    path = write(tmp_path / "trajectory.json", HISTORY)
    assert list(import_paths([path]).problems) == []
    assert Trial.objects.values_list("task__title", "success", "input_tokens").get() == ("Fix it. Now.", None, 100)
    assert Run.objects.get().harness == "openhands"


# --- evaluations and conversations ------------------------------------------------------------------------------------


@pytest.fixture
def output(tmp_path: Path) -> Path:
    rows = [
        row("a-1"),
        row("a-2", test_result={"git_patch": ""}, error="AgentStuckInLoopError"),
        row("a-3", test_result={"score": False}),
    ]
    return write(tmp_path / "swe" / "run-1" / "output.jsonl", "".join(f"{json.dumps(each)}\n" for each in rows))


def test_a_line_is_a_trial_and_only_a_report_judges_it(output: Path) -> None:
    assert list(import_paths([output]).problems) == []
    found = Trial.objects.order_by("task__key").values_list("task__key", "success", "exception_type", "input_tokens")
    assert list(found) == [("a-1", True, "", 100), ("a-2", None, "error", 100), ("a-3", False, "", 100)]
    assert Run.objects.values_list("harness", "agent_model").get() == ("openhands", "lab/model-1")
    assert Trajectory.objects.filter(source_format="openhands").count() == 3
    assert import_paths([output.parent]).counts["unchanged"] == 3


def test_what_is_before_the_history_may_be_long(output: Path) -> None:
    """A patch over 256 KiB comes first in a line; the same line may be printed as a document."""
    row = json.loads(output.read_text().splitlines()[0])
    long, short = ({"test_result": {"git_patch": "+ line\n" * count}} for count in (50_000, 1_000))
    write(output.parent / "long" / "output.jsonl", json.dumps({"instance_id": "", **long} | row | long) + "\n")
    write(output.parent / "printed" / "one.json", json.dumps({"instance_id": "", **short} | row | short, indent=2))
    import_paths([output.parent / "long", output.parent / "printed"])
    first, second = Trial.objects.order_by("pk")
    assert first.steps == second.steps > 1


def test_a_second_line_of_an_instance_is_named(output: Path) -> None:
    output.write_text(output.read_text() + json.dumps(row("a-1")) + "\n")
    (problem,) = import_paths([output]).problems
    assert (problem.place, problem.message) == ("line 4.instance_id", "another row; left out")


def test_a_conversation_with_a_file_for_each_event(tmp_path: Path) -> None:
    for number, event in enumerate(NEW):
        write(tmp_path / "talks" / "talk-1" / "events" / f"event-{number:05}-ab{number}.json", event)
    llm = {"model": "lab/model-2", "api_key": "sk-SECRET-1234567890"}
    write(tmp_path / "talks" / "talk-1" / "base_state.json", {"agent": {"kind": "Agent", "llm": llm}})
    for number, event in enumerate(HISTORY):
        write(tmp_path / "talks" / "talk-2" / "events" / f"{number}.json", event)
    write(tmp_path / "talks" / "talk-2" / "event_cache" / "0-25.json", HISTORY)
    assert list(import_paths([tmp_path / "talks"]).problems) == []
    found = Trial.objects.order_by("task__key").values_list("task__key", "episode__run__agent_model", "steps")
    assert list(found) == [("talk-1", "lab/model-2", 5), ("talk-2", "lab/model-1", 3)]


def test_the_format_s_check_finds_nothing(output: Path) -> None:
    assert check_format(openhands, [output]).faults == []
