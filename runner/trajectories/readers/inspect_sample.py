"""One sample of an Inspect log (samples/<id>_epoch_<n>.json in a .eval file): its messages, in order.

Long texts are replaced by "attachment://<hash>" and are restored. The events repeat the messages in more detail and are
not read. `model_usage` counts tokens by model for the whole sample.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from runner.base.text import storable
from runner.base.types import Step, Usage
from runner.trajectories.log_records import Record, read_amount, read_count, read_objects, read_usage
from runner.trajectories.problems import Problems
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.chat import message_steps

ATTACHMENT = "attachment://"
_STREAMED = frozenset({"messages", "events"})
_TOKEN_KEYS = ("input_tokens", "input_tokens_cache_read", "output_tokens")
_KEPT = ("id", "epoch", "uuid")


def read(result: ReadTrajectory) -> Iterator[Step]:
    """Yield one step per message. The file is read twice: attachments and usage come after the messages."""
    result.set_head(agent_name="inspect")
    attachments = _behind(result)
    yield from message_steps(result, _messages(result, attachments))


def _behind(result: ReadTrajectory) -> Record:
    """Return the attachments, and put other facts of the sample into the head."""
    attachments: Record = {}
    for key, value in result.parts(streamed=_STREAMED, problems=Problems()):
        if key == "attachments" and isinstance(value, Mapping):
            attachments = value
        elif key == "model_usage" and isinstance(value, Mapping):
            result.reported = read_model_usage(value)
            result.set_head(model=next((storable(str(model))[:200] for model in value), None))
        elif key in _KEPT and isinstance(value, str | int):
            result.add_extra(**{f"sample_{key}": value})
    return attachments


def read_model_usage(models: Record) -> Usage:
    """Tokens and cost of all models together; input includes cache reads. Inspect knows the cost of models that it
    was given prices for."""
    total = Usage()
    for counts in read_objects(list(models.values())):
        usage, whole = read_usage(counts, *_TOKEN_KEYS), read_count(counts.get("total_tokens"))
        if whole is not None and usage.output_tokens is not None and whole >= usage.output_tokens:
            # Providers differ in whether input_tokens includes cache reads.
            usage = replace(usage, input_tokens=whole - usage.output_tokens)
        total += replace(usage, cost_usd=read_amount(counts.get("total_cost")))
    return total


def _messages(result: ReadTrajectory, attachments: Record) -> Iterator[object]:
    for key, value in result.parts(streamed=_STREAMED):
        if key == "messages":
            yield _in_chat_shape(_put_back(value, attachments))


def _put_back(value: object, attachments: Record, depth: int = 0) -> object:
    if isinstance(value, str):
        whole = attachments.get(value.removeprefix(ATTACHMENT)) if value.startswith(ATTACHMENT) else None
        return whole if isinstance(whole, str) else value
    if depth > 20:
        return value
    if isinstance(value, Mapping):
        return {key: _put_back(item, attachments, depth + 1) for key, item in value.items()}
    return [_put_back(item, attachments, depth + 1) for item in value] if isinstance(value, list) else value


def _in_chat_shape(message: object) -> object:
    """Convert a message: calls name their function as text, reasoning is a part, a tool's failure has a field."""
    if not isinstance(message, Mapping):
        return message
    found = dict(message)
    content, calls, error = message.get("content"), message.get("tool_calls"), message.get("error")
    if isinstance(content, list):
        found["content"] = [_part(part) for part in content]
    if isinstance(calls, list):
        found["tool_calls"] = [{**call, "name": call.get("function")} for call in read_objects(calls)]
    if isinstance(error, Mapping):
        found["is_error"] = True
        found["content"] = found.get("content") or error.get("message") or "failed"
    return found


def _part(part: object) -> object:
    if isinstance(part, Mapping) and part.get("type") == "reasoning":
        return {"type": "thinking", "thinking": part.get("reasoning") or part.get("summary") or ""}
    return part
