"""The canonical text of each field of a step.

Compactions, anchors of reviews and the inspector all count characters in these texts. So a change here is a change of
format: raise FIELDS_VERSION and keep the old rendering readable.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from math import isfinite

from runner.base.types import JsonValue, Step, ToolCall

FIELDS_VERSION = "fields/1"
FIELD = re.compile(r"\A(message|reasoning|tool_calls/\d{1,6}|observations/\d{1,6})\Z")  # a name
_encode = json.JSONEncoder(sort_keys=True, separators=(",", ":"), ensure_ascii=False, default=str).encode


def fields(step: Step) -> Iterator[tuple[str, str]]:
    """(name, text) of every field in reading order: message, reasoning, tool_calls/<i>, observations/<i>.

    A missing message or reasoning gives no field; an observation with empty content gives an empty text.
    """
    if step.message:
        yield "message", step.message
    if step.reasoning:
        yield "reasoning", step.reasoning
    for index, call in enumerate(step.tool_calls):
        yield f"tool_calls/{index}", tool_call_text(call)
    for index, observation in enumerate(step.observations):
        yield f"observations/{index}", observation.content


def field_text(step: Step, name: str) -> str:
    """Return the text of one field. KeyError if the step has no such field."""
    for found, text in fields(step):
        if found == name:
            return text
    raise KeyError(f"step {step.number} has no field {name!r}")


def tool_call_text(call: ToolCall) -> str:
    """Render the tool's name on its own line, then its arguments: short ones first, each group sorted by name.

    Texts are unchanged, so that a command reads as a command; everything else is compact JSON with sorted keys. Sorting
    makes the text independent of the store's key order.
    """
    lines = [call.name]
    lines += [f"{key}:{_gap(value)}{value}" for key, value in _order_arguments(call)]
    return "\n".join(lines)


def place_arguments(call: ToolCall) -> Iterator[tuple[str, int, int]]:
    """(key, start and end of its value) of each argument, in characters of `tool_call_text`."""
    at = len(call.name) + 1
    for key, value in _order_arguments(call):
        start = at + len(key) + 2
        at = start + len(value) + 1
        yield key, start, at - 1


def _order_arguments(call: ToolCall) -> list[tuple[str, str]]:
    values = [(key, _value_text(call.arguments[key])) for key in sorted(call.arguments)]
    short = [pair for pair in values if "\n" not in pair[1]]
    return short if len(short) == len(values) else short + [pair for pair in values if "\n" in pair[1]]


def _gap(value: str) -> str:
    return "\n" if "\n" in value else " "


def _value_text(value: JsonValue) -> str:
    if isinstance(value, str):
        return value
    # Python writes these numbers as its JSON does, in a tenth of the time.
    is_plain = type(value) is int or type(value) is float and isfinite(value)
    return repr(value) if is_plain else _encode(value)
