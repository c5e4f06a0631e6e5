"""Qwen Code's `--output-format stream-json`: Claude Code's events, with tokens counted in another way.

input_tokens holds what came from the cache, in messages and in results. A result tells the totals of its process so far,
and no cost. A failed one has its text in `error`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runner.base.types import JsonValue, Step
from runner.trajectories.readers import ReadTrajectory, claude_stream
from runner.trajectories.readers.claude_messages import number

_NAMES = {"qwen_code_version": "claude_code_version", "permission_mode": "permissionMode"}


def read(result: ReadTrajectory) -> Iterator[Step]:
    """See `claude_stream.read`."""
    return claude_stream.read(result, "qwen-code", _in_claude_terms)


def _in_claude_terms(event: dict[str, object]) -> dict[str, object]:
    kind, message, usage, error = (event.get(key) for key in ("type", "message", "usage", "error"))
    if kind == "assistant" and isinstance(message, Mapping):
        counts = message.get("usage")
        told = {"usage": _without_cache(counts), "stop_reason": "told"} if isinstance(counts, Mapping) else {}
        return {**event, "message": {**message, **told}}
    if kind == "result":
        text = {"result": error.get("message")} if isinstance(error, Mapping) else {}
        counts = _without_cache(usage) if isinstance(usage, Mapping) else {}
        keys = {
            "inputTokens": "input_tokens",
            "cacheReadInputTokens": "cache_read_input_tokens",
            "outputTokens": "output_tokens",
        }
        models = {"modelUsage": {"all": {name: counts.get(key) for name, key in keys.items()}}} if counts else {}
        return {**event, **text, **models}
    return {_NAMES.get(key, key): value for key, value in event.items()} if kind == "system" else event


def _without_cache(counts: Mapping[str, JsonValue]) -> dict[str, JsonValue]:
    sent, cached = number(counts.get("input_tokens")), number(counts.get("cache_read_input_tokens"))
    return {**counts, "input_tokens": None if sent is None else max(0, sent - (cached or 0))}
