"""Codex' own session log (sessions/**/rollout-*.jsonl): {timestamp, type, payload} a line, with prompt and times.

Steps come from `response_item` lines, what was sent to and came from the model. `event_msg` lines repeat them for the
screen; of those only `token_count` is used: its total_token_usage is a running total.

Up to September 2025 the first line was the session's head ({id, timestamp, instructions}) and the items followed without
the wrapper and without times, with `{"record_type": "state"}` between them. The first Codex, written in TypeScript,
put head and items into one object ({session, items}).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any

from runner.base.text import clean, storable, storable_value
from runner.base.types import JsonValue, Source, Step, Usage
from runner.trajectories.atif_values import content_text
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.claude_messages import MessageSteps, number
from runner.trajectories.readers.exit_codes import has_codex_failed
from runner.trajectories.readers.line_streams import json_lines, walk

_ONE_OBJECT = re.compile(rb'\s*\{\s*"session"\s*:')
_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "web_search_call")


def read(result: ReadTrajectory) -> Iterator[Step]:
    """An agent step holds reasoning, text and calls up to the next result."""
    turn, total = _CodexTurn(), Usage()
    result.set_head(agent_name="codex")
    for event in _events(result):
        payload = event.get("payload")
        payload = payload if isinstance(payload, Mapping) else {}
        kind, timestamp = event.get("type"), event.get("timestamp")
        if kind == "response_item":
            yield from turn.add(payload, storable(timestamp) if isinstance(timestamp, str) else None)
        elif kind == "event_msg" and payload.get("type") == "token_count":
            total = _running(payload, total)
        elif kind in ("session_meta", "turn_context"):
            _take_head(result, payload)
        else:
            result.count("events_without_step", f"{kind}/{payload.get('type', '')}"[:100].rstrip("/"))
    yield from turn.steps.flush()
    result.usage = total
    result.facts["usage_from"] = "token counts" if total != Usage() else "nothing"


def _events(result: ReadTrajectory) -> Iterator[Mapping[str, object]]:
    """The lines of the file, those of an older file in today's wrapper."""
    with result.open_binary() as stream:
        is_object = _ONE_OBJECT.match(stream.read(200)) is not None
    with result.open_binary() as stream:
        if is_object:
            for key, value in walk(stream, result.problems, streamed=frozenset({"items"})):
                if isinstance(value, Mapping):
                    yield {"type": "response_item" if key == "items" else "session_meta", "payload": value}
            return
        for _, event in json_lines(stream, result.problems):
            yield event if "payload" in event else _wrap(event)


def _wrap(event: Mapping[str, object]) -> Mapping[str, object]:
    if "record_type" in event:
        return {"type": event["record_type"]}
    return {"type": "response_item" if "type" in event else "session_meta", "payload": event}


def _running(payload: Mapping[str, JsonValue], before: Usage) -> Usage:
    info = payload.get("info")
    raw = info.get("total_token_usage") if isinstance(info, Mapping) else None
    if not isinstance(raw, Mapping):
        return before
    return Usage(*(number(raw.get(key)) for key in ("input_tokens", "cached_input_tokens", "output_tokens")))


def _take_head(result: ReadTrajectory, payload: Mapping[str, Any]) -> None:
    for key, name in {"id": "session_id", "cli_version": "agent_version", "model": "model"}.items():
        if isinstance(payload.get(key), str) and getattr(result.head, name) is None:
            result.set_head(**{name: storable(payload[key])})
    if isinstance(payload.get("cwd"), str):
        result.add_extra(cwd=storable(payload["cwd"]))


class _CodexTurn:
    """Puts items together: everything the model said before a result is one message."""

    def __init__(self) -> None:
        self.steps = MessageSteps()
        self._message = 0
        self._is_answered = True

    def add(self, item: Mapping[str, Any], timestamp: str | None) -> Iterator[Step]:
        kind = str(item.get("type"))
        if kind == "reasoning":
            summary = content_text(item.get("summary"))[0]
            yield from self._take_answer({"type": "thinking", "thinking": summary} if summary else None, timestamp)
        elif kind == "message" and item.get("role") == "assistant":
            yield from self._take_answer({"type": "text", "text": content_text(item.get("content"))[0]}, timestamp)
        elif kind == "message":
            yield from self._other_message(item, timestamp)
        elif kind in _CALLS:
            call = {"type": "tool_use", "id": _id(item), "name": item.get("name") or kind, "input": _arguments(item)}
            yield from self._take_answer(call, timestamp)
        elif kind.endswith("_output"):
            self._is_answered = True
            text, failed = _output(item.get("output"))
            block = {"type": "tool_result", "tool_use_id": _id(item), "content": text, "is_error": failed}
            yield from self.steps.user({"content": [block]}, timestamp, {}, None)
        else:
            yield from self.steps.flush()
            yield Step(0, Source.SYSTEM, f"[{clean(kind)}]", timestamp=timestamp, extra={"item": storable_value(item)})

    def _take_answer(self, block: Mapping[str, object] | None, timestamp: str | None) -> Iterator[Step]:
        if self._is_answered:
            self._message += 1
            self._is_answered = False
        if block is not None:
            message = {"id": f"message-{self._message}", "content": [block]}
            yield from self.steps.assistant(message, timestamp, {})

    def _other_message(self, item: Mapping[str, object], timestamp: str | None) -> Iterator[Step]:
        self._is_answered = True
        yield from self.steps.flush()
        source = Source.USER if item.get("role") == "user" else Source.SYSTEM
        yield Step(0, source, clean(content_text(item.get("content"))[0]), timestamp=timestamp)


def _id(item: Mapping[str, object]) -> str:
    return storable(str(item.get("call_id") or item.get("id") or "call"))


def _arguments(item: Mapping[str, object]) -> object:
    raw = item.get("arguments", item.get("input", item.get("action")))
    if not isinstance(raw, str):
        return raw or {}
    try:
        value = json.loads(raw, strict=False)
    except (ValueError, RecursionError):
        value = raw
    return value if isinstance(value, Mapping) else {"input": raw}


def _output(raw: object) -> tuple[str, bool]:
    """(text, failed). Shell results are JSON texts {"output": ..., "metadata": {"exit_code": ...}} or, since 2025-10, plain
    texts whose head tells the exit code."""
    value = raw
    if isinstance(raw, str) and raw.startswith("{"):
        try:
            value = json.loads(raw, strict=False)
        except (ValueError, RecursionError):
            return raw, False
    if not isinstance(value, Mapping):
        text = content_text(raw)[0]
        return text, has_codex_failed(text)
    metadata = value.get("metadata")
    code = metadata.get("exit_code") if isinstance(metadata, Mapping) else None
    failed = value.get("success") is False or code not in (None, 0)
    for key in ("output", "content"):
        if key in value:
            return content_text(value[key])[0], failed
    return str(raw) if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False, sort_keys=True), failed
