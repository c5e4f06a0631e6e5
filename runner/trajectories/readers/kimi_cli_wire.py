"""Kimi CLI's session log (the program before Kimi Code; sessions/<folder>/<session>/wire.jsonl).

Each line holds one message to the screen: {"timestamp", "message": {"type", "payload"}}, in seconds since 1970. A status
after each answer tells what it used; input_other leaves out what was read from the cache and written to it. A sub-agent
has a log of its own, and its messages are repeated here.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from runner.base.types import JsonValue, Source, Step, Usage
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.answers import AnswerSteps
from runner.trajectories.readers.claude_messages import usage_of_parts

# What the screen shows beside the conversation.
_WITHOUT_STEP = frozenset(
    "TurnEnd StepBegin StepRetry CompactionBegin HookTriggered HookResolved MCPLoadingBegin MCPLoadingEnd Notification"
    " PlanDisplay BtwBegin BtwEnd SubagentEvent ApprovalRequest ApprovalResponse ApprovalRequestResolved QuestionRequest"
    " QuestionResponse ToolCallRequest HookRequest HookResponse ToolCallPart".split()
)


def envelope_of(event: Mapping[str, object]) -> tuple[str, Mapping[str, object]] | None:
    """(type, payload) where the line is one of this program's."""
    message = event.get("message")
    if isinstance(message, Mapping) and isinstance(message.get("payload"), Mapping):
        return str(message.get("type")), message["payload"]
    return None


class CliWire:
    """The messages in file order; gives steps as soon as they are whole."""

    def __init__(self, result: ReadTrajectory) -> None:
        self.result, self.answers = result, AnswerSteps()
        self.usage, self.is_used = Usage(), False

    def add(self, line: int, kind: str, payload: Mapping[str, Any], timestamp: str | None) -> Iterator[Step]:
        self.is_used = True
        if kind in ("TurnBegin", "SteerInput"):
            yield from self.answers.user({"content": payload.get("user_input")}, timestamp)
        elif kind == "ContentPart":
            yield from self._part(payload, timestamp)
        elif kind == "ToolCall":
            function = payload.get("function")
            function = function if isinstance(function, Mapping) else {}
            arguments = _arguments(function.get("arguments"))
            yield from self.answers.call(payload.get("id"), function.get("name"), arguments, timestamp)
        elif kind == "ToolResult":
            yield from self.answers.user({"content": [_result_block(payload)]}, timestamp)
        elif kind == "StatusUpdate":
            self._count(payload.get("token_usage"))
        elif kind in ("CompactionEnd", "StepInterrupted"):
            yield from self.answers.flush()
            text = "[context compressed]" if kind == "CompactionEnd" else "[interrupted]"
            yield Step(0, Source.SYSTEM, text, timestamp=timestamp)
        else:
            if kind not in _WITHOUT_STEP:
                self.result.problems.add(f"line {line}", "a message of Kimi CLI", f"found type {kind[:60]!r}")
            self.result.count("events_without_step", kind[:100])

    def finish(self) -> Iterator[Step]:
        yield from self.answers.flush()
        if self.is_used:
            self.result.usage, self.result.turns = self.usage, None  # every step of the agent's is a turn

    def _part(self, part: Mapping[str, object], timestamp: str | None) -> Iterator[Step]:
        kind = part.get("type")
        if kind == "think":
            yield from self.answers.say(str(part.get("think") or ""), timestamp, "thinking")
        elif kind == "text":
            yield from self.answers.say(str(part.get("text") or ""), timestamp)
        else:
            yield from self.answers.say(f"[{str(kind)[:100]}]", timestamp)

    def _count(self, raw: object) -> None:
        """A status without tokens tells something else."""
        if isinstance(raw, Mapping):
            self.usage += usage_of_parts(raw, ("input_other", "input_cache_read", "input_cache_creation"), "output")


def _arguments(raw: JsonValue) -> JsonValue:
    if not isinstance(raw, str):
        return raw or {}
    try:
        found = json.loads(raw)
    except (ValueError, RecursionError):
        return {"raw": raw}
    return found if isinstance(found, dict) else {"raw": raw}


def _result_block(payload: Mapping[str, Any]) -> dict[str, object]:
    value = payload.get("return_value")
    value = value if isinstance(value, Mapping) else {"output": value}
    return {
        "type": "tool_result",
        "tool_use_id": payload.get("tool_call_id"),
        "content": value.get("output") or value.get("message") or "",
        "is_error": value.get("is_error") is True,
    }
