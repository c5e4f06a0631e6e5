"""OpenAI's chat format, streamed as server-sent events, from a script."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.providers.scripted_server import Event, ScriptedServer, Turn


class StreamingChatProvider(ScriptedServer):
    """prompt_tokens holds the cached tokens, completion_tokens the thinking, as OpenAI counts. Usage comes last."""

    def is_call(self, path: str) -> bool:
        return path == "/v1/chat/completions"

    def other(self, path: str, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if path == "/v1/models":
            return 200, {"object": "list", "data": []}
        return super().other(path, request)

    def events_of(self, turn: Turn, number: int, request: dict[str, Any]) -> Iterator[Event]:
        envelope = {"id": f"reply-{number}", "object": "chat.completion.chunk", "created": 1, "model": "chat-model"}
        for delta in _deltas(turn, number):
            yield None, {**envelope, "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
        finish = "tool_calls" if turn.calls else "stop"
        yield None, {**envelope, "choices": [{"index": 0, "delta": {}, "finish_reason": finish}]}
        yield None, {**envelope, "choices": [], "usage": _usage(turn)}


def _deltas(turn: Turn, number: int) -> Iterator[dict[str, Any]]:
    yield {"role": "assistant", "content": ""}
    yield {"reasoning_content": "I think."}
    half = len(turn.text) // 2
    yield from ({"content": text} for text in (turn.text[:half], turn.text[half:]) if text)
    for index, call in enumerate(turn.calls):
        function = {"name": call.name, "arguments": json.dumps(dict(call.arguments))}
        yield {
            "tool_calls": [{"index": index, "id": f"call-{number}-{index}", "type": "function", "function": function}]
        }


def _usage(turn: Turn) -> dict[str, Any]:
    return {
        "prompt_tokens": turn.fresh + turn.cached,
        "completion_tokens": turn.output,
        "total_tokens": turn.fresh + turn.cached + turn.output,
        "prompt_tokens_details": {"cached_tokens": turn.cached},
        "completion_tokens_details": {"reasoning_tokens": turn.output // 5},
    }
