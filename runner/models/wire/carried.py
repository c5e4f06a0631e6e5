"""The parts of a reply that the provider wants back in the next turn, in addition to its text and calls.

Fields of the assistant's message, as litellm names them:
- "thinking_blocks": Anthropic's thinking, signed. Without it a conversation with tools and thinking is refused.
- "reasoning_items": the same of OpenAI's Responses API, encrypted.
- "reasoning_details": the ones that OpenRouter passes on.
- "provider_specific_fields" and "tool_calls" (call id -> its fields): Google's thought signatures.
- "reasoning_content": unsigned reasoning; Kimi and DeepSeek refuse a turn that called tools without it.

Signed values go back unchanged or not at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from runner.base.digests import canonical_json
from runner.base.text import storable, storable_value
from runner.base.types import JsonValue

MAX_BYTES = 4 * 1024 * 1024  # of a reply's fields, as JSON; more is not carried
REASONING, THINKING, ITEMS = "reasoning_content", "thinking_blocks", "reasoning_items"
DETAILS = "reasoning_details"
FIELDS, CALLS, SIGNATURES = "provider_specific_fields", "tool_calls", "thought_signatures"


def read_carried(message: Any, of_calls: Mapping[str, Mapping[str, object]]) -> Mapping[str, object] | None:
    """Read them from litellm's message. `of_calls`: fields of its tool calls by id. None if nothing goes back."""
    fields = message.get(FIELDS) or {}
    signatures = fields.get(SIGNATURES)
    signed = {
        THINKING: [
            dict(block)
            for block in getattr(message, THINKING, None) or ()
            if block.get("signature") or block.get("data")
        ],
        ITEMS: [dict(item) for item in getattr(message, ITEMS, None) or ()],
        DETAILS: [dict(item) for item in fields.get(DETAILS) or () if isinstance(item, dict)],
        FIELDS: {SIGNATURES: list(signatures)} if signatures else {},
        CALLS: {identifier: dict(each) for identifier, each in of_calls.items()},
    }
    carried = {name: value for name, value in signed.items() if value and storable_value(value) == value}
    reasoning = getattr(message, REASONING, None)
    if not carried and isinstance(reasoning, str) and reasoning:
        carried = {REASONING: storable(reasoning)}
    return carried if carried and len(canonical_json(carried)) <= MAX_BYTES else None


def clean_carried(
    carried: Mapping[str, object] | None, clean: Callable[[object], object]
) -> Mapping[str, object] | None:
    """Remove secrets. A signed field that would have to change is dropped: its signature would no longer fit."""
    cleaned = {name: (value, clean(value)) for name, value in (carried or {}).items()}
    return {name: after for name, (before, after) in cleaned.items() if name == REASONING or after == before} or None


def message_fields(carried: Mapping[str, JsonValue] | None) -> dict[str, JsonValue]:
    """Return the fields for the assistant's message, without those of its calls: see `call_fields`."""
    return {name: value for name, value in (carried or {}).items() if name != CALLS}


def call_fields(carried: Mapping[str, Mapping[str, dict[str, object]]] | None, call: str) -> dict[str, object]:
    """Return the fields for the tool call with this id."""
    return dict((carried or {}).get(CALLS, {}).get(call, {}))


def thinks_first(messages: Sequence[Mapping[str, JsonValue]]) -> bool:
    """Does the work since the user's last message begin with thinking, or has it not begun?

    If that thinking is lost (it held a secret), Anthropic answers only with thinking turned off.
    """
    roles = [message.get("role") for message in messages]
    last = max((place for place, role in enumerate(roles) if role == "user"), default=-1)
    begun = next((message for message in messages[last + 1 :] if message.get("role") == "assistant"), None)
    return begun is None or THINKING in begun or not begun.get("tool_calls")
