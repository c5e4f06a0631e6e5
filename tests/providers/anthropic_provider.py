"""The Anthropic Messages format as server-sent events, from a script."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.providers.scripted_server import Event, ScriptedServer, Turn


class AnthropicProvider(ScriptedServer):
    key_header = "x-api-key"

    def is_call(self, path: str) -> bool:
        return path == "/v1/messages"

    def other(self, path: str, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if path == "/v1/messages/count_tokens":
            return 200, {"input_tokens": 50}
        return super().other(path, request)

    def events_of(self, turn: Turn, number: int, request: dict[str, Any]) -> Iterator[Event]:
        usage = {
            "input_tokens": turn.fresh,
            "cache_read_input_tokens": turn.cached,
            "cache_creation_input_tokens": 0,
            "output_tokens": 1,
        }
        message = {
            "id": f"msg_{number:08}",
            "type": "message",
            "role": "assistant",
            "model": request.get("model", ""),
            "content": [],
            "stop_reason": None,
            "stop_sequence": None,
            "usage": usage,
        }
        yield "message_start", {"type": "message_start", "message": message}
        index = 0
        if turn.text:
            yield from _block(index, {"type": "text", "text": ""}, {"type": "text_delta", "text": turn.text})
            index += 1
        for call in turn.calls:
            start = {"type": "tool_use", "id": f"toolu_{number:06}_{index}", "name": call.name, "input": {}}
            given = json.dumps(dict(call.arguments))
            yield from _block(index, start, {"type": "input_json_delta", "partial_json": given})
            index += 1
        reason = "tool_use" if turn.calls else "end_turn"
        yield (
            "message_delta",
            {
                "type": "message_delta",
                "delta": {"stop_reason": reason, "stop_sequence": None},
                "usage": {"output_tokens": turn.output},
            },
        )
        yield "message_stop", {"type": "message_stop"}


def _block(index: int, start: dict[str, Any], delta: dict[str, Any]) -> Iterator[Event]:
    yield "content_block_start", {"type": "content_block_start", "index": index, "content_block": start}
    yield "content_block_delta", {"type": "content_block_delta", "index": index, "delta": delta}
    yield "content_block_stop", {"type": "content_block_stop", "index": index}
