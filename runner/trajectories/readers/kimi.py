"""Logs of Kimi CLI and of Kimi Code, which followed it: wire.jsonl, one event a line,
with the same first line in both."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from runner.base.text import clean, storable, storable_value
from runner.base.types import Source, Step, Usage
from runner.trajectories.atif_values import content_text
from runner.trajectories.images import select_images
from runner.trajectories.log_records import (
    Record,
    parse_json,
    read_milliseconds,
    read_number,
    read_object,
    read_text,
    read_usage_parts,
)
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.messages import INPUT_KEYS, AnswerSteps, MessageSteps, call_block, result_block

# --- Kimi CLI ---------------------------------------------------------------------------------------------------------


_CLI_INPUT = ("input_other", "input_cache_read", "input_cache_creation")
# Messages on the screen that are not part of the conversation.
_WITHOUT_STEP = frozenset(
    "TurnEnd StepBegin StepRetry CompactionBegin HookTriggered HookResolved MCPLoadingBegin MCPLoadingEnd Notification"
    " PlanDisplay BtwBegin BtwEnd SubagentEvent ApprovalRequest ApprovalResponse ApprovalRequestResolved "
    "QuestionRequest QuestionResponse ToolCallRequest HookRequest HookResponse ToolCallPart".split()
)


def _envelope_of(event: Record) -> tuple[str, Record] | None:
    """(type, payload) if the line is one of this program's."""
    message = read_object(event.get("message"))
    payload = message.get("payload")
    return (str(message.get("type")), payload) if isinstance(payload, Mapping) else None


class _CliWire:
    """The messages in file order; gives steps as soon as they are whole."""

    def __init__(self, result: ReadTrajectory) -> None:
        self.result, self.answers = result, AnswerSteps()
        self.usage, self.is_used = Usage(), False

    def add(self, line: int, kind: str, payload: Record, timestamp: str | None) -> Iterator[Step]:
        self.is_used = True
        if kind in ("TurnBegin", "SteerInput"):
            yield from self.answers.user(payload.get("user_input"), timestamp)
        elif kind == "ContentPart":
            part = str(payload.get("type"))
            thinks = part == "think"
            text = str(payload.get(part) or "") if part in ("think", "text") else f"[{part[:100]}]"
            yield from self.answers.say(text, timestamp, "thinking" if thinks else "text")
        elif kind == "ToolCall":
            function = read_object(payload.get("function"))
            arguments = _arguments(function.get("arguments"))
            yield from self.answers.call(payload.get("id"), function.get("name"), arguments, timestamp)
        elif kind == "ToolResult":
            value = payload.get("return_value")
            value = value if isinstance(value, Mapping) else {"output": value}
            content = value.get("output") or value.get("message") or ""
            block = result_block(payload.get("tool_call_id"), content, value.get("is_error") is True)
            yield from self.answers.user([block], timestamp)
        elif kind == "StatusUpdate":  # not every one counts tokens
            self.usage += read_usage_parts(payload.get("token_usage"), _CLI_INPUT, "output")
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


def _arguments(raw: object) -> object:
    if not isinstance(raw, str):
        return raw
    value = parse_json(raw)
    return value if isinstance(value, dict) else {"raw": raw}


# --- Kimi Code --------------------------------------------------------------------------------------------------------


_LISTED = re.compile(r"^- ([^:\n]{1,200}):[^\n]*\n  Path: [^\n]*/SKILL\.md$", re.M)
_CODE_INPUT = ("inputOther", "inputCacheRead", "inputCacheCreation")


def read(result: ReadTrajectory) -> Iterator[Step]:
    """Yield one step per message of the model, with the results of its calls."""
    wire, before = _Wire(result), _CliWire(result)
    result.set_head(agent_name="kimi-code")
    for line, event in result.lines():
        if envelope := _envelope_of(event):
            result.set_head(agent_name="kimi-cli")
            seconds = read_number(event.get("timestamp"))
            yield from before.add(line, *envelope, read_milliseconds(None if seconds is None else seconds * 1000))
            continue
        yield from wire.add(event, str(event.get("type")), read_milliseconds(event.get("time")))
    yield from wire.steps.flush()
    has_records = wire.usage != Usage()
    result.usage = wire.usage if has_records else wire.steps.usage
    result.turns = wire.steps.messages
    result.facts["usage_from"] = "usage records" if has_records else "messages"
    yield from before.finish()


class _Wire:
    def __init__(self, result: ReadTrajectory) -> None:
        self.result = result
        self.steps = MessageSteps()
        self.usage = Usage()
        self._model: str | None = None

    def add(self, event: Record, kind: str, timestamp: str | None) -> Iterator[Step]:
        loop, message = event.get("event"), event.get("message")
        if kind == "context.append_loop_event" and isinstance(loop, Mapping):
            yield from self._loop_event(loop, timestamp)
        elif kind == "context.append_message" and isinstance(message, Mapping):
            yield from self._message(message, timestamp)
        elif kind == "profile.bind":
            if isinstance(prompt := event.get("systemPrompt"), str):
                yield from self.steps.flush()
                listed = dict.fromkeys(match[1].strip() for match in _LISTED.finditer(prompt))
                self.result.set_head(skills_listed=tuple(storable(name) for name in listed))
                yield Step(0, Source.SYSTEM, clean(prompt), timestamp=timestamp)
        elif kind == "context.apply_compaction":
            yield from self.steps.flush()
            summary = event.get("contextSummary") or event.get("summary")
            text = content_text(summary.get("content") if isinstance(summary, Mapping) else summary)[0]
            text = clean(f"[context compressed]\n{text}")
            extra = {key: storable_value(event[key]) for key in ("tokensBefore", "tokensAfter") if key in event}
            yield Step(0, Source.SYSTEM, text, timestamp=timestamp, extra=extra or None)
        elif kind == "usage.record":
            self.usage += read_usage_parts(event.get("usage"), _CODE_INPUT, "output")
        elif kind == "llm.request" and isinstance(event.get("model"), str):
            self._model = read_text(event["model"])
            self.result.fill_head(model=self._model)
        elif kind == "metadata":
            self.result.add_extra(protocol_version=event.get("protocol_version"))
        else:
            self.result.count_event(kind)

    def _loop_event(self, event: Record, timestamp: str | None) -> Iterator[Step]:
        kind, step = event.get("type"), event.get("stepUuid")
        if kind == "content.part":
            yield from self._take_answer(step, _content_block(event.get("part")), timestamp)
        elif kind == "tool.call":
            call = call_block(event.get("toolCallId"), event.get("name"), event.get("args"))
            yield from self._take_answer(step, call, timestamp)
        elif kind == "tool.result":
            given = event.get("result")
            given = given if isinstance(given, Mapping) else {"output": given}
            block = result_block(event.get("toolCallId"), given.get("output"), given.get("isError") is True)
            yield from self.steps.user({"content": [block]}, timestamp)
        elif kind == "step.end" and isinstance(usage := event.get("usage"), Mapping):
            counts = {name: usage.get(key) for name, key in zip(INPUT_KEYS, _CODE_INPUT, strict=True)}
            counts["output_tokens"] = usage.get("output")
            message = {"id": event.get("uuid"), "content": [], "usage": counts, "stop_reason": "end"}
            yield from self.steps.assistant({**message, "model": self._model}, timestamp)
        elif kind not in ("step.begin", "step.end"):
            self.result.count_event("loop", kind)

    def _take_answer(self, step: object, block: Record, timestamp: str | None) -> Iterator[Step]:
        message = {"id": step, "content": [block], "model": self._model}
        yield from self.steps.assistant(message, timestamp)

    def _message(self, message: Record, timestamp: str | None) -> Iterator[Step]:
        yield from self.steps.flush()
        kind = read_text(read_object(message.get("origin")).get("kind"))
        source = Source.USER if message.get("role") == "user" else Source.SYSTEM
        text, parts = content_text(message.get("content"))
        extra = {**({} if kind in (None, "user") else {"origin": kind}), **select_images(parts)}
        yield Step(0, source, clean(text), timestamp=timestamp, extra=extra or None)


def _content_block(part: object) -> dict[str, object]:
    if not isinstance(part, Mapping):
        return {"type": "text", "text": str(part)}
    return {"type": "thinking", "thinking": part.get("think")} if part.get("type") == "think" else dict(part)
