"""OpenAI's Responses format as server-sent events, from a script."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

from tests.providers.scripted_server import Event, ScriptedServer, Turn


class ResponsesProvider(ScriptedServer):
    def is_call(self, path: str) -> bool:
        return path == "/v1/responses"

    def other(self, path: str, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        if path == "/v1/models":
            return 200, {"object": "list", "data": []}
        return super().other(path, request)

    def events_of(self, turn: Turn, number: int, request: dict[str, Any]) -> Iterator[Event]:
        response: dict[str, Any] = {"id": f"resp_{number}", "object": "response", "model": request.get("model", "")}
        yield _event("response.created", response={**response, "status": "in_progress", "output": []})
        items: list[dict[str, Any]] = []
        if turn.text:
            content = [{"type": "output_text", "text": turn.text, "annotations": []}]
            items.append({"type": "message", "id": f"msg_{number}", "role": "assistant", "content": content})
        for index, call in enumerate(turn.calls):
            items.append(
                {
                    "type": "function_call",
                    "id": f"fc_{number}_{index}",
                    "call_id": f"call_{number}_{index}",
                    "name": call.name,
                    "arguments": json.dumps(dict(call.arguments)),
                    "status": "completed",
                }
            )
        for index, item in enumerate(items):
            yield _event("response.output_item.added", output_index=index, item=item)
            yield _event("response.output_item.done", output_index=index, item=item)
        usage = {
            "input_tokens": turn.fresh + turn.cached,
            "input_tokens_details": {"cached_tokens": turn.cached},
            "output_tokens": turn.output,
            "output_tokens_details": {"reasoning_tokens": 0},
            "total_tokens": turn.fresh + turn.cached + turn.output,
        }
        yield _event(
            "response.completed", response={**response, "status": "completed", "output": items, "usage": usage}
        )


def _event(kind: str, **values: Any) -> Event:
    return kind, {"type": kind, **values}
