"""The JSON object in a model's reply. Each reader decides how much text may surround it, and describes its errors."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from typing import TypeVar

from runner.base.types import JsonValue, ModelReply, ModelRequest

T = TypeVar("T")

_FENCE = re.compile(r"\A```(?:json)?[ \t]*\n(.*?)\n?```\Z", re.DOTALL)
_REFUSES = re.compile(
    r"\A\W{0,10}(?:I['’]?m (?:sorry|unable)|I am (?:sorry|unable)|I (?:can['’]?t|cannot|won['’]?t)|Sorry\b)"
)


class RepeatedName(ValueError):
    """A name has two values: either could be meant."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name[:80]!r} stands there twice")
        self.name = name


class NoNumber(ValueError):
    """A number is NaN or an infinity, which Python would read and JSON does not have."""

    def __init__(self, name: str) -> None:
        super().__init__(f"{name} is no JSON")
        self.name = name


def take_names_once(pairs: Iterable[tuple[str, JsonValue]]) -> dict[str, JsonValue]:
    """Build the object of these pairs, for `object_pairs_hook`. RepeatedName for a repeated name."""
    found: dict[str, JsonValue] = {}
    for name, value in pairs:
        if name in found:
            raise RepeatedName(name)
        found[name] = value
    return found


def _refuse_constant(name: str) -> None:
    raise NoNumber(name)


PLAIN = json.JSONDecoder()
STRICT = json.JSONDecoder(parse_constant=_refuse_constant, object_pairs_hook=take_names_once)
# Allows unescaped line breaks in long texts, as models write them for files.
STRICT_BUT_BREAKS = json.JSONDecoder(strict=False, parse_constant=_refuse_constant, object_pairs_hook=take_names_once)


def decode_alone(text: str, decoder: json.JSONDecoder) -> object:
    """Return the value that is the whole text, or alone in a code fence. ValueError, RecursionError."""
    text = text.strip()
    fenced = _FENCE.match(text)
    return decoder.decode(fenced[1] if fenced else text)


def objects_among(
    text: str, decoder: json.JSONDecoder, *, limit: int, inner: bool = False
) -> Iterator[dict[str, JsonValue]]:
    """Find the objects in a text, in order. At most `limit` braces are tried; RepeatedName passes through.

    `inner`: also yield objects inside of objects.
    """
    at = text.find("{")
    for _ in range(limit):
        if at < 0:
            return
        end = at + 1
        try:
            value, after = decoder.raw_decode(text, at)
        except RepeatedName:
            raise
        except (ValueError, RecursionError):
            pass
        else:
            yield value
            end = end if inner else after
        at = text.find("{", end)


def json_type(value: object) -> str:
    """Return JSON's name for a value of this kind: "object", "array", "string", "boolean", "number" or "null"."""
    kinds = {dict: "object", list: "array", str: "string", bool: "boolean", int: "number", float: "number"}
    return kinds.get(type(value), "null")


def describe_json(value: object) -> str:
    """Return what was found in the place of another value: "a JSON array", or "missing"."""
    return "missing" if value is None else f"a JSON {json_type(value)}"


def refuses(text: str) -> bool:
    """Does the reply begin like a refusal?"""
    return _REFUSES.match(text) is not None


def ask_until_usable(
    request: ModelRequest,
    ask: Callable[[ModelRequest, int], ModelReply],
    read: Callable[[ModelReply], tuple[T, str]],
    *,
    tries: int,
    echo: Callable[[str], str] = str,
) -> list[T]:
    """Return what was read of each reply, the last one decisive. An unusable reply is answered with a complaint.

    `ask` gets the request and the try's number, from 1; its exceptions pass through. `read` returns a value and a
    complaint for the model; "" ends the loop. `echo` shortens a reply that is quoted back to the model.
    """
    found: list[T] = []
    while True:
        reply = ask(request, len(found) + 1)
        value, complaint = read(reply)
        found.append(value)
        if not complaint or len(found) == tries:
            return found
        request = ask_again(request, echo(reply.text), complaint)


def ask_again(request: ModelRequest, reply: str, complaint: str) -> ModelRequest:
    """Build the messages that ask again: the same question, the unusable answer, and what was wrong with it."""
    more: tuple[Mapping[str, object], ...] = (
        {"role": "assistant", "content": reply or "(nothing)"},
        {"role": "user", "content": complaint},
    )
    return replace(request, messages=(*request.messages, *more))
