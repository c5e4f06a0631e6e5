"""One sample of an Inspect log (samples/<id>_epoch_<n>.json in a .eval file): its messages, in order.

Long texts stand as "attachment://<hash>" and are put back. The events repeat the messages at a finer grain and are not
read. Tokens are told by model for the whole sample (`model_usage`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from runner.base.text import storable
from runner.base.types import JsonValue, Step, Usage
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.chat import message_steps
from runner.trajectories.readers.claude_messages import number
from runner.trajectories.readers.line_streams import walk

ATTACHMENT = "attachment://"
_STREAMED = frozenset({"messages", "events"})
_TOTALS = ("output_tokens", "total_tokens")
_KEPT = ("id", "epoch", "uuid")


def read(result: ReadTrajectory) -> Iterator[Step]:
    """One step per message. The file is read twice: attachments and usage stand behind the messages."""
    result.set_head(agent_name="inspect")
    attachments = _behind(result)
    yield from message_steps(result, _messages(result, attachments))


def _behind(result: ReadTrajectory) -> Mapping[str, JsonValue]:
    """The attachments; what else the sample tells goes into the head."""
    attachments: Mapping[str, Any] = {}
    with result.open_binary() as stream:
        for key, value in walk(stream, type(result.problems)(), streamed=_STREAMED):
            if key == "attachments" and isinstance(value, Mapping):
                attachments = value
            elif key == "model_usage" and isinstance(value, Mapping):
                result.reported = usage_of(value)
                result.set_head(model=next((storable(str(model))[:200] for model in value), None))
            elif key in _KEPT and isinstance(value, str | int):
                result.add_extra(**{f"sample_{key}": value})
    return attachments


def usage_of(models: Mapping[str, JsonValue]) -> Usage:
    """Tokens and cost of all models together; input includes what was read from a cache. Inspect knows the cost of models
    that it was given prices for."""
    total = Usage()
    for told in models.values():
        if isinstance(told, Mapping):
            cached, output, whole = (number(told.get(key)) for key in ("input_tokens_cache_read", *_TOTALS))
            given = number(told.get("input_tokens"))
            if whole is not None and output is not None and whole >= output:
                given = whole - output  # providers differ in whether input_tokens holds what a cache gave
            total += Usage(given, cached, output, _amount(told.get("total_cost")))
    return total


def _amount(value: Any) -> float | None:
    is_amount = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15
    return float(value) if is_amount else None


def _messages(result: ReadTrajectory, attachments: Mapping[str, Any]) -> Iterator[Any]:
    with result.open_binary() as stream:
        for key, value in walk(stream, result.problems, streamed=_STREAMED):
            if key == "messages":
                yield _in_chat_shape(_put_back(value, attachments)) if isinstance(value, Mapping) else value


def _put_back(value: Any, attachments: Mapping[str, Any], depth: int = 0) -> Any:
    if isinstance(value, str):
        whole = attachments.get(value.removeprefix(ATTACHMENT)) if value.startswith(ATTACHMENT) else None
        return whole if isinstance(whole, str) else value
    if depth > 20:
        return value
    if isinstance(value, Mapping):
        return {key: _put_back(item, attachments, depth + 1) for key, item in value.items()}
    return [_put_back(item, attachments, depth + 1) for item in value] if isinstance(value, list) else value


def _in_chat_shape(message: Mapping[str, Any]) -> dict[str, Any]:
    """Inspect names a call's function as a text, reasoning as a part, and a tool's failure beside its content."""
    found = dict(message)
    content, calls = message.get("content"), message.get("tool_calls")
    if isinstance(content, list):
        found["content"] = [_part(part) for part in content]
    if isinstance(calls, list):
        found["tool_calls"] = [
            {**call, "name": call.get("function")} if isinstance(call, Mapping) else call for call in calls
        ]
    error = message.get("error")
    if isinstance(error, Mapping):
        found["is_error"] = True
        found["content"] = found.get("content") or error.get("message") or "failed"
    return found


def _part(part: Any) -> object:
    if isinstance(part, Mapping) and part.get("type") == "reasoning":
        return {"type": "thinking", "thinking": part.get("reasoning") or part.get("summary") or ""}
    return part
