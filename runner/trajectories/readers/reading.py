"""Recognising a trajectory file by its content, never by its name, and opening it for reading."""

from __future__ import annotations

import re
from io import BytesIO
from pathlib import Path
from typing import BinaryIO

import ijson

from runner.base.file_digests import GIT_LFS
from runner.base.types import JsonValue
from runner.trajectories.readers import UNKNOWN_PROGRAM, Opener, ReadTrajectory, reader
from runner.trajectories.readers.line_streams import UTF8_MARK, in_utf8

__all__ = ["ReadTrajectory", "open_file", "read_trajectory", "sniff", "sniff_markdown"]

SNIFFED_BYTES = 256 * 1024
SNIFFED_LINES = 50
MARK_BYTES = len(UTF8_MARK)  # of the longest mark of an encoding
PIECE = 1024  # parsed at once: an invalid end must not hide a good beginning
_ARRAY = re.compile(rb"\[\s*[{\]]")  # a line of a program's own log may begin with a bracket as well: "[WARN] ..."
_SESSION_KEYS = {"parentUuid", "uuid", "sessionId", "isSidechain"}
_CLAUDE_KEYS = {"tools", "uuid", "mcp_servers", "claude_code_version"}  # of an init line, never of Cursor's
_CLAUDE_IDS = {"session_id", "uuid", "message/id", "parent_tool_use_id"}
_CURSOR_CALL = re.compile(rb'^\{"type": ?"tool_call", ?"subtype": ?"(?:started|completed)", ?"call_id"', re.M)
# Events of OpenHands name their cause; entries of SWE-agent's history have roles.
_OPENHANDS_SOURCE = re.compile(rb'"source"\s*:\s*"(?:agent|user|environment)"')
_OPENHANDS_KEYS = re.compile(rb'"(?:args|cause|extras|tool_call_metadata|llm_metrics|kind)"\s*:')
_AIDER = re.compile(rb"\A\s*# aider chat started at ")
_CURSOR_TEXT = re.compile(rb"\Auser:\s*\n\s*<user_query>")
_SPEAKER = (
    r"\W{0,6}(?:(user|human|you|prompt)|(assistant|agent|ai|model|claude|codex|gemini|copilot|cursor|droid"
    r"|amp|opencode|goose|cline|roo|qwen|kimi|gpt|chatgpt))\b[^\w*\n]*(?:[(\[\d][^*\n]*)?"
)
_SIDES = re.compile(  # a heading, or bold words at the beginning of a line, that say only who speaks, and when or how
    rf"^(?:#{{1,6}}[ \t]+(?:{_SPEAKER})$|[ \t]*_?\*\*(?:{_SPEAKER})\*\*)", re.MULTILINE | re.IGNORECASE
)
_PI_REPLY = re.compile(rb'"(?:stopReason|provider)"\s*:')  # Factory Droid's messages have neither
_GEMINI_REPLY = re.compile(rb'"type"\s*:\s*"gemini"')
# Codex writes these into a session's head; some clients of its app server put their own name in `originator`.
_CODEX_HEAD = {f"payload/{key}" for key in ("source", "model_provider", "instructions", "base_instructions")}
_CODEX_TYPES = ("thread.", "turn.", "item.")
_ROLLOUT_TYPES = frozenset({"session_meta", "response_item", "event_msg", "turn_context", "compacted"})
_MINI_MARKS = (b"<returncode>", b"mswea_bash_command")
_ACP_TYPES = frozenset({"user_message", "agent_thought", "agent_message", "tool_call", "tool_call_update", "plan"})


def read_trajectory(
    open_binary: Opener, *, name: str = "main", source_format: str = "", copied_lines: int = 0
) -> ReadTrajectory:
    """Open a trajectory of any known format. `open_binary` is called once for its beginning, once for reading, and once
    more for each sub-agent that is read. Never fails for bad content: see `problems`.
    source_format: the answer of `sniff`, if already known. copied_lines: see ReadTrajectory."""
    with open_binary() as stream:
        start = stream.read(MARK_BYTES if source_format else SNIFFED_BYTES)
    source_format = source_format or sniff(BytesIO(start))
    open_binary = in_utf8(open_binary, start)
    return ReadTrajectory(
        open_binary, name=name, source_format=source_format, reader=reader(source_format), copied_lines=copied_lines
    )


def open_file(path: Path, *, name: str = "main") -> ReadTrajectory:
    return read_trajectory(lambda: path.open("rb"), name=name)


def sniff(source: Path | BinaryIO) -> str:
    """Return the format's name, a key of `runner.trajectories.readers.READERS`; "plain-text" if nothing else fits."""
    if isinstance(source, Path):
        with source.open("rb") as stream:
            return sniff(stream)
    start = source.read(SNIFFED_BYTES)
    with in_utf8(lambda: BytesIO(start), start)() as stream:
        start = stream.read()
    if not start.strip():
        return "empty"
    if start.startswith(GIT_LFS):
        return "git-lfs-pointer"
    stripped = start.lstrip()
    if _AIDER.match(stripped):
        return "aider-history"
    if _CURSOR_TEXT.match(stripped):
        return "cursor-text"
    if _ARRAY.match(stripped):
        keys = _top_keys(stripped[1:].lstrip())
        if "prompt" in keys and {"episode", "response"} & keys.keys():  # a long prompt may hide what follows it
            return "terminus-episodes"
        if _is_openhands(keys, start):
            return "openhands"
        if "role" in keys:
            return "mini-swe-agent" if any(mark in start for mark in _MINI_MARKS) else "chat-messages"
        return "plain-text"
    fallback = "plain-text"
    for line in (stripped, *start.split(b"\n", SNIFFED_LINES)[1:SNIFFED_LINES]):
        if line.lstrip().startswith(b"{"):
            keys = _top_keys(line, until_atif=True)
            if unread := _unread_format(keys, start):
                return unread
            if _is_openhands(keys, start):
                return "openhands"
            found = _swe_agent_format(keys, start) or _object_format(keys, start)
            if found in (UNKNOWN_PROGRAM, "chat-messages"):  # a later line may still identify the program
                fallback = found if fallback == "plain-text" else fallback
                continue
            if found == "claude-stream-json" and _CURSOR_CALL.search(start):
                return "cursor-stream-json"
            if found is not None:
                return found
    return fallback


def sniff_markdown(source: BinaryIO) -> str:
    """Do the same for a file named as Markdown: a history with headings that name the speakers in turn."""
    start = source.read(SNIFFED_BYTES)
    if (found := sniff(BytesIO(start))) != "plain-text":
        return found
    sides = {bool(match[1] or match[3]) for match in _SIDES.finditer(start.decode("utf-8", "replace"))}
    return "markdown-history" if len(sides) == 2 else "plain-text"


def _unread_format(keys: dict[str, JsonValue], start: bytes) -> str | None:
    """Return a key of UNREAD, or "pi", whose lines are like those of Factory Droid."""
    kind = keys.get("type")
    if kind == "session" and {"id", "cwd"} <= keys.keys():
        return "pi"
    if kind == "message" and {"parentId", "message/role"} <= keys.keys() and _PI_REPLY.search(start):
        return "pi"
    if keys.keys() <= {"kind", "k", "v", "i"} and isinstance(keys.get("kind"), int | float) and "v" in keys:
        return "vscode-chat-log"
    if kind == "session_meta" and _is_of_another_program(keys):
        return UNKNOWN_PROGRAM
    droid_message = kind == "message" and ("message/role" in keys or {"text", "session_id"} <= keys.keys())
    if kind == "session_start" or droid_message or (kind == "completion" and "finalText" in keys):
        return "factory-droid"
    if kind == "system" and {"session_id", "reasoning_effort"} <= keys.keys():
        return "factory-droid"
    if {"resource", "attributes"} <= keys.keys() or "resourceSpans" in keys or {"hrTime", "attributes"} <= keys.keys():
        return "telemetry"
    return None


def _is_of_another_program(keys: dict[str, JsonValue]) -> bool:
    """Does a session's head name a program other than Codex, and lack everything that only Codex writes?"""
    originator = keys.get("payload/originator")
    names_another = isinstance(originator, str) and not originator.lower().startswith("codex")
    return names_another and not _CODEX_HEAD & keys.keys()


def _is_openhands(keys: dict[str, JsonValue], start: bytes) -> bool:
    """Is it an event, or an object with a list of them?"""
    is_event = "source" in keys and bool({"action", "observation", "kind"} & keys.keys())
    has_events = bool({"history", "trajectory", "events"} & keys.keys()) and "schema_version" not in keys
    is_marked = _OPENHANDS_SOURCE.search(start) is not None and _OPENHANDS_KEYS.search(start) is not None
    return (is_event or has_events) and is_marked


def _swe_agent_format(keys: dict[str, JsonValue], start: bytes) -> str | None:
    """SWE-agent's object has a trajectory, a demonstration only the history; mini-swe-agent's has info and messages."""
    if {"info", "messages"} <= keys.keys() and (b'"mini_version"' in start or "trajectory_format" in keys):
        return "mini-swe-agent"
    if "trajectory" in keys and (
        {"history", "info"} <= keys.keys() or b'"action"' in start and b'"observation"' in start
    ):
        return "swe-agent"
    return "swe-agent" if "history" in keys and b'"role"' in start and b'"agent"' in start else None


def _object_format(keys: dict[str, JsonValue], start: bytes) -> str | None:
    kind = keys.get("type")
    if {"info", "messages"} <= keys.keys() and b'"parts"' in start and b'"sessionID"' in start:
        return "opencode-export"
    if "sessionID" in keys and ("part" in keys or kind == "error"):
        return "opencode-stream"
    if str(keys.get("schema_version", "")).startswith("ATIF") or {"steps", "agent"} <= keys.keys():
        return "atif"
    if "messages" in keys and {"sessionId", "projectHash"} & keys.keys():
        if "projectHash" in keys or _GEMINI_REPLY.search(start):
            return "gemini-native"
        return "chat-messages" if b'"role"' in start else UNKNOWN_PROGRAM
    if {"sessionId", "projectHash"} <= keys.keys():
        return "gemini-session"
    if {"requests", "responderUsername"} <= keys.keys():
        return "copilot-chat"
    if {key for key in keys if "/" not in key} == {"role", "message"} and "message/content" in keys:
        return "cursor-transcript"
    if {"id", "epoch", "input"} <= keys.keys():
        return "inspect-sample"
    if (kind == "init" and {"session_id", "model"} <= keys.keys()) or (
        kind == "message" and {"role", "timestamp"} <= keys.keys() and "id" not in keys
    ):
        return "gemini-stream-json"
    if "messages" in keys or ("role" in keys and {"content", "tool_calls"} & keys.keys()):
        return "chat-messages"
    if keys.get("record_type") == "state" or ({"id", "timestamp", "instructions"} <= keys.keys() and kind is None):
        return "codex-rollout"
    if {"session", "items"} <= keys.keys():
        return "codex-rollout"
    if {"timestamp", "message/type", "message/payload"} <= keys.keys():
        return "kimi-wire"
    if not isinstance(kind, str):
        return None
    if {"data", "id", "timestamp", "parentId"} <= keys.keys():
        return "copilot-session"
    if kind in _ROLLOUT_TYPES and "payload" in keys:
        return "codex-rollout"
    if kind.startswith(_CODEX_TYPES):
        return "codex-jsonl"
    if kind in _ACP_TYPES:
        return "acp-jsonl"
    if kind == "metadata" and "protocol_version" in keys:
        return "kimi-wire"
    if "sessionId" in keys and {"provenance", "message/parts", "systemPayload"} & keys.keys():
        return "qwen-session"
    if len(_SESSION_KEYS & keys.keys()) >= 2 or (kind == "queue-operation" and "sessionId" in keys):
        return "claude-session"
    if kind == "system" and "qwen_code_version" in keys:
        return "qwen-stream-json"
    if kind == "system" and "apiKeySource" in keys and not _CLAUDE_KEYS & keys.keys():
        return "cursor-stream-json"
    if kind in ("system", "assistant", "user", "result") and ("session_id" in keys or "message" in keys):
        # Claude Code names the session or the message; other programs have adopted the form of its lines.
        is_claude = "sessionId" not in keys and bool(_CLAUDE_IDS & keys.keys())
        return "claude-stream-json" if is_claude else UNKNOWN_PROGRAM
    return None


def _top_keys(start: bytes, *, until_atif: bool = False) -> dict[str, JsonValue]:
    """Keys of the JSON object that begins here, as far as it goes, with their values if these are scalars.

    Includes keys of its `message` and `payload`, as "message/<key>". With `until_atif`, reading ends at a schema
    version of ATIF, which decides the format.
    """
    found: dict[str, JsonValue] = {}
    depth, key, inner = 0, "", ""
    try:
        for event, value in ijson.basic_parse(BytesIO(start), use_float=True, buf_size=PIECE):
            if event in ("end_map", "end_array"):
                depth -= 1
                if depth == 0:
                    break
            elif event == "map_key" and depth == 1:
                key, inner = value, ""
                found[key] = None
            elif event == "map_key" and depth == 2 and key in ("message", "payload"):
                inner = f"{key}/{value}"
                found[inner] = None
            elif event in ("start_map", "start_array"):
                depth += 1
            elif depth == 2 and inner:
                found[inner] = value
            elif depth == 1:
                found[key] = value
                if until_atif and key == "schema_version" and str(value).startswith("ATIF"):
                    break
    except (ijson.JSONError, ValueError, OverflowError, StopIteration):
        pass
    return found
