"""What agent programs print with `--output-format stream-json`, by small files of our own."""

import json
from io import BytesIO
from pathlib import Path

import pytest

from runner.base.types import Source, Step, Usage, UseKind
from runner.trajectories.readers.reading import ReadTrajectory, open_file, read_trajectory
from runner.trajectories.readers.skill_use import skill_uses

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "trajectories"


def read(name: str) -> tuple[ReadTrajectory, list[Step]]:
    result = open_file(FIXTURES / name)
    return result, list(result.steps)


def told(steps: list[Step]) -> list[tuple[Source, str, list[str], list[tuple[str, bool]]]]:
    return [
        (
            step.source,
            step.message,
            [call.name for call in step.tool_calls],
            [(seen.content, seen.is_error) for seen in step.observations],
        )
        for step in steps
    ]


def uses(steps: list[Step]) -> list[tuple[str, UseKind]]:
    return [(use.skill, use.kind) for use in skill_uses(steps, mounted=None)]


def test_gemini_joins_the_pieces_of_an_answer_and_its_results() -> None:
    result, steps = read("gemini_stream.jsonl")
    assert told(steps) == [
        (Source.USER, "Count the words", [], []),
        (
            Source.AGENT,
            "I read the skill.",
            ["read_file", "run_shell_command"],
            [("Count with wc.", False), ("wc: missing.txt: No such file", True)],
        ),
        (Source.SYSTEM, "Loop detected, stopping execution", [], []),
        (Source.AGENT, "12 words.", [], []),
    ]
    head = result.head
    assert (head.source_format, head.agent_name, head.model) == (
        "gemini-stream-json",
        "gemini-cli",
        "gemini-3-pro-preview",
    )
    assert head.session_id == "5a1c0000-1111-4222-8333-444444444444"
    assert uses(steps) == [("count-words", UseKind.READ)]
    assert list(result.problems) == []


def test_a_line_of_another_program_may_come_before_the_stream() -> None:
    """A wrapper writes what it asked into the same file."""
    asked = {"type": "message", "role": "user", "content": "Count the words"}
    content = f"{json.dumps(asked)}\n".encode() + (FIXTURES / "gemini_stream.jsonl").read_bytes()
    result = read_trajectory(lambda: BytesIO(content))
    assert [step.message for step in result.steps][-1] == "12 words."
    assert result.head.source_format == "gemini-stream-json"


def test_gemini_tells_its_tokens_once_and_thinking_is_output() -> None:
    result, _ = read("gemini_stream.jsonl")
    assert result.usage == Usage(300, 100, 40)


def test_cursor_has_its_calls_on_lines_of_their_own() -> None:
    result, steps = read("cursor_stream.jsonl")
    failure = '{"command": "wc -w missing.txt", "exitCode": 1, "stdout": "", "stderr": "wc: missing.txt: No such file"}'
    assert told(steps) == [
        (Source.USER, "Count the words", [], []),
        (Source.AGENT, "I read the skill.", ["read"], [("Count with wc.", False)]),
        (Source.AGENT, "", ["shell"], [(failure, True)]),
        (Source.AGENT, "12 words.", [], []),
    ]
    assert steps[1].reasoning == "A skill may help."
    assert steps[1].timestamp == "2026-03-01T10:00:01.000Z"
    assert (result.head.source_format, result.head.agent_name) == ("cursor-stream-json", "cursor-cli")
    assert result.usage == Usage(350, 100, 30)
    assert uses(steps) == [("count-words", UseKind.READ)]
    assert list(result.problems) == []


def test_qwen_is_no_claude_code_and_its_input_holds_the_cache() -> None:
    result, steps = read("qwen_stream.jsonl")
    head = result.head
    assert (head.source_format, head.agent_name, head.agent_version) == ("qwen-stream-json", "qwen-code", "0.15.10")
    assert head.model == "qwen3-coder-plus"
    assert uses(steps) == [("count-words", UseKind.READ)]
    assert result.usage == Usage(2100, 1600, 25)
    assert steps[-1].usage == Usage(1100, 1000, 5)
    assert list(result.problems) == []


def test_results_of_one_qwen_process_are_running_totals() -> None:
    content = (FIXTURES / "qwen_stream.jsonl").read_bytes()
    more = (
        b'{"type":"result","subtype":"error_during_execution","uuid":"u6","session_id":"q1","is_error":true,"num_turns":1,'
        b'"usage":{"input_tokens":3000,"output_tokens":30,"cache_read_input_tokens":2000},'
        b'"error":{"message":"quota exceeded"}}\n'
    )
    result = read_trajectory(lambda: BytesIO(content + more))
    assert list(result.steps)[-1].message == "Ended with error_during_execution: quota exceeded"
    assert result.usage == Usage(3000, 2000, 30)


def test_kimi_cli_wraps_every_message() -> None:
    result, steps = read("kimi_cli_wire.jsonl")
    assert told(steps) == [
        (Source.USER, "Count the words", [], []),
        (
            Source.AGENT,
            "I read the skill.",
            ["ReadFile", "Shell"],
            [("Count with wc.", False), ("wc: missing.txt: No such file", True)],
        ),
        (Source.AGENT, "12 words.", [], []),
    ]
    assert steps[1].reasoning == "A skill may help."
    assert steps[1].timestamp == "2026-03-01T10:00:02.500Z"
    assert (result.head.source_format, result.head.agent_name, result.turns) == ("kimi-wire", "kimi-cli", None)
    assert result.usage == Usage(2050, 1100, 45)
    assert uses(steps) == [("count-words", UseKind.READ)]
    assert list(result.problems) == []


def codex(*events: object) -> tuple[ReadTrajectory, list[Step]]:
    content = "".join(json.dumps(event) + "\n" for event in events).encode()
    result = read_trajectory(lambda: BytesIO(content))
    return result, list(result.steps)


def turn(thread: str, sent: int, cached: int, output: int) -> list[dict[str, object]]:
    usage = {"input_tokens": sent, "cached_input_tokens": cached, "output_tokens": output}
    return [
        {"type": "thread.started", "thread_id": thread},
        {"type": "turn.started"},
        {"type": "item.completed", "item": {"id": "item_0", "type": "agent_message", "text": "Done."}},
        {"type": "turn.completed", "usage": usage},
    ]


def test_a_resumed_codex_thread_tells_running_totals() -> None:
    """What `codex exec` and twice `codex exec resume` (0.169.0) printed for calls of 321, 1000 and 5 tokens."""
    first = [*turn("a", 321, 210, 27), *turn("a", 1321, 210, 327), *turn("a", 1326, 210, 332)]
    assert codex(*first)[0].usage == Usage(1326, 210, 332)
    assert codex(*first, *turn("b", 100, 0, 10))[0].usage == Usage(1426, 210, 342)


@pytest.mark.parametrize(
    ("answer", "shown"),
    [
        ({"content": [{"type": "text", "text": 'It\'s "two".'}], "structured_content": None}, 'It\'s "two".'),
        ({"content": [], "structured_content": {"ok": True}}, '{"content": [], "structured_content": {"ok": true}}'),
    ],
)
def test_what_an_mcp_server_answered_codex_is_its_text(answer: object, shown: str) -> None:
    item = {"id": "item_1", "type": "mcp_tool_call", "server": "docs", "tool": "search", "arguments": {"q": "x"}}
    _, (step,) = codex(
        {"type": "thread.started", "thread_id": "a"},
        {"type": "item.completed", "item": {**item, "result": answer, "error": None, "status": "completed"}},
    )
    assert [seen.content for seen in step.observations] == [shown]


def test_a_file_of_a_known_format_without_a_step_is_reported() -> None:
    content = b'{"type":"metadata","protocol_version":"9"}\n{"type":"something.new","time":1}\n'
    result = read_trajectory(lambda: BytesIO(content))
    assert list(result.steps) == []
    assert [problem.message for problem in result.problems] == ["no step in a file that looks like kimi-wire"]


def test_cursor_is_known_by_a_call_where_its_first_line_is_lost() -> None:
    content = (FIXTURES / "cursor_stream.jsonl").read_bytes().partition(b"\n")[2]
    assert read_trajectory(lambda: BytesIO(content)).head.source_format == "cursor-stream-json"


@pytest.mark.parametrize("name", ["gemini_stream.jsonl", "cursor_stream.jsonl", "claude_stream.jsonl"])
def test_an_event_of_an_unknown_kind_is_reported(name: str) -> None:
    content = (FIXTURES / name).read_bytes() + b'{"type":"hologram","session_id":"s"}\n'
    result = read_trajectory(lambda: BytesIO(content))
    steps = list(result.steps)
    assert len(steps) == len(read(name)[1])
    assert [problem.message for problem in result.problems][-1:] == ["found type 'hologram'"]
