"""A server on this machine that speaks Google's generateContent and streamGenerateContent (server-sent events)."""

from __future__ import annotations

import json
from typing import Any

from tests.scripted_turns import Question, ScriptedProvider, Turn, events


class GeminiProvider(ScriptedProvider):
    """promptTokenCount holds the cached tokens; candidatesTokenCount leaves out the thinking (thoughtsTokenCount)."""

    def reply(self, question: Question) -> tuple[int, str, bytes]:
        if question.path.partition("?")[0].endswith(":countTokens"):
            return 200, "application/json", b'{"totalTokens": 1}'
        turn = self.next_turn()
        if "streamGenerateContent" in question.path:
            return 200, "text/event-stream", events(self._pieces(turn))
        parts = [part for piece in self._pieces(turn) for part in piece["candidates"][0]["content"]["parts"]]
        return 200, "application/json", json.dumps(self._piece(turn, parts, last=True)).encode()

    def _pieces(self, turn: Turn) -> list[dict[str, Any]]:
        parts: list[dict[str, Any]] = []
        if turn.thinking:
            parts.append({"text": turn.thinking, "thought": True})
        if turn.text:
            half = len(turn.text) // 2
            parts += [{"text": turn.text[:half]}, {"text": turn.text[half:]}]
        parts += [{"functionCall": {"name": call.name, "args": dict(call.arguments)}} for call in turn.calls]
        return [self._piece(turn, [part], last=part is parts[-1]) for part in parts]

    def _piece(self, turn: Turn, parts: list[dict[str, Any]], *, last: bool) -> dict[str, Any]:
        """Usage comes with every piece, as Google sends it: each repeats the totals so far."""
        finish = {"finishReason": "STOP"} if last else {}
        return {
            "candidates": [{"content": {"role": "model", "parts": parts}, "index": 0, **finish}],
            "usageMetadata": {
                "promptTokenCount": turn.input_tokens,
                "cachedContentTokenCount": turn.cached_tokens,
                "candidatesTokenCount": turn.output_tokens - turn.thinking_tokens,
                "thoughtsTokenCount": turn.thinking_tokens,
                "totalTokenCount": turn.input_tokens + turn.output_tokens,
            },
            "modelVersion": "gemini-2.5-pro",
            "responseId": f"reply-{self.count.replies}",
        }
