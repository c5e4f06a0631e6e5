"""A server on this machine that speaks the OpenAI chat format, streamed or whole, to agent programs."""

from __future__ import annotations

import json
from typing import Any

from tests.scripted_turns import Question, ScriptedProvider, Turn, events


class StreamingChatProvider(ScriptedProvider):
    """prompt_tokens holds the cached tokens, completion_tokens the thinking, as OpenAI counts."""

    model = "local-model"

    def reply(self, question: Question) -> tuple[int, str, bytes]:
        if not question.path.endswith("/chat/completions"):
            return 404, "application/json", self.error(404)
        turn = self.next_turn()
        if question.body.get("stream"):
            return 200, "text/event-stream", events(self._pieces(turn), end="data: [DONE]\n\n")
        message = {"role": "assistant", "content": turn.text or None, **self._calls(turn)}
        whole = self._envelope("chat.completion", {"message": message, "finish_reason": self._finish(turn)})
        return 200, "application/json", json.dumps({**whole, "usage": self._usage(turn)}).encode()

    def _pieces(self, turn: Turn) -> list[dict[str, Any]]:
        deltas: list[dict[str, Any]] = [{"role": "assistant", "content": ""}]
        if turn.thinking:
            deltas.append({"reasoning_content": turn.thinking})
        half = len(turn.text) // 2
        deltas += [{"content": text} for text in (turn.text[:half], turn.text[half:]) if text]
        deltas += [{"tool_calls": [call]} for call in self._calls(turn).get("tool_calls", ())]
        pieces = [self._envelope("chat.completion.chunk", {"delta": delta, "finish_reason": None}) for delta in deltas]
        pieces.append(self._envelope("chat.completion.chunk", {"delta": {}, "finish_reason": self._finish(turn)}))
        pieces.append({**pieces[-1], "choices": [], "usage": self._usage(turn)})
        return pieces

    def _envelope(self, kind: str, choice: dict[str, Any]) -> dict[str, Any]:
        reply = f"reply-{self.count.replies}"
        return {"id": reply, "object": kind, "created": 1, "model": self.model, "choices": [{"index": 0, **choice}]}

    def _calls(self, turn: Turn) -> dict[str, Any]:
        calls = [
            {
                "index": index,
                "id": f"call-{self.count.replies}-{index}",
                "type": "function",
                "function": {"name": call.name, "arguments": json.dumps(dict(call.arguments))},
            }
            for index, call in enumerate(turn.calls)
        ]
        return {"tool_calls": calls} if calls else {}

    def _finish(self, turn: Turn) -> str:
        return "tool_calls" if turn.calls else "stop"

    def _usage(self, turn: Turn) -> dict[str, Any]:
        return {
            "prompt_tokens": turn.input_tokens,
            "completion_tokens": turn.output_tokens,
            "total_tokens": turn.input_tokens + turn.output_tokens,
            "prompt_tokens_details": {"cached_tokens": turn.cached_tokens},
            "completion_tokens_details": {"reasoning_tokens": turn.thinking_tokens},
        }
