"""Conversations in the common shapes of chat interfaces: {"messages": [...]}, a list of messages, or one a line.

A message has a role and content (text or parts); tool calls are in `tool_calls` (OpenAI), in content blocks
(Anthropic), or in `tool_uses` with their output (the dataclaw exporter). Tokens are unknown unless a message has its
usage.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runner.base.text import clean, storable
from runner.base.types import Source, Step
from runner.trajectories.atif_values import content_text
from runner.trajectories.log_records import Record, parse_json, read_object, read_objects, read_text
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.claude_code.claude_messages import (
    MessageSteps,
    call_block,
    counts_without_cache,
    result_block,
)

_HEAD_KEYS = {"session_id": "session_id", "model": "model", "agent": "agent_name"}


def read(result: ReadTrajectory) -> Iterator[Step]:
    """Yield one step per message; results join the step of their call."""
    yield from message_steps(result, _messages(result))


def message_steps(result: ReadTrajectory, messages: Iterator[object]) -> Iterator[Step]:
    """The steps of a conversation's messages, and its usage."""
    steps = MessageSteps()
    for place, message in enumerate(messages, start=1):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            result.problems.add(f"message {place}", "an object with a role", f"found {message!r:.60}")
            continue
        timestamp, role = read_text(message.get("timestamp")), message["role"]
        if role in ("assistant", "model", "agent"):
            blocks, outputs = _assistant_blocks(message, place)
            answer = {"id": f"message-{place}", "content": blocks, "stop_reason": "end", "usage": _usage(message)}
            yield from steps.assistant({**message, **answer}, timestamp)
            yield from steps.user({"content": outputs}, timestamp)
        elif role in ("tool", "function"):
            call = message.get("tool_call_id") or message.get("name")
            block = result_block(call, message.get("content"), message.get("is_error") is True)
            yield from steps.user({"content": [block]}, timestamp)
        elif role in ("user", "human"):
            yield from steps.user(message, timestamp)
        else:
            yield from steps.flush()
            yield Step(0, Source.SYSTEM, clean(content_text(message.get("content"))[0]), timestamp=timestamp)
    yield from steps.flush()
    result.set_usage(steps.usage, "messages")


def _messages(result: ReadTrajectory) -> Iterator[object]:
    with result.open_binary() as stream:
        start = stream.read(4096).lstrip()
    if not start.startswith(b"[") and b'"messages"' not in start:
        yield from (message for _, message in result.lines())
        return
    for key, value in result.parts(streamed=frozenset({"messages"})):
        if key in ("", "messages"):
            yield value
        elif key in _HEAD_KEYS and isinstance(value, str):
            result.set_head(**{_HEAD_KEYS[key]: storable(value)})
        elif value is not None:
            result.add_extra(**{key: value})


def _assistant_blocks(message: Record, number: int) -> tuple[list[object], list[object]]:
    """(content blocks, results in the same message), in Anthropic's shape."""
    blocks: list[object] = []
    outputs: list[object] = []
    for key in ("reasoning_content", "reasoning", "thinking"):
        if isinstance(message.get(key), str) and message[key]:
            blocks.append({"type": "thinking", "thinking": message[key]})
    content = message.get("content")
    blocks += content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []
    for index, call in enumerate(read_objects(message.get("tool_calls")), start=1):
        inner = call.get("function")
        function = inner if isinstance(inner, Mapping) else call
        identifier = call.get("id") or f"message-{number}-call-{index}"
        blocks.append(call_block(identifier, function.get("name"), _arguments(function.get("arguments"))))
    for index, use in enumerate(read_objects(message.get("tool_uses")), start=1):
        identifier = f"message-{number}-call-{index}"
        blocks.append(call_block(identifier, use.get("tool"), use.get("input")))
        if use.get("output") is not None:
            outputs.append(result_block(identifier, use["output"], use.get("status") == "error"))
    return blocks, outputs


def _usage(message: Record) -> object:
    """The message's usage in Anthropic's terms."""
    raw = message.get("usage")
    if not isinstance(raw, Mapping) or "prompt_tokens" not in raw:
        return raw
    cached = read_object(raw.get("prompt_tokens_details")).get("cached_tokens")
    return counts_without_cache(raw["prompt_tokens"], cached, raw.get("completion_tokens"))


def _arguments(raw: object) -> object:
    """OpenAI gives arguments as a text that should be a JSON object. An invalid one is kept unchanged."""
    if not isinstance(raw, str) or not raw.strip():
        return None if isinstance(raw, str) else raw
    value = parse_json(raw)
    if value is None and raw.strip() != "null":
        return raw
    return value if isinstance(value, dict) else {"raw": value}
