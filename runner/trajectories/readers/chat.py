"""Conversations in the common shapes of chat interfaces: {"messages": [...]}, a list of messages, or one a line.

A message has a role and content (text or parts); tool calls stand in `tool_calls` (OpenAI), in content blocks
(Anthropic), or in `tool_uses` with their output (the dataclaw exporter). Nothing is known of tokens unless a message
carries its usage.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from runner.base.text import clean, storable, storable_value
from runner.base.types import JsonValue, Source, Step, Usage
from runner.trajectories.atif_values import content_text
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.claude_messages import MessageSteps, number
from runner.trajectories.readers.line_streams import json_lines, walk

_HEAD_KEYS = {"session_id": "session_id", "model": "model", "agent": "agent_name"}


def read(result: ReadTrajectory) -> Iterator[Step]:
    """One step per message; results join the step of their call."""
    yield from message_steps(result, _messages(result))


def message_steps(result: ReadTrajectory, messages: Iterator[object]) -> Iterator[Step]:
    """The steps of a conversation's messages, and its usage."""
    steps = MessageSteps()
    for place, message in enumerate(messages, start=1):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            result.problems.add(f"message {place}", "an object with a role", f"found {message!r:.60}")
            continue
        timestamp = message.get("timestamp")
        timestamp = storable(timestamp) if isinstance(timestamp, str) else None
        role = message["role"]
        if role in ("assistant", "model", "agent"):
            blocks, outputs = _assistant_blocks(message, place)
            told = {"id": f"message-{place}", "content": blocks, "stop_reason": "end", "usage": _usage(message)}
            yield from steps.assistant({**message, **told}, timestamp, {})
            yield from steps.user({"content": outputs}, timestamp, {}, None)
        elif role in ("tool", "function"):
            yield from steps.user({"content": [_tool_result(message)]}, timestamp, {}, None)
        elif role in ("user", "human"):
            yield from steps.user(message, timestamp, {}, None)
        else:
            yield from steps.flush()
            yield Step(0, Source.SYSTEM, clean(content_text(message.get("content"))[0]), timestamp=timestamp)
    yield from steps.flush()
    result.usage = steps.usage
    result.facts["usage_from"] = "messages" if steps.usage != Usage() else "nothing"


def _messages(result: ReadTrajectory) -> Iterator[Any]:
    with result.open_binary() as stream:
        start = stream.read(4096).lstrip()
    with result.open_binary() as stream:
        if start.startswith(b"[") or b'"messages"' in start:
            for key, value in walk(stream, result.problems, streamed=frozenset({"messages"})):
                if key in ("", "messages"):
                    yield value
                elif key in _HEAD_KEYS and isinstance(value, str):
                    result.set_head(**{_HEAD_KEYS[key]: storable(value)})
                elif value is not None:
                    result.add_extra(**{storable(key): storable_value(value)})
        else:
            for _, value in json_lines(stream, result.problems):
                yield value


def _assistant_blocks(message: Mapping[str, JsonValue], number: int) -> tuple[list[JsonValue], list[JsonValue]]:
    """(content blocks, results that stand in the same message), in Anthropic's shape."""
    blocks: list[Any] = []
    outputs: list[Any] = []
    for key in ("reasoning_content", "reasoning", "thinking"):
        if isinstance(message.get(key), str) and message[key]:
            blocks.append({"type": "thinking", "thinking": message[key]})
    content = message.get("content")
    blocks += content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []
    for index, call in enumerate(_list(message.get("tool_calls")), start=1):
        inner = call.get("function")
        function: Mapping[str, Any] = inner if isinstance(inner, Mapping) else call
        identifier = call.get("id") or f"message-{number}-call-{index}"
        arguments = _arguments(function.get("arguments"))
        blocks.append({"type": "tool_use", "id": identifier, "name": function.get("name"), "input": arguments})
    for index, use in enumerate(_list(message.get("tool_uses")), start=1):
        identifier = f"message-{number}-call-{index}"
        blocks.append({"type": "tool_use", "id": identifier, "name": use.get("tool"), "input": use.get("input") or {}})
        if use.get("output") is not None:
            output, failed = use["output"], use.get("status") == "error"
            outputs.append({"type": "tool_result", "tool_use_id": identifier, "content": output, "is_error": failed})
    return blocks, outputs


def _usage(message: Mapping[str, Any]) -> object:
    """The message's usage in Anthropic's terms, whose input_tokens leave the cache out; OpenAI's hold it."""
    raw = message.get("usage")
    if not isinstance(raw, Mapping) or "prompt_tokens" not in raw:
        return raw
    details = raw.get("prompt_tokens_details")
    sent = number(raw.get("prompt_tokens"))
    cached = number(details.get("cached_tokens")) if isinstance(details, Mapping) else None
    return {
        "input_tokens": None if sent is None else max(0, sent - (cached or 0)),
        "cache_read_input_tokens": cached,
        "output_tokens": number(raw.get("completion_tokens")),
    }


def _list(raw: object) -> list[Mapping[str, JsonValue]]:
    return [item for item in raw if isinstance(item, Mapping)] if isinstance(raw, list) else []


def _arguments(raw: JsonValue) -> JsonValue:
    """OpenAI gives arguments as a text that should be a JSON object; a broken one is kept as it is."""
    if not isinstance(raw, str):
        return raw or {}
    try:
        return json.loads(raw, strict=False) if raw.strip() else {}
    except (ValueError, RecursionError):
        return raw


def _tool_result(message: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    identifier = message.get("tool_call_id") or message.get("name")
    result = {"type": "tool_result", "tool_use_id": identifier, "content": message.get("content")}
    return {**result, "is_error": True} if message.get("is_error") is True else result
