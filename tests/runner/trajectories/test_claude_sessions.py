"""Claude Code's session logs as programs leave them: snapshots of messages, sub-agents inside progress lines."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runner.base.types import Source, Step, Usage
from runner.trajectories.readers.reading import ReadTrajectory, open_file

FIXTURES = Path(__file__).resolve().parents[2] / "fixtures" / "trajectories"
REAL = Path(__file__).resolve().parents[4] / "shared" / "contact" / "claude-code" / "session-with-agent-progress.jsonl"
Lines = list[dict[str, Any]]


def read(path: Path) -> tuple[ReadTrajectory, list[Step]]:
    result = open_file(path)
    return result, list(result.steps)


def lines_of(path: Path) -> Lines:
    return [json.loads(line) for line in path.read_text().splitlines()]


@pytest.fixture
def session() -> Path:
    return FIXTURES / "claude_session_agents.jsonl"


@pytest.fixture
def changed(session: Path, tmp_path: Path) -> Callable[[Callable[[Lines], Lines]], Path]:
    def write(change: Callable[[Lines], Lines]) -> Path:
        path = tmp_path / "changed.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in change(lines_of(session))))
        return path

    return write


def test_the_last_snapshot_of_a_message_counts_and_a_partial_one_is_a_lower_bound(session: Path) -> None:
    result, steps = read(session)
    said = [step for step in steps if step.usage is not None]
    assert [step.usage for step in said] == [Usage(503, 0, None), Usage(561, 500, None), Usage(591, 560, 55)]
    assert result.usage == Usage(503 + 561 + 591, 1060, output_at_least=4 + 1 + 55)
    assert (result.facts["messages"], result.turns) == (3, 3)  # what the program wrote itself is none


def test_messages_with_a_stop_reason_add_up_to_a_whole(changed: Callable[..., Path]) -> None:
    def finish(lines: Lines) -> Lines:
        for line in lines:
            if line["type"] == "assistant":
                line["message"]["stop_reason"] = "tool_use"
        return lines

    result, _ = read(changed(finish))
    assert result.usage == Usage(1655, 1060, 60)


def test_a_message_is_counted_once_whatever_comes_between_its_lines(changed: Callable[..., Path]) -> None:
    def interrupt(lines: Lines) -> Lines:
        at = next(index for index, line in enumerate(lines) if line.get("requestId") == "req_m3")
        said = {"type": "user", "uuid": "between", "sessionId": "s-3", "message": {"role": "user", "content": "Go on."}}
        return [*lines[: at + 1], said, *lines[at + 1 :]]

    result, steps = read(changed(interrupt))
    assert result.usage == Usage(1655, 1060, output_at_least=60)
    assert [step.usage for step in steps if (step.extra or {}).get("message_id") == "m3"] == [
        Usage(591, 560, None),
        None,
    ]


def test_a_message_without_usage_data_makes_the_sum_a_lower_bound(changed: Callable[..., Path]) -> None:
    def forget(lines: Lines) -> Lines:
        for line in lines:
            if line.get("requestId") == "req_m3":
                del line["message"]["usage"]
        return lines

    result, _ = read(changed(forget))
    assert (result.usage.input_tokens, result.usage.input_at_least) == (None, 503 + 561)


def test_a_message_with_text_and_no_output_tokens_was_not_counted(changed: Callable[..., Path]) -> None:
    def count_nothing(lines: Lines) -> Lines:
        for line in lines:
            if line["type"] == "assistant":
                line["message"] |= {"stop_reason": "end_turn"}
                line["message"]["usage"]["output_tokens"] = 0
        return lines

    result, _ = read(changed(count_nothing))
    assert result.usage == Usage(1655, 1060)


def test_a_sub_agent_in_progress_lines_is_a_trajectory_with_calls_results_and_tokens(session: Path) -> None:
    result, _ = read(session)
    (agent,) = result.subagents
    steps = list(agent.steps)
    assert (agent.head.parent, agent.head.model) == ("main", "small-model")
    assert agent.head.extra is not None
    assert {key: agent.head.extra[key] for key in ("tool_call_id", "agent_id", "description", "subagent_type")} == {
        "tool_call_id": "t1",
        "agent_id": "ab12cd3",
        "description": "Find the totals",
        "subagent_type": "Explore",
    }
    assert [(step.source, step.message, len(step.tool_calls)) for step in steps] == [
        (Source.USER, "Find the column of totals.", 0),
        (Source.AGENT, "", 2),
        (Source.AGENT, "", 1),
        (Source.AGENT, "The third column, total.", 0),
    ]
    assert [item.is_error for step in steps for item in step.observations] == [False, True, False]
    # The last message stands only in the result of the call, with the usage of its model call.
    assert steps[-1].usage == Usage(360, 340, 100)
    assert agent.usage == Usage(302 + 341 + 360, 640, output_at_least=2 + 1 + 100)


def test_a_sub_agent_whose_own_lines_hold_its_last_message_says_it_once(changed: Callable[..., Path]) -> None:
    def finish(lines: Lines) -> Lines:
        at = max(index for index, line in enumerate(lines) if line.get("data", {}).get("type") == "agent_progress")
        last = json.loads(json.dumps(lines[at]))
        text = [{"type": "text", "text": "The third column, total."}]
        usage = {"input_tokens": 0, "cache_read_input_tokens": 340, "output_tokens": 100}
        said = {"id": "k3", "content": text, "stop_reason": "end_turn", "usage": usage}
        last["data"]["message"] = {"type": "assistant", "uuid": "k99", "message": said}
        return [*lines[: at + 1], last, *lines[at + 1 :]]

    result, _ = read(changed(finish))
    messages = [step.message for step in result.subagents[0].steps]
    assert messages.count("The third column, total.") == 1


def test_every_line_of_a_session_is_a_step_or_counted(session: Path) -> None:
    result, steps = read(session)
    assert result.facts["events_without_step"] == {
        "file-history-snapshot": 1,
        "progress/hook_progress": 2,
        "progress/bash_progress": 1,
        "queue-operation": 1,
    }
    assert list(result.problems) == []
    assert not any("branched_from" in (step.extra or {}) for step in steps)
    assert [(step.source, step.message) for step in steps] == [
        (Source.USER, "Which column holds the totals?"),
        (Source.AGENT, "I have it searched for."),
        (Source.AGENT, ""),
        (Source.SYSTEM, "Checks take a minute."),
        (Source.USER, "And be brief."),
        (Source.SYSTEM, "api_error: Overloaded"),
        (Source.SYSTEM, ""),
        (Source.AGENT, "The third column\n\nholds the totals."),
        (Source.SYSTEM, "stop_hook_summary"),
    ]
    assert [(item.content, item.is_error) for item in steps[6].observations] == [("API Error: Overloaded", True)]
    assert (steps[5].extra or {})["retryAttempt"] == 1
    # A hook's words between a call and its result do not part the two.
    assert [item.is_error for item in steps[2].observations] == [True]


def test_a_summary_of_the_conversation_is_not_taken_for_the_users_words(changed: Callable[..., Path]) -> None:
    def compact(lines: Lines) -> Lines:
        boundary = {
            "type": "system",
            "subtype": "compact_boundary",
            "uuid": "c1",
            "content": "Conversation compacted",
            "compactMetadata": {"trigger": "auto", "preTokens": 9000},
        }
        summary = {
            "type": "user",
            "uuid": "c2",
            "isCompactSummary": True,
            "message": {"role": "user", "content": "So far: ..."},
        }
        return [*lines, {**boundary, "parentUuid": None}, {**summary, "parentUuid": "c1"}]

    _, steps = read(changed(compact))
    assert [step.message for step in steps[-2:]] == ["Conversation compacted", "So far: ..."]
    assert steps[-1].extra == {"compact_summary": True, "synthetic": True}


def test_a_log_that_begins_with_a_side_chain_is_still_the_conversations(changed: Callable[..., Path]) -> None:
    def warm_up(lines: Lines) -> Lines:
        warm = {"type": "user", "uuid": "w1", "isSidechain": True, "agentId": "w", "sessionId": "s-3"}
        return [{**warm, "message": {"role": "user", "content": "Warmup"}}, *lines]

    result, steps = read(changed(warm_up))
    assert steps[0].message == "Which column holds the totals?"
    assert [agent.head.extra["agent_id"] for agent in result.subagents if agent.head.extra] == ["w", "ab12cd3"]


@pytest.mark.shared_data
@pytest.mark.skipif(not REAL.is_file(), reason="the real session does not lie beside the project")
def test_the_reader_agrees_with_a_count_of_the_real_session() -> None:
    lines = lines_of(REAL)
    main = [line["message"] for line in lines if line["type"] == "assistant"]
    inside = [line["data"] for line in lines if line["type"] == "progress" and line["data"]["type"] == "agent_progress"]
    side = [data["message"]["message"] for data in inside if data["message"]["type"] == "assistant"]
    (answer,) = [
        told
        for line in lines
        if isinstance(told := line.get("toolUseResult"), dict) and told.get("agentId") == inside[0]["agentId"]
    ]

    result, steps = read(REAL)
    (agent,) = result.subagents
    agent_steps = list(agent.steps)
    assert len({data["agentId"] for data in inside}) == 1
    assert (_calls(steps), _calls(agent_steps)) == (_blocks(main), _blocks(side))
    assert _calls(agent_steps) == answer["totalToolUseCount"]
    assert sum(len(step.observations) for step in agent_steps) == answer["totalToolUseCount"]
    assert (result.usage.input_tokens, result.usage.output_at_least) == _counted(main)
    last = answer["usage"]
    assert last["output_tokens"] + _input(last) == answer["totalTokens"]
    read_by_side, written_by_side = _counted(side)
    assert agent.usage.input_tokens == read_by_side + _input(last)
    assert agent.usage.output_at_least == written_by_side + last["output_tokens"]
    assert (result.usage.output_tokens, agent.usage.output_tokens) == (None, None)  # no line has a stop reason


def _calls(steps: list[Step]) -> int:
    return sum(len(step.tool_calls) for step in steps)


def _blocks(messages: Lines) -> int:
    return sum(block["type"] == "tool_use" for message in messages for block in message["content"])


def _input(usage: dict[str, Any]) -> int:
    keys = ("input_tokens", "cache_creation_input_tokens", "cache_read_input_tokens")
    return sum(int(usage[key]) for key in keys)


def _counted(messages: Lines) -> tuple[int, int]:
    """(input, output) with the largest snapshot of each message id."""
    largest: dict[str, dict[str, Any]] = {}
    for message in messages:
        known = largest.get(message["id"])
        if known is None or message["usage"]["output_tokens"] > known["output_tokens"]:
            largest[message["id"]] = message["usage"]
    return sum(map(_input, largest.values())), sum(usage["output_tokens"] for usage in largest.values())
