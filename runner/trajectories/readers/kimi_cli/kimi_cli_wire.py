"""Kimi CLI's session log (the program before Kimi Code; sessions/<folder>/<session>/wire.jsonl).

Each line holds one message to the screen: {"timestamp", "message": {"type", "payload"}}, in seconds since 1970. A
status after each answer counts its tokens; input_other excludes cache reads and writes. A sub-agent has a log of its
own, and its messages are repeated here.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runner.base.types import Source, Step, Usage
from runner.trajectories.log_records import Record, parse_json, read_object, read_usage_parts
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.claude_code.claude_messages import AnswerSteps, result_block

_INPUT_PARTS = ("input_other", "input_cache_read", "input_cache_creation")
# Messages on the screen that are not part of the conversation.
_WITHOUT_STEP = frozenset(
    "TurnEnd StepBegin StepRetry CompactionBegin HookTriggered HookResolved MCPLoadingBegin MCPLoadingEnd Notification"
    " PlanDisplay BtwBegin BtwEnd SubagentEvent ApprovalRequest ApprovalResponse ApprovalRequestResolved QuestionRequest"
    " QuestionResponse ToolCallRequest HookRequest HookResponse ToolCallPart".split()
)


def envelope_of(event: Record) -> tuple[str, Record] | None:
    """(type, payload) if the line is one of this program's."""
    message = read_object(event.get("message"))
    payload = message.get("payload")
    return (str(message.get("type")), payload) if isinstance(payload, Mapping) else None


class CliWire:
    """The messages in file order; gives steps as soon as they are whole."""

    def __init__(self, result: ReadTrajectory) -> None:
        self.result, self.answers = result, AnswerSteps()
        self.usage, self.is_used = Usage(), False

    def add(self, line: int, kind: str, payload: Record, timestamp: str | None) -> Iterator[Step]:
        self.is_used = True
        if kind in ("TurnBegin", "SteerInput"):
            yield from self.answers.user(payload.get("user_input"), timestamp)
        elif kind == "ContentPart":
            yield from self._part(payload, timestamp)
        elif kind == "ToolCall":
            function = read_object(payload.get("function"))
            arguments = _arguments(function.get("arguments"))
            yield from self.answers.call(payload.get("id"), function.get("name"), arguments, timestamp)
        elif kind == "ToolResult":
            yield from self.answers.user([_result_block(payload)], timestamp)
        elif kind == "StatusUpdate":  # not every one counts tokens
            self.usage += read_usage_parts(payload.get("token_usage"), _INPUT_PARTS, "output")
        elif kind in ("CompactionEnd", "StepInterrupted"):
            yield from self.answers.flush()
            text = "[context compressed]" if kind == "CompactionEnd" else "[interrupted]"
            yield Step(0, Source.SYSTEM, text, timestamp=timestamp)
        elif kind in _WITHOUT_STEP:
            self.result.count_event(kind)
        else:
            self.result.report_event(line, kind, "a message of Kimi CLI")

    def finish(self) -> Iterator[Step]:
        yield from self.answers.flush()
        if self.is_used:
            self.result.usage, self.result.turns = self.usage, None  # every step of the agent's is a turn

    def _part(self, part: Record, timestamp: str | None) -> Iterator[Step]:
        kind = part.get("type")
        if kind == "think":
            yield from self.answers.say(str(part.get("think") or ""), timestamp, "thinking")
        elif kind == "text":
            yield from self.answers.say(str(part.get("text") or ""), timestamp)
        else:
            yield from self.answers.say(f"[{str(kind)[:100]}]", timestamp)


def _arguments(raw: object) -> object:
    if not isinstance(raw, str):
        return raw
    value = parse_json(raw)
    return value if isinstance(value, dict) else {"raw": raw}


def _result_block(payload: Record) -> dict[str, object]:
    value = payload.get("return_value")
    value = value if isinstance(value, Mapping) else {"output": value}
    content = value.get("output") or value.get("message") or ""
    return result_block(payload.get("tool_call_id"), content, value.get("is_error") is True)
