"""Recorded model calls: the file with those of a run, and the requests of a conversation as additions to earlier ones.

A recording is JSON lines, the first a head, then one line per answered call. Head: {"format", "run", "setup_digest",
"models": [...], "price_table", "context_window", "calls", "left_out"}. A call: {"purpose", "place", "model", "digest",
"request", "reply"}. "digest" is that of the whole request. "request" continues an earlier request of the conversation,
named by its digest.

A turn's request repeats every turn before it, so whole requests need space that grows with the square of the turns. A
continuation is {"continues": <name of the earlier>, "kept": <messages taken from it>, "messages": [the rest]} plus the
other fields whose values differ.

The model "recorded/<file name without .jsonl>" answers from a recording: no network, no key, no cost today. The same
request always gets the same reply, so that an attempt repeated after a failure of the machine takes the same course. A
request that is not in the recording is refused, with its difference from the most similar one.
"""

from __future__ import annotations

import difflib
import json
import os
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from itertools import takewhile
from pathlib import Path
from typing import Any

from runner.base.digests import canonical_json, digest_bytes, digest_json
from runner.base.encoding import Undecodable, decode, encode
from runner.base.errors import ModelRefused, SetupError
from runner.base.types import JsonValue, ModelReply, ModelRequest
from runner.base.var_folder import var_folder

# --- continuations ----------------------------------------------------------------------------------------------------


CONTINUES, KEPT, MESSAGES = "continues", "kept", "messages"


def request_digest(request: ModelRequest) -> str:
    """Digest everything that is sent. Equal requests have equal digests, no matter how they were stored."""
    return digest_json(encode(request))


def count_shared_messages(request: ModelRequest, earlier: ModelRequest) -> int:
    """Count the messages at the start that both share."""
    pairs = zip(request.messages, earlier.messages, strict=False)
    return sum(1 for _ in takewhile(lambda pair: pair[0] == pair[1], pairs))


def shorten_request(request: ModelRequest, earlier: ModelRequest | None, name: str) -> dict[str, JsonValue]:
    """Return the request's JSON, as a continuation of `earlier` if they begin alike.
    `name` refers to the earlier one."""
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


# --- recordings -------------------------------------------------------------------------------------------------------


FORMAT = "skillglass-recording/1"
MAX_DIFF_LINES, MAX_DIFF_CHARS, MAX_LINE_CHARS = 120, 8_000, 400


@dataclass(frozen=True, slots=True)
class RecordedCall:
    """One line of a recording."""

    line: int
    place: str  # "agent acquisition/E1-LS1-T1/0/1/3": purpose, slot, attempt, turn
    request: ModelRequest
    reply: ModelReply


@dataclass(frozen=True, slots=True)
class Recording:
    """A whole file, read and checked."""

    path: Path
    digest: str  # of the file
    head: dict[str, JsonValue]
    calls: dict[str, RecordedCall]  # by the request's digest

    def closest(self, request: ModelRequest) -> RecordedCall | None:
        """Return the most similar recorded request: of the same kind, sharing the longest beginning."""

        def likeness(call: RecordedCall) -> tuple[bool, int, bool, int, int]:
            other = call.request
            kind = (bool(other.tools), other.json_object) == (bool(request.tools), request.json_object)
            distance = abs(len(other.messages) - len(request.messages))
            return (kind, count_shared_messages(request, other), other.seed == request.seed, -distance, -call.line)

        return max(self.calls.values(), key=likeness, default=None)


def read_recording(path: Path) -> Recording:
    """Raises SetupError, with file and line, if it is not a recording. Read once per process until the file changes."""
    try:
        state = path.stat()
    except OSError as error:
        raise SetupError(f"{path}: {error.strerror}; expected a recording written by export_recording") from error
    return _read(path, state.st_mtime_ns, state.st_size)


def write_recording(path: Path, head: Mapping[str, object], calls: Iterable[Mapping[str, object]]) -> None:
    """Write the file whole or not at all."""
    part = path.with_name(f"{path.name}.part")
    with part.open("wb") as file:
        for line in (head, *calls):
            file.write(canonical_json(line) + b"\n")
    part.replace(path)


@lru_cache(maxsize=4)
def _read(path: Path, *_state: int) -> Recording:
    content = path.read_bytes()
    lines = content.splitlines()
    head = _line(path, 1, lines[0] if lines else b"")
    if head.get("format") != FORMAT:
        raise SetupError(f"{path}: line 1: format {head.get('format')!r} (expected {FORMAT!r})")
    calls: dict[str, RecordedCall] = {}
    for number, line in enumerate(lines[1:], start=2):
        digest, call = _call(path, number, _line(path, number, line), calls)
        if (before := calls.get(digest)) is not None and before.reply != call.reply:
            raise SetupError(f"{path}: line {number}: asks what line {before.line} asks and is answered otherwise")
        calls.setdefault(digest, call)
    return Recording(path, digest_bytes(content), head, calls)


def _line(path: Path, number: int, line: bytes) -> dict[str, JsonValue]:
    try:
        value = json.loads(line)
    except (ValueError, RecursionError):
        value = None
    if not isinstance(value, dict):
        raise SetupError(f"{path}: line {number}: expected a JSON object")
    return value


def _call(path: Path, number: int, value: dict[str, Any], calls: dict[str, RecordedCall]) -> tuple[str, RecordedCall]:
    try:
        kept = value["request"]
        earlier = calls[kept[CONTINUES]].request if is_continuation(kept) else None
        request = lengthen_request(kept, earlier)
        place = f"{value['purpose']} {value['place']}"
        call = RecordedCall(number, place, request, decode(ModelReply, value["reply"]))
    except (KeyError, TypeError, AttributeError, Undecodable) as error:
        raise SetupError(f"{path}: line {number}: not a recorded call ({type(error).__name__}: {error})") from error
    if (digest := request_digest(request)) != value.get("digest"):
        raise SetupError(f"{path}: line {number}: the request has another digest than the one written with it")
    return digest, call


def difference(recorded: ModelRequest, asked: ModelRequest) -> str:
    """Return a unified diff of the two requests' JSON, texts on lines of their own; capped, with a note."""
    texts = [json.dumps(encode(each), ensure_ascii=False, indent=1, sort_keys=True) for each in (recorded, asked)]
    before, after = (text.replace("\\n", "\\n\n").split("\n") for text in texts)
    lines = list(difflib.unified_diff(before, after, "recorded", "asked", lineterm="", n=2))
    shown = "\n".join(line[:MAX_LINE_CHARS] for line in lines[:MAX_DIFF_LINES])[:MAX_DIFF_CHARS]
    more = len(lines) - shown.count("\n") - 1
    return f"{shown}\n[... {more:,} more lines ...]" if more > 0 else shown


PROVIDER, SUFFIX = "recorded", ".jsonl"
NAME = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,150}")
MAX_PRICE_TABLE = 64  # characters; more than one list may have been used


def recordings_folder() -> Path:
    """Return $SKILLGLASS_RECORDINGS, or the folder `recordings` of the installation's data."""
    own = os.environ.get("SKILLGLASS_RECORDINGS", "").strip()
    return Path(own) if own else var_folder() / "recordings"


class Recorded:
    """`version` is the recording's digest: a changed file is another model. Usage and cost are the recorded ones."""

    scripted = True
    preset = None
    priced = False  # its cost was paid when it was recorded

    def __init__(self, name: str) -> None:
        provider, _, file = name.partition("/")
        if provider != PROVIDER or not NAME.fullmatch(file):
            raise SetupError(f"model {name!r}: expected recorded/<file name without {SUFFIX}>")
        self.name = name
        self.recording = read_recording(recordings_folder() / f"{file}{SUFFIX}")
        self.version = self.recording.digest[:16]
        window = self.recording.head.get("context_window")
        self.context_window: int | None = window if isinstance(window, int) else None
        self.price_table = str(self.recording.head.get("price_table") or "")[:MAX_PRICE_TABLE]

    def complete(self, request: ModelRequest) -> ModelReply:
        """Raises ModelRefused for any request that was not recorded, also for a turn beyond the last."""
        call = self.recording.calls.get(request_digest(request))
        if call is not None:
            return call.reply
        file, total = self.recording.path.name, len(self.recording.calls)
        closest = self.recording.closest(request)
        if closest is None:
            raise ModelRefused(f"{self.name}: {file} holds no call")
        raise ModelRefused(
            f"{self.name}: none of the {total:,} calls in {file} asks this. The closest is line {closest.line}"
            f" ({closest.place}):\n{difference(closest.request, request)}"
        )
