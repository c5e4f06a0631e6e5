"""Requests of one conversation, kept as what each adds, and read back whole."""

from __future__ import annotations

from typing import Any

import pytest

from runner.base.digests import canonical_json
from runner.base.encoding import Undecodable, encode
from runner.base.types import ModelRequest
from runner.models.recording import is_continuation, lengthen_request, request_digest, shorten_request

TOOLS = ({"type": "function", "function": {"name": "shell", "description": "x" * 2_000}},)


def turn(number: int, size: int = 100, **changes: Any) -> ModelRequest:
    """The request of a conversation's n-th turn: two messages to begin with, two more for every turn before."""
    messages: list[dict[str, Any]] = [{"role": "system", "content": "s"}, {"role": "user", "content": "u"}]
    for earlier in range(1, number):
        messages.append({"role": "assistant", "content": f"turn {earlier}"})
        messages.append({"role": "tool", "tool_call_id": f"c{earlier}", "content": f"{earlier} " * size})
    return ModelRequest(messages=tuple(messages), tools=TOOLS, **{"max_tokens": 8_000, "seed": 7, **changes})


def test_a_turn_is_kept_as_what_it_adds_and_read_back_whole() -> None:
    first, second = turn(1), turn(2)
    kept = shorten_request(second, first, "agent/1")
    assert kept == {"continues": "agent/1", "kept": 2, "messages": list(second.messages[2:])}
    assert lengthen_request(kept, first) == second
    assert request_digest(lengthen_request(kept, first)) == request_digest(second)


def test_whatever_else_changes_is_kept_too() -> None:
    first, second = turn(1), turn(2, max_tokens=10, json_object=True)
    kept = shorten_request(second, first, "agent/1")
    assert (kept["max_tokens"], kept["json_object"], "tools" in kept) == (10, True, False)
    assert lengthen_request(kept, first) == second


@pytest.mark.parametrize("messages", [(), ({"role": "user", "content": "another"},), turn(1).messages[:1]])
def test_a_conversation_that_was_cut_or_begun_anew_is_read_back_too(messages: tuple[dict[str, Any], ...]) -> None:
    earlier = turn(3)
    request = ModelRequest(messages=messages)
    kept = shorten_request(request, earlier, "agent/3")
    assert is_continuation(kept) == bool(messages and messages[0] == earlier.messages[0])
    assert lengthen_request(kept, earlier) == request


def test_forty_turns_take_room_in_proportion_to_what_was_said() -> None:
    requests = [turn(number, size=500) for number in range(1, 41)]
    whole = sum(len(canonical_json(encode(request))) for request in requests)
    kept = [canonical_json(shorten_request(requests[0], None, ""))]
    kept += [
        canonical_json(shorten_request(after, before, "k"))
        for before, after in zip(requests, requests[1:], strict=False)
    ]
    said = len(canonical_json(encode(requests[-1])))
    assert sum(map(len, kept)) < 1.1 * said
    assert whole > 18 * sum(map(len, kept))


def test_a_continuation_without_its_beginning_is_an_error() -> None:
    with pytest.raises(Undecodable, match="continues 'agent/1', which is not there"):
        lengthen_request(shorten_request(turn(2), turn(1), "agent/1"))
