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

from runner.base.text import clean, storable, storable_value
from runner.base.types import Source, Step, Usage
from runner.trajectories.atif_values import content_text
from runner.trajectories.images import select_images
from runner.trajectories.log_records import Record, parse_json, read_object, read_text, read_usage
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.claude_code.claude_messages import MessageSteps, call_block, result_block
from runner.trajectories.readers.codex_cli.codex import TOKEN_KEYS
from runner.trajectories.readers.exit_codes import has_codex_failed

_ONE_OBJECT = re.compile(rb'\s*\{\s*"session"\s*:')
_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "web_search_call")


def read(result: ReadTrajectory) -> Iterator[Step]:
    """An agent step holds reasoning, text and calls up to the next result."""
    turn, total = _CodexTurn(), Usage()
    result.set_head(agent_name="codex")
    for event in _events(result):
        payload, kind = read_object(event.get("payload")), event.get("type")
        if kind == "response_item":
            yield from turn.add(payload, read_text(event.get("timestamp")))
        elif kind == "event_msg" and payload.get("type") == "token_count":
            running = read_object(payload.get("info")).get("total_token_usage")
            total = read_usage(running, *TOKEN_KEYS) if isinstance(running, Mapping) else total
        elif kind in ("session_meta", "turn_context"):
            names = {"id": "session_id", "cli_version": "agent_version", "model": "model"}
            result.fill_head(**{name: read_text(payload.get(key)) for key, name in names.items()})
            if isinstance(payload.get("cwd"), str):
                result.add_extra(cwd=payload["cwd"])
        else:
            result.count_event(kind, payload.get("type"))
    yield from turn.steps.flush()
    result.set_usage(total, "token counts")


def _events(result: ReadTrajectory) -> Iterator[Record]:
    """The lines of the file, those of an older file in today's wrapper."""
    with result.open_binary() as stream:
        is_object = _ONE_OBJECT.match(stream.read(200)) is not None
    if is_object:
        for key, value in result.parts(streamed=frozenset({"items"})):
            if isinstance(value, Mapping):
                yield {"type": "response_item" if key == "items" else "session_meta", "payload": value}
        return
    for _, event in result.lines():
        yield event if "payload" in event else _wrap(event)


def _wrap(event: Record) -> Record:
    if "record_type" in event:
        return {"type": event["record_type"]}
    return {"type": "response_item" if "type" in event else "session_meta", "payload": event}


class _CodexTurn:
    """Puts items together: everything the model said before a result is one message."""

    def __init__(self) -> None:
        self.steps = MessageSteps()
        self._message = 0
        self._is_answered = True

    def add(self, item: Record, timestamp: str | None) -> Iterator[Step]:
        kind = str(item.get("type"))
        if kind == "reasoning":
            summary = content_text(item.get("summary"))[0]
            yield from self._take_answer({"type": "thinking", "thinking": summary} if summary else None, timestamp)
        elif kind == "message" and item.get("role") == "assistant":
            yield from self._take_answer({"type": "text", "text": content_text(item.get("content"))[0]}, timestamp)
        elif kind == "message":
            yield from self._other_message(item, timestamp)
        elif kind in _CALLS:
            yield from self._take_answer(call_block(_id(item), item.get("name") or kind, _arguments(item)), timestamp)
        elif kind.endswith("_output"):
            self._is_answered = True
            block = result_block(_id(item), *_output(item.get("output")))
            yield from self.steps.user({"content": [block]}, timestamp)
        else:
            yield from self.steps.flush()
            yield Step(0, Source.SYSTEM, f"[{clean(kind)}]", timestamp=timestamp, extra={"item": storable_value(item)})

    def _take_answer(self, block: Record | None, timestamp: str | None) -> Iterator[Step]:
        if self._is_answered:
            self._message += 1
            self._is_answered = False
        if block is not None:
            message = {"id": f"message-{self._message}", "content": [block]}
            yield from self.steps.assistant(message, timestamp)

    def _other_message(self, item: Record, timestamp: str | None) -> Iterator[Step]:
        self._is_answered = True
        yield from self.steps.flush()
        source = Source.USER if item.get("role") == "user" else Source.SYSTEM
        text, parts = content_text(item.get("content"))
        yield Step(0, source, clean(text), timestamp=timestamp, extra=select_images(parts) or None)


def _id(item: Record) -> str:
    return storable(str(item.get("call_id") or item.get("id") or "call"))


def _arguments(item: Record) -> object:
    raw = item.get("arguments", item.get("input", item.get("action")))
    if not isinstance(raw, str):
        return raw
    value = parse_json(raw)
    return value if isinstance(value, dict) else {"input": raw}


def _output(raw: object) -> tuple[object, bool]:
    """(content, failed): a text, or parts with an image. Shell results are JSON texts {"output": ..., "metadata": {"exit_code": ...}} or, since 2025-10, plain
    texts with the exit code in their head."""
    value = parse_json(raw) if isinstance(raw, str) and raw.startswith("{") else raw
    if not isinstance(value, Mapping):
        text, parts = content_text(raw)
        return raw if select_images(parts) else text, has_codex_failed(text)
    code = read_object(value.get("metadata")).get("exit_code")
    failed = value.get("success") is False or code not in (None, 0)
    for key in ("output", "content"):
        if key in value:
            text, parts = content_text(value[key])
            return value[key] if select_images(parts) else text, failed
    return raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False, sort_keys=True), failed
