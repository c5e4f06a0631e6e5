"""Kimi Code CLI's session log (sessions/<folder>/<session>/agents/<agent>/wire.jsonl), one event a line.

Steps come from `context.append_message` and `context.append_loop_event`, what was sent to and came from the model.
Lines with `kind` "event" repeat them for the screen. `usage.record` tells every model call, also those that compress
the context: inputOther leaves out what was read from the cache and written to it. Times are milliseconds since 1970.
Files of the older Kimi CLI have the same first line and other ones behind it: `kimi_cli_wire.py`.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from runner.base.text import clean, storable, storable_value
from runner.base.types import JsonValue, Source, Step, Usage
from runner.trajectories.atif_values import content_text
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.claude_messages import MessageSteps, number, usage_of_parts
from runner.trajectories.readers.kimi_cli_wire import CliWire, envelope_of
from runner.trajectories.readers.line_streams import json_lines

_LISTED = re.compile(r"^- ([^:\n]{1,200}):[^\n]*\n  Path: [^\n]*/SKILL\.md$", re.M)
_LATEST_MILLISECONDS = 253_402_300_799_000  # the end of the year 9999


def read(result: ReadTrajectory) -> Iterator[Step]:
    """One step per message of the model, with the results of its calls."""
    wire, before = _Wire(result), CliWire(result)
    result.set_head(agent_name="kimi-code")
    with result.open_binary() as stream:
        for line, event in json_lines(stream, result.problems):
            if envelope := envelope_of(event):
                result.set_head(agent_name="kimi-cli")
                yield from before.add(line, *envelope, timestamp_of(_milliseconds(event.get("timestamp"))))
                continue
            yield from wire.add(event, str(event.get("type")), timestamp_of(event.get("time")))
    yield from wire.steps.flush()
    told = wire.usage != Usage()
    result.usage = wire.usage if told else wire.steps.usage
    result.turns = wire.steps.messages
    result.facts["usage_from"] = "usage records" if told else "messages"
    yield from before.finish()


def _milliseconds(seconds: object) -> JsonValue:
    return seconds * 1000 if isinstance(seconds, int | float) and not isinstance(seconds, bool) else None


class _Wire:
    def __init__(self, result: ReadTrajectory) -> None:
        self.result = result
        self.steps = MessageSteps()
        self.usage = Usage()
        self._model: str | None = None

    def add(self, event: Mapping[str, Any], kind: str, timestamp: str | None) -> Iterator[Step]:
        loop, message = event.get("event"), event.get("message")
        if kind == "context.append_loop_event" and isinstance(loop, Mapping):
            yield from self._loop_event(loop, timestamp)
        elif kind == "context.append_message" and isinstance(message, Mapping):
            yield from self._message(message, timestamp)
        elif kind == "profile.bind":
            yield from self._system_prompt(event, timestamp)
        elif kind == "context.apply_compaction":
            yield from self._compaction(event, timestamp)
        elif kind == "usage.record":
            self.usage += _usage(event.get("usage"))
        elif kind == "llm.request" and isinstance(event.get("model"), str):
            self._model = storable(event["model"])
            if self.result.head.model is None:
                self.result.set_head(model=self._model)
        elif kind == "metadata":
            self.result.add_extra(protocol_version=storable_value(event.get("protocol_version")))
        else:
            self.result.count("events_without_step", kind[:100])

    def _loop_event(self, event: Mapping[str, Any], timestamp: str | None) -> Iterator[Step]:
        kind, step = event.get("type"), event.get("stepUuid")
        if kind == "content.part":
            yield from self._take_answer(step, _content_block(event.get("part")), timestamp)
        elif kind == "tool.call":
            call = {"type": "tool_use", "id": event.get("toolCallId"), "name": event.get("name")}
            yield from self._take_answer(step, {**call, "input": event.get("args") or {}}, timestamp)
        elif kind == "tool.result":
            yield from self.steps.user({"content": [_result_block(event)]}, timestamp, {}, None)
        elif kind == "step.end" and isinstance(event.get("usage"), Mapping):
            message: dict[str, Any] = {
                "id": event.get("uuid"),
                "content": [],
                "usage": _anthropic(event["usage"]),
                "stop_reason": "told",
            }
            yield from self.steps.assistant({**message, "model": self._model}, timestamp, {})
        elif kind not in ("step.begin", "step.end"):
            self.result.count("events_without_step", f"loop/{kind}"[:100])

    def _take_answer(self, step: object, block: Mapping[str, object], timestamp: str | None) -> Iterator[Step]:
        message = {"id": step, "content": [block], "model": self._model}
        yield from self.steps.assistant(message, timestamp, {})

    def _message(self, message: Mapping[str, JsonValue], timestamp: str | None) -> Iterator[Step]:
        yield from self.steps.flush()
        origin = message.get("origin")
        kind = origin.get("kind") if isinstance(origin, Mapping) else None
        source = Source.USER if message.get("role") == "user" else Source.SYSTEM
        text = clean(content_text(message.get("content"))[0])
        extra = {"origin": storable(kind)} if isinstance(kind, str) and kind != "user" else None
        yield Step(0, source, text, timestamp=timestamp, extra=extra)

    def _system_prompt(self, event: Mapping[str, object], timestamp: str | None) -> Iterator[Step]:
        prompt = event.get("systemPrompt")
        if isinstance(prompt, str):
            yield from self.steps.flush()
            listed = dict.fromkeys(match[1].strip() for match in _LISTED.finditer(prompt))
            self.result.set_head(skills_listed=tuple(storable(name) for name in listed))
            yield Step(0, Source.SYSTEM, clean(prompt), timestamp=timestamp)

    def _compaction(self, event: Mapping[str, object], timestamp: str | None) -> Iterator[Step]:
        yield from self.steps.flush()
        summary = event.get("contextSummary") or event.get("summary")
        text = content_text(summary.get("content") if isinstance(summary, Mapping) else summary)[0]
        extra = {key: storable_value(event[key]) for key in ("tokensBefore", "tokensAfter") if key in event}
        yield Step(0, Source.SYSTEM, clean(f"[context compressed]\n{text}"), timestamp=timestamp, extra=extra or None)


def _content_block(part: object) -> dict[str, JsonValue]:
    if not isinstance(part, Mapping):
        return {"type": "text", "text": str(part)}
    return {"type": "thinking", "thinking": part.get("think")} if part.get("type") == "think" else dict(part)


def _result_block(event: Mapping[str, Any]) -> dict[str, object]:
    result = event.get("result")
    result = result if isinstance(result, Mapping) else {"output": result}
    return {
        "type": "tool_result",
        "tool_use_id": event.get("toolCallId"),
        "content": result.get("output"),
        "is_error": result.get("isError") is True,
    }


def _anthropic(raw: Mapping[str, Any]) -> dict[str, JsonValue]:
    return {
        "input_tokens": number(raw.get("inputOther")),
        "cache_read_input_tokens": number(raw.get("inputCacheRead")),
        "cache_creation_input_tokens": number(raw.get("inputCacheCreation")),
        "output_tokens": number(raw.get("output")),
    }


def _usage(raw: object) -> Usage:
    if not isinstance(raw, Mapping):
        return Usage()
    return usage_of_parts(raw, ("inputOther", "inputCacheRead", "inputCacheCreation"), "output")


def timestamp_of(raw: object) -> str | None:
    """Of milliseconds since 1970."""
    milliseconds = number(raw)
    if milliseconds is None or milliseconds > _LATEST_MILLISECONDS:
        return None
    return datetime.fromtimestamp(milliseconds / 1000, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
