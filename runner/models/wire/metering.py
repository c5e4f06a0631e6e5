"""A call's usage as its provider reports it in the answer, read while the answer passes through the gateway.

The address distinguishes four wire formats. Input is everything that was sent, including what came from the provider's
cache, once: Anthropic reports cached and fresh input separately, the others the cached part of the total.
An error in the middle of an answer is read as well: by then its status of success has already been sent.
"""

from __future__ import annotations

import codecs
import json
import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from runner.base.types import Usage
from runner.models.wire.streams import chat_usage

MAX_EVENT_BYTES = 16 * 1024 * 1024  # of one event or one whole body; a longer one is ignored
# Kinds of errors that another call may not meet: the provider's trouble, not the request's.
_PASSING = re.compile(
    r"overloaded|server_error|api_error|rate_limit|timeout|unavailable|internal|exhausted|\b(408|429|5\d\d)\b", re.I
)


@dataclass(frozen=True, slots=True)
class Metered:
    """One call. `cache_written`: input that was written to the cache, which Anthropic charges more for."""

    usage: Usage = Usage()
    cache_written: int = 0


@dataclass(frozen=True, slots=True)
class ErrorInAnswer:
    """An error that is or ended an answer. `kind`: the provider's own type, code, status, as far as given."""

    kind: str
    is_of_account: bool = False  # it has no credit left

    @property
    def may_pass(self) -> bool:
        return _PASSING.search(self.kind) is not None


class UsageMeter:
    """Feed it the pieces of one answer, then ask for `total`, then look at `broken`."""

    def __init__(self, path: str, content_type: str) -> None:
        self._read = next((read for mark, read in _FORMATS.items() if mark in path), None)
        self._is_stream = content_type.partition(";")[0].strip().lower() == "text/event-stream"
        self._rest = bytearray()
        self._is_too_long = False
        self._usage: dict[str, int] = {}
        self.broken: ErrorInAnswer | None = None

    def feed(self, piece: bytes) -> None:
        *lines, rest = piece.split(b"\n") if self._is_stream else [piece]  # a long line is not searched again
        for line in lines:
            self._take_line((bytes(self._rest) + line).removeprefix(codecs.BOM_UTF8))
            self._rest.clear()
        self._rest += rest
        if len(self._rest) > MAX_EVENT_BYTES:
            self._rest.clear()
            self._is_too_long = not self._is_stream

    def total(self) -> Metered:
        if self._is_stream:
            self._take_line(bytes(self._rest))
        elif not self._is_too_long:
            self._take(bytes(self._rest))
        self._rest.clear()
        usage = self._usage
        return Metered(Usage(usage.get("input"), usage.get("cached"), usage.get("output")), usage.get("written", 0))

    def _take_line(self, line: bytes) -> None:
        if line.startswith(b"data:") and (b"sage" in line or b"error" in line):  # usage, usageMetadata
            self._take(line[5:])

    def _take(self, content: bytes) -> None:
        try:
            value = json.loads(content)
        except (ValueError, RecursionError):
            return
        for item in value if isinstance(value, list) else [value]:
            if self._read is not None and isinstance(item, Mapping):
                self._usage.update(self._read(item, self._usage))
                self.broken = self.broken or _broken(item)


def _anthropic(event: Mapping[str, object], known: Mapping[str, int]) -> dict[str, int]:
    """Read a message, its start (input), or its delta (output so far, with the input again if that changed)."""
    raw = _object(_object(event, "message") or event, "usage")
    parts = {
        "fresh": _count(raw, "input_tokens"),
        "cached": _count(raw, "cache_read_input_tokens"),
        "written": _count(raw, "cache_creation_input_tokens"),
        "output": _count(raw, "output_tokens"),
    }
    merged = {**known, **{name: count for name, count in parts.items() if count is not None}}
    if event.get("type") == "message_start":
        merged.pop("output", None)  # a beginning, not a count
    if "fresh" in merged:
        merged["input"] = merged["fresh"] + merged.get("cached", 0) + merged.get("written", 0)
    return merged


def _responses(event: Mapping[str, object], known: Mapping[str, int]) -> dict[str, int]:
    raw = _object(_object(event, "response") or event, "usage")
    cached = _count(_object(raw, "input_tokens_details"), "cached_tokens")
    return _drop_unknown(input=_count(raw, "input_tokens"), cached=cached, output=_count(raw, "output_tokens"))


def _chat(event: Mapping[str, object], known: Mapping[str, int]) -> dict[str, int]:
    """Read chat usage. Moonshot and DeepSeek have places of their own for the cached part."""
    raw = _object({"usage": chat_usage(event)}, "usage")
    cached = _count(_object(raw, "prompt_tokens_details"), "cached_tokens")
    for name in ("cached_tokens", "prompt_cache_hit_tokens"):
        cached = _count(raw, name) if cached is None else cached
    return _drop_unknown(input=_count(raw, "prompt_tokens"), cached=cached, output=_count(raw, "completion_tokens"))


def _gemini(event: Mapping[str, object], known: Mapping[str, int]) -> dict[str, int]:
    """Add tool results to the prompt and thoughts to the candidates: Gemini counts them separately and bills both."""
    raw = _object(event, "usageMetadata")
    prompt, of_tools = _count(raw, "promptTokenCount"), _count(raw, "toolUsePromptTokenCount")
    answer, thoughts = _count(raw, "candidatesTokenCount"), _count(raw, "thoughtsTokenCount")
    sent = None if prompt is None and of_tools is None else (prompt or 0) + (of_tools or 0)
    made = None if answer is None and thoughts is None else (answer or 0) + (thoughts or 0)
    return _drop_unknown(input=sent, cached=_count(raw, "cachedContentTokenCount"), output=made)


_FORMATS: dict[str, Callable[[Mapping[str, object], Mapping[str, int]], dict[str, int]]] = {
    "/messages": _anthropic,
    "/responses": _responses,
    "/chat/completions": _chat,
    "enerateContent": _gemini,
}


def _broken(event: Mapping[str, object]) -> ErrorInAnswer | None:
    """Return the error of an event: Anthropic, chat and Gemini put it under its name, Responses into the event or the
    response that failed."""
    raw = _object(event, "error") or _object(_object(event, "response"), "error")
    if not raw and event.get("type") == "error":
        raw = event
    if not raw:
        return None
    kinds = (raw.get(name) for name in ("type", "code", "status"))
    return ErrorInAnswer(" ".join(str(kind)[:60] for kind in kinds if isinstance(kind, str | int)), says_no_credit(raw))


def _drop_unknown(**counts: int | None) -> dict[str, int]:
    return {name: count for name, count in counts.items() if count is not None}


def _object(raw: Mapping[str, object], key: str) -> Mapping[str, object]:
    value = raw.get(key)
    return value if isinstance(value, Mapping) else {}


def _count(raw: Mapping[str, object], key: str) -> int | None:
    value = raw.get(key)
    return value if isinstance(value, int) and not isinstance(value, bool) and 0 <= value < 10**12 else None


_KINDS = ("insufficient_quota", "billing_hard_limit_reached", "billing_error")  # OpenAI by 429 and 400, Anthropic
_WORDS = "Your credit balance is too low"  # Anthropic by 400, with the type of any other bad request


def says_no_credit(error: Mapping[str, object]) -> bool:
    """Does the provider say that the account has no credit? `error`: the object of that name in its answer."""
    return any(error.get(name) in _KINDS for name in ("type", "code")) or str(error.get("message")).startswith(_WORDS)
