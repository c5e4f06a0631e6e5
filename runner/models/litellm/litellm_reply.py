"""A provider's reply, from litellm's form to ours. Lenient: every readable part is kept."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any
from uuid import uuid4

from runner.base.text import storable, storable_value
from runner.base.types import FILTERED, UNREADABLE, JsonValue, ModelReply, ToolCall, Usage
from runner.models.litellm.litellm_errors import EmptyReply
from runner.models.wire.carried import FIELDS, read_carried

# OpenRouter's and Zhipu's finish reason for an upstream failure in mid-reply. litellm reports it as "stop".
BROKEN_OFF = ("error", "network_error")
SIGNATURE = "__thought__"  # litellm puts it between a call's id and Google's signature of the thought behind it


def read_reply(response: Any, model: str, usage: Usage) -> ModelReply:
    """Texts are made storable at once: half a character in one turn could not be sent back in the next."""
    if not response.choices:
        raise EmptyReply("no choices")
    choice = response.choices[0]
    if (native := (choice.get("provider_specific_fields") or {}).get("native_finish_reason")) in BROKEN_OFF:
        raise EmptyReply(f"finish reason {native!r}")
    message = choice.message
    refusal = getattr(message, "refusal", None) or (message.get("provider_specific_fields") or {}).get("refusal")
    reasoning = getattr(message, "reasoning_content", None)
    calls = tuple(tool_calls(message.tool_calls or ()))
    return ModelReply(
        text=storable(message.content or refusal or ""),
        tool_calls=calls,
        usage=usage,
        finish_reason=FILTERED if refusal else storable(str(choice.finish_reason or "unknown")),
        model=storable(str(response.model or model)),
        reasoning=None if reasoning is None else storable(reasoning),
        carried=read_carried(message, _fields_of_calls(message.tool_calls or (), calls)),
    )


def _fields_of_calls(raw: Sequence[Any], calls: Sequence[ToolCall]) -> dict[str, dict[str, object]]:
    """id -> what the provider wants back with the call: Google's signature, which litellm also appends to the id."""
    found: dict[str, dict[str, object]] = {}
    for each, call in zip(raw, calls, strict=True):
        _, _, hung = str(each.id or "").partition(SIGNATURE)
        fields = getattr(each, FIELDS, None) or ({"thought_signature": hung} if hung else None)
        if isinstance(fields, dict):
            found[call.id] = {FIELDS: fields}
    return found


def tool_calls(calls: Sequence[Any]) -> Iterator[ToolCall]:
    """Give each call a unique id, to match its result: some servers give none, or the same to all."""
    known: set[str] = set()
    for call in calls:
        identifier = storable(str(call.id or "").partition(SIGNATURE)[0])
        identifier = str(uuid4()) if identifier in known or not identifier else identifier
        known.add(identifier)
        yield ToolCall(identifier, storable(str(call.function.name)), read_arguments(call.function.arguments or "{}"))


def read_arguments(text: str) -> dict[str, JsonValue]:
    """Arguments that are not a JSON object are kept verbatim, under UNREADABLE. Texts may contain line breaks."""
    try:
        found = json.loads(text, strict=False)
    except (ValueError, RecursionError):
        found = None
    kept: dict[str, JsonValue] = storable_value(found if isinstance(found, dict) else {UNREADABLE: text})
    return kept
