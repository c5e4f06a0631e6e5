"""Requests of a conversation, each stored as its additions to the one before.

A turn's request repeats every turn before it, so whole requests need space that grows with the square of the turns. A
continuation is {"continues": <name of the earlier>, "kept": <messages taken from it>, "messages": [the rest]} plus the
other fields whose values differ.
"""

from __future__ import annotations

from itertools import takewhile
from typing import Any

from runner.base.digests import digest_json
from runner.base.encoding import Undecodable, decode, encode
from runner.base.types import JsonValue, ModelRequest

CONTINUES, KEPT, MESSAGES = "continues", "kept", "messages"


def request_digest(request: ModelRequest) -> str:
    """Digest of everything that is sent. Equal requests have equal digests, no matter how they were stored."""
    return digest_json(encode(request))


def count_shared_messages(request: ModelRequest, earlier: ModelRequest) -> int:
    """Count the messages at the start that both share."""
    pairs = zip(request.messages, earlier.messages, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def shorten_request(request: ModelRequest, earlier: ModelRequest | None, name: str) -> dict[str, JsonValue]:
    """The request's JSON, as a continuation of `earlier` if they begin alike. `name` refers to the earlier one."""
    whole: dict[str, Any] = encode(request)
    kept = 0 if earlier is None else count_shared_messages(request, earlier)
    if earlier is None or kept == 0:
        return whole
    before = encode(earlier)
    changed = {field: value for field, value in whole.items() if field != MESSAGES and value != before[field]}
    return {CONTINUES: name, KEPT: kept, MESSAGES: whole[MESSAGES][kept:], **changed}


def is_continuation(value: object) -> bool:
    return isinstance(value, dict) and CONTINUES in value


def lengthen_request(value: dict[str, Any], earlier: ModelRequest | None = None) -> ModelRequest:
    """Restore the whole request. Undecodable if the value is invalid, or continues a missing request."""
    if not is_continuation(value):
        return decode(ModelRequest, value)
    if earlier is None:
        raise Undecodable(f"$: continues {value[CONTINUES]!r}, which is not there")
    before = encode(earlier)
    changed = {field: item for field, item in value.items() if field not in (CONTINUES, KEPT, MESSAGES)}
    messages = [*before[MESSAGES][: value[KEPT]], *value[MESSAGES]]
    return decode(ModelRequest, {**before, **changed, MESSAGES: messages})
