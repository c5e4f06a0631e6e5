"""How a harness tells in a result's text that a command failed, and what only a program printed."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from runner.trajectories.readers.reading import open_file
from tests.cases import every

UNIFIED = "Chunk ID: 5f1a2b\nWall time: 0.0512 seconds\nProcess exited with code {code}\nOriginal token count: 9\nOutput:\n{text}"  # noqa: E501
FREEFORM = "Exit code: {code}\nWall time: 0.1 seconds\nOutput:\n{text}"
REPORT = (
    "Command: make\nDirectory: (root)\nOutput: {text}\nError: (none)\nExit Code: {code}\nSignal: (none)\n"
    "Background PIDs: (none)\nProcess Group PGID: 41"
)


def failed(tmp_path: Path, lines: list[dict[str, Any]]) -> list[bool]:
    path = tmp_path / "log.jsonl"
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return [item.is_error for step in open_file(path).steps for item in step.observations]


def codex(output: Any) -> list[dict[str, Any]]:
    items = [
        {"type": "function_call", "name": "exec_command", "arguments": '{"cmd": "make"}', "call_id": "c1"},
        {"type": "function_call_output", "call_id": "c1", "output": output},
    ]
    return [{"timestamp": "2026-01-02T03:04:05.000Z", "type": "response_item", "payload": item} for item in items]


@every(
    (UNIFIED.format(code=127, text="sh: make: not found"), True),
    (UNIFIED.format(code=0, text="Process exited with code 2"), False),
    ([{"type": "input_text", "text": UNIFIED.format(code=1, text="no")}], True),
    ("Wall time: 1.0 seconds\nProcess exited with code -1\nOutput:\n", True),
    ("Wall time: 1.0 seconds\nProcess running with session ID 7\nOutput:\nProcess exited with code 1\n", False),
    ("Process exited with code 127", True),
    (FREEFORM.format(code=2, text="no rule"), True),
    (FREEFORM.format(code=0, text="Exit code: 1"), False),
    ("12 tests ran\nProcess exited with code 1", False),
    ("failed to parse function arguments: missing field `cmd`", True),
    ("Plan updated", False),
    ('{"output": "Exit code: 1", "metadata": {"exit_code": 0}}', False),
)
def test_codex_tells_the_exit_code_before_the_output(output: Any, is_error: bool, tmp_path: Path) -> None:
    assert failed(tmp_path, codex(output)) == [is_error]


def gemini(text: str) -> list[dict[str, Any]]:
    call = {"id": "c1", "name": "run_shell_command", "args": {"command": "make"}, "status": "success"}
    response = {"functionResponse": {"id": "c1", "name": "run_shell_command", "response": {"output": text}}}
    message = {"id": "m1", "type": "gemini", "content": "", "toolCalls": [{**call, "result": [response]}]}
    return [{"sessionId": "g", "projectHash": "h"}, message]


def qwen(text: str) -> list[dict[str, Any]]:
    head = {"sessionId": "q", "provenance": "x", "timestamp": "2026-01-02T03:04:05.000Z"}
    call = {"functionCall": {"id": "c1", "name": "run_shell_command", "args": {"command": "make"}}}
    told = {"functionResponse": {"id": "c1", "name": "run_shell_command", "response": {"output": text}}}
    return [
        {**head, "type": "assistant", "uuid": "a", "message": {"role": "model", "parts": [call]}},
        {
            **head,
            "type": "tool_result",
            "uuid": "b",
            "message": {"role": "user", "parts": [told]},
            "toolCallResult": {"status": "success"},
        },
    ]


@every(gemini, qwen)
@every(
    (REPORT.format(text="no rule", code=2), True),
    (REPORT.format(text="built", code=0), False),
    (REPORT.format(text="last time\nExit Code: 1\nSignal: 9", code=0), False),
    (REPORT.format(text="left running", code="(none)"), False),
    ("built\nExit Code: 1", False),
)
def test_the_shell_tool_of_gemini_and_qwen_tells_it_at_the_end_of_its_report(
    text: str, is_error: bool, lines: Any, tmp_path: Path
) -> None:
    assert failed(tmp_path, lines(text)) == [is_error]


@every(
    ("codex", "exec_command", UNIFIED.format(code=127, text="sh: make: not found"), {}, True),
    ("codex", "shell", "no rule", {"tool_call_details": {"c1": {"metadata": {"exit_code": 2}}}}, True),
    ("codex", "shell", "built", {"tool_call_details": {"c1": {"metadata": {"exit_code": 0}}}}, False),
    ("gemini-cli", "run_shell_command", REPORT.format(text="no rule", code=2), {}, True),
    ("gemini-cli", "read_file", REPORT.format(text="no rule", code=2), {}, False),
    ("mini-swe-agent", "bash_command", "<returncode>1</returncode>\n<output>\nno rule</output>", {}, True),
    ("mini-swe-agent", "bash_command", "<returncode> 0 </returncode>\n<output>\nbuilt</output>", {}, False),
    (
        "mini-swe-agent",
        "bash_command",
        "<returncode>0</returncode>\n<output>\n<returncode>1</returncode></output>",
        {},
        False,
    ),
    (
        "mini-swe-agent",
        "bash_command",
        "<exception>timed out</exception>\n<returncode>-1</returncode>\n<output></output>",
        {},
        True,
    ),
    ("terminus-2", "bash", "<returncode>1</returncode>", {}, False),
    ("terminus-2", "bash", UNIFIED.format(code=127, text=""), {}, False),
)
def test_harbor_s_conversions_keep_it(
    agent: str, tool: str, text: str, extra: dict[str, Any], is_error: bool, tmp_path: Path
) -> None:
    step = {
        "step_id": 1,
        "source": "agent",
        "message": "",
        "tool_calls": [{"tool_call_id": "c1", "function_name": tool, "arguments": {}}],
        "observation": {"results": [{"source_call_id": "c1", "content": text}]},
        "extra": extra,
    }
    top = {"schema_version": "ATIF-v1.8", "session_id": "s", "agent": {"name": agent, "version": "1"}, "steps": [step]}
    assert failed(tmp_path, [top]) == [is_error]
