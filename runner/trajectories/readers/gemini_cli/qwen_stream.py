"""Qwen Code's `--output-format stream-json`: Claude Code's events with another way of counting tokens.

input_tokens includes cache reads, in messages and in results. A result has the totals of its process so far, and no
cost. A failed one has its text in `error`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runner.base.types import Step
from runner.trajectories.log_records import Record
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.claude_code import claude_stream
from runner.trajectories.readers.claude_code.claude_messages import counts_without_cache

_NAMES = {"qwen_code_version": "claude_code_version", "permission_mode": "permissionMode"}


def read(result: ReadTrajectory) -> Iterator[Step]:
    """See `claude_stream.read`."""
    return claude_stream.read(result, "qwen-code", _in_claude_terms)


def _in_claude_terms(event: Record) -> Record:
    kind, message, usage, error = (event.get(key) for key in ("type", "message", "usage", "error"))
    if kind == "assistant" and isinstance(message, Mapping):
        raw = message.get("usage")
        counts = {"usage": _without_cache(raw), "stop_reason": "end"} if isinstance(raw, Mapping) else {}
        return {**event, "message": {**message, **counts}}
    if kind == "result":
        text = {"result": error.get("message")} if isinstance(error, Mapping) else {}
        return {**event, **text, **(_as_model_usage(usage) if isinstance(usage, Mapping) else {})}
    return {_NAMES.get(key, key): value for key, value in event.items()} if kind == "system" else event


def _as_model_usage(usage: Record) -> dict[str, object]:
    counts = _without_cache(usage)
    keys = {"inputTokens": "input_tokens", "cacheReadInputTokens": "cache_read_input_tokens"}
    keys["outputTokens"] = "output_tokens"
    return {"modelUsage": {"all": {name: counts.get(key) for name, key in keys.items()}}}


def _without_cache(usage: Record) -> dict[str, object]:
    keys = ("input_tokens", "cache_read_input_tokens", "output_tokens")
    return {**usage, **counts_without_cache(*(usage.get(key) for key in keys))}
