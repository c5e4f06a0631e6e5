"""The logs that gemini-cli, qwen-code and kimi-code keep themselves, by small files in their real shape."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runner.base.types import Source, Step, Usage
from runner.trajectories.readers.reading import ReadTrajectory, open_file, sniff
from runner.trajectories.readers.skill_use import skill_uses

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "trajectories"
FORMATS = {
    "gemini_session.jsonl": "gemini-session",
    "qwen_session.jsonl": "qwen-session",
    "kimi_wire.jsonl": "kimi-wire",
}


def read(name: str) -> tuple[ReadTrajectory, list[Step]]:
    result = open_file(FIXTURES / name)
    steps = list(result.steps)
    assert not list(result.problems)
    return result, steps


def uses(steps: list[Step]) -> list[tuple[str, str, int | None, str | None]]:
    return [(use.skill, str(use.kind), use.step, use.path) for use in skill_uses(steps, mounted=None)]


@pytest.mark.parametrize(("name", "source_format"), FORMATS.items())
def test_it_knows_a_programs_log_by_its_content(name: str, source_format: str) -> None:
    assert sniff(FIXTURES / name) == source_format


@pytest.mark.parametrize("name", FORMATS)
def test_it_still_reads_a_log_that_was_cut_off_anywhere(name: str, tmp_path: Path) -> None:
    whole = (FIXTURES / name).read_bytes()
    lines = whole.splitlines(keepends=True)
    for kept in range(1, len(lines)):
        path = tmp_path / "log"
        path.write_bytes(b"".join(lines[:kept]) + lines[kept][: len(lines[kept]) // 2])
        result = open_file(path)
        steps = list(result.steps)
        assert [step.number for step in steps] == list(range(1, len(steps) + 1))
        assert list(result.problems), "half a line is told"


def test_it_reads_a_gemini_session_once_per_message() -> None:
    result, steps = read("gemini_session.jsonl")
    assert [(step.source, step.is_copied_context) for step in steps] == [
        (Source.USER, False),  # the context the program begins with
        (Source.USER, False),
        (Source.AGENT, False),
        (Source.AGENT, False),
        (Source.USER, True),  # what the compression put in place of the rest
        (Source.AGENT, True),
        (Source.AGENT, False),
    ]
    first = steps[2]
    assert (first.message, first.reasoning) == ("I look.", "Plan\nSkill first.")
    assert [call.name for call in first.tool_calls] == ["run_shell_command", "activate_skill"]
    assert [item.source_call_id for item in first.observations] == ["shell_1", "skill_1"]
    assert [item.is_error for item in steps[3].observations] == [True]
    assert (result.head.session_id, result.head.model) == ("g-2", "gemini-model")


def test_a_gemini_sessions_tokens_are_those_of_the_model_calls() -> None:
    result, steps = read("gemini_session.jsonl")
    assert steps[2].usage == Usage(100, 40, 15)
    assert result.usage == Usage(350, 140, 38)  # the 999 of the replaced conversation are no call
    assert result.turns == 3


def test_a_gemini_skill_that_was_not_found_is_not_read() -> None:
    _, steps = read("gemini_session.jsonl")
    assert uses(steps) == [("csv-sums", "invoked", 3, None)]


def test_it_reads_a_qwen_session_whose_input_holds_the_cache() -> None:
    result, steps = read("qwen_session.jsonl")
    assert [step.source.value for step in steps] == ["user", "agent", "user", "agent", "system", "agent"]
    first = steps[1]
    assert (first.message, first.reasoning) == ("I look.", "Plan it")
    assert first.usage == Usage(100, 40, 15)
    assert [item.source_call_id for item in first.observations] == ["c1", "c2"]
    assert first.observations[1].content.endswith("# CSV sums"), "what the model saw, not what the screen showed"
    assert steps[2].extra == {"subtype": "notification"}
    assert [item.is_error for item in steps[3].observations] == [False, True]
    assert (result.usage, result.turns) == (Usage(350, 90, 38), 3)
    assert (result.head.agent_version, result.head.model) == ("0.24.4", "qwen-model")


def test_a_qwen_sub_agents_calls_belong_to_the_answer_in_the_line_before(tmp_path: Path) -> None:
    """Its log has words and usage in one line, the calls of the same answer in the next."""
    side = {"sessionId": "s", "version": "0.24.4", "isSidechain": True, "agentId": "a-1"}
    call = {"functionCall": {"id": "c", "name": "run_shell_command", "args": {"command": "ls"}}}
    result = {"functionResponse": {"id": "c", "name": "run_shell_command", "response": {"output": "birds"}}}
    used = {"promptTokenCount": 25, "candidatesTokenCount": 6, "cachedContentTokenCount": 5}
    lines = [
        {"uuid": "1", "type": "user", "message": {"role": "user", "parts": [{"text": "Count."}]}},
        {"uuid": "2", "type": "assistant", "message": {"parts": [{"text": "I look."}]}, "usageMetadata": used},
        {"uuid": "3", "parentUuid": "2", "type": "assistant", "message": {"parts": [call]}},
        {"uuid": "4", "parentUuid": "3", "type": "tool_result", "message": {"role": "user", "parts": [result]}},
        {
            "uuid": "5",
            "parentUuid": "4",
            "type": "assistant",
            "message": {"parts": [{"text": "7"}]},
            "usageMetadata": used,
        },
    ]
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps({**side, **line}) + "\n" for line in lines))
    read = open_file(path)
    steps = list(read.steps)
    assert [(step.message, [call.name for call in step.tool_calls]) for step in steps] == [
        ("Count.", []),
        ("I look.", ["run_shell_command"]),
        ("7", []),
    ]
    assert (read.usage, read.turns) == (Usage(50, 10, 12), 2)


def test_qwens_read_file_of_a_skill_is_a_use() -> None:
    _, steps = read("qwen_session.jsonl")
    assert uses(steps) == [("csv-sums", "invoked", 2, None), ("csv-sums", "read", 4, "SKILL.md")]


def test_it_reads_a_kimi_wire_without_the_lines_that_repeat_it() -> None:
    result, steps = read("kimi_wire.jsonl")
    roles = ["system", "user", "user", "agent", "user", "agent", "system", "agent"]
    assert [step.source.value for step in steps] == roles
    first = steps[3]
    assert (first.message, first.reasoning, first.model) == ("I look.", "Plan it", "kimi-model")
    assert first.timestamp == "2026-01-02T03:04:04.000Z"
    assert {item.source_call_id: item.content for item in first.observations}["c1"] == "data.csv\n"
    assert [item.is_error for item in steps[5].observations] == [False, True]
    assert steps[6].message.endswith("The sum is asked for.")
    assert result.head.skills_listed == ("csv-sums",)


def test_a_kimi_wires_total_holds_the_compression_the_steps_do_not() -> None:
    result, steps = read("kimi_wire.jsonl")
    assert [step.usage for step in steps if step.usage] == [Usage(100, 40, 15), Usage(200, 0, 20), Usage(50, 50, 3)]
    assert (result.usage, result.turns) == (Usage(380, 90, 43), 3)


def test_kimis_skill_tool_and_read_are_uses() -> None:
    _, steps = read("kimi_wire.jsonl")
    assert uses(steps) == [("csv-sums", "invoked", 4, None), ("csv-sums", "read", 6, "SKILL.md")]
