"""Asking for a reply as a stream, and reassembling the stream to the reply that was not streamed.

A stream shows that the server is working, so a call can be limited per silence instead of as a whole. litellm is still
asked for whole replies: it loses parts of streamed ones and estimates usage that no provider reported. The formats are
those of chat completions, Anthropic's Messages, OpenAI's Responses, Gemini's generateContent and Ollama's own.
"""

from __future__ import annotations

import codecs
import json
from collections.abc import Callable, Iterator, Mapping, Sized
from dataclasses import dataclass
from typing import Any, Protocol, TypeAlias

from runner.base.types import JsonValue

# A JSON object under construction: its values are of any kind and change from piece to piece.
Growing: TypeAlias = "dict[str, Any]"

# Texts that each piece has whole; all others are continued by the next piece.
_WHOLE = frozenset({"role", "id", "type", "format", "name", "model"})
MAX_PLACES = 1_000  # of tool calls and the like in one reply
_STATUS_OF_ERROR = {
    "rate_limit": 429,
    "overloaded": 529,
    "authentication": 401,
    "permission": 403,
    "not_found": 404,
    "billing": 402,
    "invalid": 400,
    "badrequest": 400,
    "bad_request": 400,
    "context_length": 400,
    "exceed_context": 400,
    "content_policy": 400,
    "content_filter": 400,
}


class BrokenStream(Exception):
    """The stream has no end, or an invalid event."""


class ErrorInStream(Exception):
    """The provider reported an error after its status of success. `body` is that of an error response."""

    def __init__(self, error: Mapping[str, object]) -> None:
        super().__init__("the provider reported an error in the middle of its reply")
        self.status, self.body = _status_of(error), {"type": "error", "error": dict(error)}


class Assembler(Protocol):
    """Reassembles the events of one format."""

    def add(self, event: Mapping[str, object]) -> None: ...

    def whole(self, is_done: bool) -> Growing:
        """Return the reply's JSON. BrokenStream if its end is missing; `is_done`: the stream ended with [DONE]."""
        ...


@dataclass(frozen=True, slots=True)
class Streamed:
    """A request that asks for a stream: its path and query, its JSON body, and what reassembles the reply."""

    path: str
    body: Mapping[str, object]
    assembler: Callable[[], Assembler]


def as_stream(path: str, body: Mapping[str, object]) -> Streamed | None:
    """Return the same request, streamed. None for an address without a stream format that we read."""
    plain, question, query = path.partition("?")
    if plain.endswith(":generateContent"):
        changed = plain.removesuffix(":generateContent") + ":streamGenerateContent"
        return Streamed(f"{changed}?{query + '&' if query else ''}alt=sse", body, _Gemini)
    for ending, (added, assembler) in _FORMATS.items():
        if plain.endswith(ending):
            return Streamed(path, {**body, **added}, assembler)
    return None


class EventReader:
    """Server-sent events, or lines of JSON, from pieces of bytes. Feed it, then ask for `whole`."""

    def __init__(self, assembler: Assembler) -> None:
        self._assembler = assembler
        self._rest: list[bytes] = []
        self._data: list[bytes] = []
        self._is_done = False
        self._has_begun = False

    def feed(self, piece: bytes) -> None:
        """ErrorInStream, BrokenStream."""
        *lines, rest = piece.split(b"\n")
        for line in lines:
            self._line(b"".join((*self._rest, line)).rstrip(b"\r"))
            self._rest.clear()
        if rest:
            self._rest.append(rest)

    def whole(self) -> Growing:
        """Return the reply's JSON. ErrorInStream, BrokenStream."""
        self._line(b"".join(self._rest).rstrip(b"\r"))
        self._rest.clear()
        self._event()
        try:
            return self._assembler.whole(self._is_done)
        except (TypeError, RecursionError) as error:
            raise BrokenStream(f"the reply is not of its format ({type(error).__name__})") from error

    def _line(self, line: bytes) -> None:
        if not self._has_begun:
            line, self._has_begun = line.removeprefix(codecs.BOM_UTF8), True
        if line.startswith(b"data:"):
            self._data.append(line[5:])
            if len(self._data) == 1:  # not all servers put an empty line between two events
                self._event(is_whole=False)
        elif line.startswith(b"{"):
            self._data.append(line)
            self._event()
        elif not line:
            self._event()

    def _event(self, *, is_whole: bool = True) -> None:
        """Accept the data lines collected so far as an event, if they are one. BrokenStream if they should be."""
        data = b"\n".join(self._data).decode("utf-8", "replace").strip()
        if data == "[DONE]":
            self._is_done = True
        elif data and not self._is_done:
            try:
                event = json.loads(data, parse_constant=lambda _: None)  # NaN is not valid JSON
            except (ValueError, RecursionError) as error:
                if not is_whole:
                    return
                raise BrokenStream(f"an event of the stream is not JSON ({type(error).__name__})") from error
            self._take(event)
        self._data.clear()

    def _take(self, event: Any) -> None:
        try:
            if error := error_in(event):
                raise ErrorInStream(error)
            self._assembler.add(event)
        except (ValueError, TypeError, AttributeError, KeyError, RecursionError) as error:
            raise BrokenStream(f"an event of the stream is not of its format ({type(error).__name__})") from error


def error_in(event: Mapping[str, object]) -> Mapping[str, object] | None:
    """Return the error that an event reports, in its provider's words."""
    response = event.get("response")
    for holder in (event, response if isinstance(response, Mapping) else {}):
        if isinstance(error := holder.get("error"), Mapping):
            return error
        if isinstance(error, str) and error:  # Ollama
            return {"message": error}
    if event.get("type") == "error":  # Responses
        return {name: value for name, value in event.items() if name not in ("type", "sequence_number")}
    return None


def _status_of(error: Mapping[str, object]) -> int:
    """Return the status that the error would have had at the start of the reply; 502 if it has none."""
    code = str(error.get("code") or "")
    if code.isascii() and code.isdigit() and len(code) == 3 and 400 <= int(code) < 600:
        return int(code)
    kinds = " ".join(str(error.get(name) or "")[:200] for name in ("type", "code", "status")).lower()
    return next((status for kind, status in _STATUS_OF_ERROR.items() if kind in kinds), 502)


# --- pieces -----------------------------------------------------------------------------------------------------


class _TextPieces(list[str]):
    """A text that is still growing."""


def _merge(kept: Growing, piece: Mapping[str, object]) -> None:
    """Continue texts, merge objects, merge lists by the "index" of their objects, replace everything else."""
    for name, value in piece.items():
        if value is None:
            kept.setdefault(name, None)
        elif isinstance(value, str) and name not in _WHOLE:
            text = kept.get(name)
            if not isinstance(text, _TextPieces):
                kept[name] = text = _TextPieces([text] if isinstance(text, str) else [])
            text.append(value)
        elif isinstance(value, Mapping):
            if not isinstance(kept.get(name), dict):
                kept[name] = {}
            _merge(kept[name], value)
        elif isinstance(value, list):
            if not isinstance(kept.get(name), list):
                kept[name] = []
            _merge_list(kept[name], value)
        elif value != "" or name not in kept:
            kept[name] = value


def _merge_list(kept: list[Any], pieces: list[object]) -> None:
    for piece in pieces:
        if not isinstance(piece, dict):
            kept.append(piece)
            continue
        place = piece.get("index")
        same = None if place is None else _same_place(kept, place)
        if same is None:
            kept.append(same := {})
        _merge(same, piece)


def _require_few(kept: Sized) -> None:
    """Raise ValueError if there are more than any reply has."""
    if len(kept) > MAX_PLACES:
        raise ValueError(f"more than {MAX_PLACES:,} in one list")


def _same_place(kept: list[Any], place: object) -> Growing | None:
    """Return the latest object with this "index"."""
    _require_few(kept)
    return next((each for each in reversed(kept) if isinstance(each, dict) and each.get("index") == place), None)


def _finish_value(value: JsonValue) -> Any:
    if isinstance(value, _TextPieces):
        return "".join(value)
    if isinstance(value, dict):
        return {name: _finish_value(item) for name, item in value.items()}
    return [_finish_value(item) for item in value] if isinstance(value, list) else value


def _objects(value: object) -> Iterator[dict[str, JsonValue]]:
    return (item for item in value if isinstance(item, dict)) if isinstance(value, list) else iter(())


def chat_usage(event: Mapping[str, object]) -> JsonValue:
    """Return the usage, or None. Moonshot puts it into the last piece's choice, Groq into a field of its own."""
    own = event.get("x_groq")
    holders = [event, *_objects(event.get("choices")), own if isinstance(own, Mapping) else {}]
    return next((holder["usage"] for holder in holders if holder.get("usage")), None)


# --- formats ----------------------------------------------------------------------------------------------------


class _Chat:
    def __init__(self) -> None:
        self._reply: Growing = {}
        self._choices: dict[int, Growing] = {}
        self._calls: dict[int, list[Growing]] = {}

    def add(self, event: Mapping[str, object]) -> None:
        for choice in _objects(event.get("choices")):
            self._add(choice)
        usage = {**event, "usage": chat_usage(event)}
        self._reply.update({name: value for name, value in usage.items() if name != "choices" and value is not None})

    def _add(self, choice: Growing) -> None:
        place = choice.get("index") or 0
        if not isinstance(place, int):
            raise ValueError("index")
        _require_few(self._choices)
        if place not in self._choices:
            message = {"role": "assistant", "content": None}
            self._choices[place] = {"index": place, "message": message, "finish_reason": None}
            self._calls[place] = []
        kept, piece = self._choices[place], choice.get("delta") or choice.get("message")
        if isinstance(piece, dict):
            for call in _objects(piece.get("tool_calls")):
                _add_call(self._calls[place], call)
            _add_content(kept["message"], piece.get("content"))
            _merge(
                kept["message"], {name: value for name, value in piece.items() if name not in ("tool_calls", "content")}
            )
        others = {name: value for name, value in choice.items() if name not in ("index", "delta", "message")}
        kept.update({name: value for name, value in others.items() if value is not None})

    def whole(self, is_done: bool) -> Growing:
        if not is_done and not any(choice["finish_reason"] for choice in self._choices.values()):
            raise BrokenStream("the stream ended before the reply did")
        for place, calls in self._calls.items():
            if calls:
                self._choices[place]["message"]["tool_calls"] = [_finish_value(call) for call in calls]
        choices = [_finish_value(self._choices[place]) for place in sorted(self._choices)]
        return {**self._reply, "object": "chat.completion", "choices": choices}


def _add_content(message: Growing, piece: Any) -> None:
    """Add a text, or parts of one: Mistral's reasoning models send their thinking as parts and their answer as
    text."""
    kept = message.get("content")
    if not isinstance(piece, list) and (kept is None or isinstance(kept, _TextPieces)):
        _merge(message, {"content": piece})
    elif piece:
        parts = [{"type": "text", "text": kept}] if isinstance(kept, _TextPieces) else kept or []
        _join_parts(parts, piece if isinstance(piece, list) else [{"type": "text", "text": piece}])
        message["content"] = parts


def _join_parts(parts: list[Growing], pieces: object) -> None:
    """Join neighbours of one type to one part."""
    for piece in _objects(pieces):
        _require_few(parts)
        if not parts or parts[-1].get("type") != piece.get("type"):
            parts.append({"type": piece.get("type")})
        last = parts[-1]
        for name, value in piece.items():
            if isinstance(value, list):
                last.setdefault(name, [])
                _join_parts(last[name], value)
            else:
                _merge(last, {name: value})


def _add_call(calls: list[Growing], piece: Growing) -> None:
    """Separate calls by their index or, if a server gives none or the same to all, by their ids.

    Without ids, a call ends when its arguments are complete and the next name arrives.
    """
    place, identifier = piece.get("index"), piece.get("id")
    given = piece.get("function")
    function: Growing = given if isinstance(given, dict) else {}
    _require_few(calls)
    call = _same_place(calls, place) if place is not None else calls[-1] if calls else None
    is_another = identifier and function.get("name") and call and call["id"] not in ("", identifier)
    if call is None or is_another or _begins_anew(call, function):
        call = {"index": place, "id": "", "type": "function", "function": {"name": "", "arguments": _TextPieces()}}
        calls.append(call)
    call["id"] = call["id"] or identifier or ""
    name, arguments = function.get("name"), function.get("arguments")
    if isinstance(name, str) and name != call["function"]["name"]:  # some repeat it in every piece
        call["function"]["name"] += name
    if isinstance(arguments, str):
        call["function"]["arguments"].append(arguments)
    elif arguments:
        call["function"]["arguments"].append(json.dumps(arguments))
    _merge(call, {name: value for name, value in piece.items() if name not in ("index", "id", "type", "function")})


def _begins_anew(call: Growing, function: Mapping[str, object]) -> bool:
    """Is it a name and arguments after complete arguments, which cannot continue?"""
    pieces = call["function"]["arguments"]
    more = function.get("arguments")
    has_more = bool(more.strip() if isinstance(more, str) else more)
    if not (function.get("name") and has_more and pieces and pieces[-1].rstrip().endswith("}")):
        return False
    try:
        return isinstance(json.loads("".join(pieces), strict=False), dict)
    except (ValueError, RecursionError):
        return False


class _Messages:
    """Anthropic. Usage of the start and of the end add up to one: each has what the other lacks."""

    _CONTINUED = ("text", "thinking", "signature", "content")

    def __init__(self) -> None:
        self._message: Growing = {}
        self._blocks: dict[int, Growing] = {}
        self._inputs: dict[int, list[str]] = {}
        self._has_end = False

    def add(self, event: Mapping[str, object]) -> None:
        match event:
            case {"type": "message_start", "message": dict(message)}:
                self._message = {**message, "usage": dict(message.get("usage") or {})}
            case {"type": "content_block_start", "index": int(place), "content_block": dict(block)}:
                _require_few(self._blocks)
                self._blocks[place] = dict(block)
            case {"type": "content_block_delta", "index": int(place), "delta": dict(delta)} if place in self._blocks:
                self._continue(place, delta)
            case {"type": "message_delta", "delta": dict(delta)}:
                self._message.update({name: value for name, value in delta.items() if value is not None})
                usage = event.get("usage")
                used = usage.items() if isinstance(usage, dict) else ()
                self._message.setdefault("usage", {}).update({name: value for name, value in used if value is not None})
            case {"type": "message_stop"}:
                self._has_end = True

    def _continue(self, place: int, delta: dict[str, JsonValue]) -> None:
        block = self._blocks[place]
        for name in self._CONTINUED:
            if isinstance(piece := delta.get(name), str):
                if not isinstance(block.get(name), _TextPieces):
                    block[name] = _TextPieces([block[name]] if isinstance(block.get(name), str) else [])
                block[name].append(piece)
        if isinstance(piece := delta.get("partial_json"), str):
            self._inputs.setdefault(place, []).append(piece)
        if "citation" in delta:
            if not isinstance(block.get("citations"), list):
                block["citations"] = []
            block["citations"].append(delta["citation"])

    def whole(self, is_done: bool) -> Growing:
        if not self._has_end or not self._message:
            raise BrokenStream("the stream ended before the reply did")
        for place, pieces in self._inputs.items():
            self._blocks[place]["input"] = _input("".join(pieces))
        return {**self._message, "content": [_finish_value(self._blocks[place]) for place in sorted(self._blocks)]}


def _input(text: str) -> JsonValue:
    """Parse a tool's arguments. Invalid JSON, for instance cut off at the token limit, stays a text."""
    try:
        return json.loads(text, strict=False) if text.strip() else {}
    except (ValueError, RecursionError):
        return text


class _Responses:
    """The last event holds the whole reply. Items from before it are used if a server leaves them out there."""

    def __init__(self) -> None:
        self._items: list[Any] = []
        self._response: Growing | None = None

    def add(self, event: Mapping[str, object]) -> None:
        match event:
            case {"type": "response.output_item.done", "item": dict(item)}:
                _require_few(self._items)
                self._items.append(item)
            case {"type": "response.completed" | "response.incomplete" | "response.failed", "response": dict(response)}:
                self._response = response

    def whole(self, is_done: bool) -> Growing:
        if self._response is None:
            raise BrokenStream("the stream ended before the reply did")
        return {**self._response, "output": self._response.get("output") or self._items}


class _Gemini:
    """Each event is a reply of its own with the next parts; later values replace earlier ones, usage included."""

    def __init__(self) -> None:
        self._reply: Growing = {}
        self._candidates: dict[int, Growing] = {}

    def add(self, event: Mapping[str, object]) -> None:
        for candidate in _objects(event.get("candidates")):
            place = candidate.get("index") or 0
            if not isinstance(place, int):
                raise ValueError("index")
            kept = self._candidates.setdefault(place, {"content": {"role": "model", "parts": []}})
            content = candidate.get("content")
            for part in _objects(content.get("parts") if isinstance(content, dict) else None):
                _add_part(kept["content"]["parts"], part)
            kept.update({name: value for name, value in candidate.items() if name != "content"})
        self._reply.update({name: value for name, value in event.items() if name != "candidates"})

    def whole(self, is_done: bool) -> Growing:
        ended = any(candidate.get("finishReason") for candidate in self._candidates.values())
        if not ended and "promptFeedback" not in self._reply:
            raise BrokenStream("the stream ended before the reply did")
        return {**self._reply, "candidates": [_finish_value(each) for _, each in sorted(self._candidates.items())]}


def _add_part(parts: list[Growing], part: Growing) -> None:
    """Join pieces of one text, with thoughts separate from the answer. A signature ends a text.

    A call of a tool without parameters may lack arguments; litellm refuses that.
    """
    _require_few(parts)
    if isinstance(call := part.get("functionCall"), dict):
        part = {**part, "functionCall": {**call, "args": call.get("args") or {}}}
    last = parts[-1] if parts else {}
    is_text = set(part) <= {"text", "thought"} and isinstance(part.get("text"), str)
    if is_text and isinstance(last.get("text"), _TextPieces) and bool(last.get("thought")) == bool(part.get("thought")):
        last["text"].append(part["text"])
    else:
        parts.append({**part, "text": _TextPieces([part["text"]])} if is_text else part)


class _Ollama:
    """Lines of JSON: /api/chat has a message, /api/generate a response; the last line has the usage."""

    def __init__(self) -> None:
        self._reply: Growing = {}
        self._texts: Growing = {}
        self._has_end = False

    def add(self, event: Mapping[str, object]) -> None:
        growing = {name: value for name, value in event.items() if name in ("message", "response", "thinking")}
        _merge(self._texts, growing)
        self._reply.update({name: value for name, value in event.items() if name not in growing})
        self._has_end = self._has_end or event.get("done") is True

    def whole(self, is_done: bool) -> Growing:
        if not self._has_end:
            raise BrokenStream("the stream ended before the reply did")
        texts: Growing = _finish_value(self._texts)
        return {**dict.fromkeys(("prompt_eval_count", "eval_count"), 0), **self._reply, **texts}  # litellm would guess


_FORMATS: dict[str, tuple[Mapping[str, object], Callable[[], Assembler]]] = {
    "/chat/completions": ({"stream": True, "stream_options": {"include_usage": True}}, _Chat),
    "/messages": ({"stream": True}, _Messages),
    "/responses": ({"stream": True}, _Responses),
    "/api/chat": ({"stream": True}, _Ollama),
    "/api/generate": ({"stream": True}, _Ollama),
}
