"""Google's generateContent format, streamed as server-sent events, from a script."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from tests.providers.scripted_server import Event, ScriptedServer, Turn


class GeminiProvider(ScriptedServer):
    """promptTokenCount holds the cached tokens; candidatesTokenCount leaves out the thinking, a fifth of the output."""

    key_header = "x-goog-api-key"

    def is_call(self, path: str) -> bool:
        return path.startswith("/v1beta/models/") and path.endswith(":streamGenerateContent")

    def other(self, path: str, request: dict[str, Any]) -> tuple[int, dict[str, Any]]:
        """Calls that are not streamed are never the agent's own."""
        if path.endswith(":generateContent"):
            self.asides.append(request)
            self.answered.append(self.aside)
            return 200, _piece(self.aside, [{"text": self.aside.text}], is_last=True)
        return super().other(path, request)

    def events_of(self, turn: Turn, number: int, request: dict[str, Any]) -> Iterator[Event]:
        parts: list[dict[str, Any]] = [{"text": "I think.", "thought": True}] if turn.output // 5 else []
        half = len(turn.text) // 2
        parts += [{"text": text} for text in (turn.text[:half], turn.text[half:]) if text]
        parts += [{"functionCall": {"name": call.name, "args": dict(call.arguments)}} for call in turn.calls]
        for part in parts:
            yield None, _piece(turn, [part], is_last=part is parts[-1])


def _piece(turn: Turn, parts: list[dict[str, Any]], *, is_last: bool) -> dict[str, Any]:
    """Every piece carries the usage of the whole answer, as Google sends it."""
    thinking = turn.output // 5
    finish = {"finishReason": "STOP"} if is_last else {}
    return {
        "candidates": [{"content": {"role": "model", "parts": parts}, "index": 0, **finish}],
        "usageMetadata": {
            "promptTokenCount": turn.fresh + turn.cached,
            "cachedContentTokenCount": turn.cached,
            "candidatesTokenCount": turn.output - thinking,
            "thoughtsTokenCount": thinking,
            "totalTokenCount": turn.fresh + turn.cached + turn.output,
        },
        "modelVersion": "gemini-model",
    }
