"""Find which logs are a sub-agent's: the programs keep them as separate files next to the session that started them."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path, PurePosixPath
from typing import BinaryIO

from benchapp.imports.reading.documents import read_optional
from benchapp.imports.reading.walking import Root
from runner.base.text import storable

FOLDER = "subagents"  # Claude Code's, in a folder named after the session: <session>/subagents/agent-<id>.jsonl
_ABOUT = {"tool_call_id": "toolUseId", "subagent_type": "agentType", "description": "description"}
LOOKED_AT = 256 * 1024  # bytes; the mark is in one of the first lines
# Claude Code marks every message. One file may mix a session's with its sub-agents', so the first decides.
_SIDECHAIN = re.compile(rb'"isSidechain"\s*:\s*(true|false)')
_STARTED_BY = re.compile(rb'"source"\s*:\s*\{\s*"sub_?agent"', re.IGNORECASE)  # in the head of a Codex rollout
_KIND = re.compile(rb'"kind"\s*:\s*"subagent"')  # in the head of a session of Gemini CLI
_PARENT = re.compile(rb'"parent_?thread_?id"\s*:\s*"([^"]{1,200})"', re.IGNORECASE)


def is_of_subagent(source_format: str, path: str, open_binary: Callable[[], BinaryIO]) -> bool:
    """`path`: POSIX, with at least the file's folder. Raise OSError if the file cannot be read."""
    if source_format == "kimi-wire":
        parts = PurePosixPath(path).parts
        return len(parts) > 2 and parts[-3] == "agents" and parts[-2] != "main"
    with open_binary() as stream:
        start = stream.read(LOOKED_AT)
    if source_format == "claude-session":
        if PurePosixPath(path).parent.name == FOLDER:
            return True
        first = _SIDECHAIN.search(start)
        return first is not None and first[1] == b"true"
    head = start.split(b"\n", 1)[0]
    if source_format == "codex-rollout":
        return _STARTED_BY.search(head) is not None
    return source_format == "gemini-session" and _KIND.search(head) is not None


def read_call(root: Root, path: Path) -> dict[str, str]:
    """Read the call that started a sub-agent from the file next to its log, with the readers' names for its fields."""
    about = path.with_suffix(".meta.json")
    if path.parent.name != FOLDER or not root.is_file(about):
        return {}
    told = read_optional(root, about)
    named = {word: told.text(key, 300) for word, key in _ABOUT.items()}
    return {word: storable(text) for word, text in named.items() if text}


def find_parent(source_format: str, start: bytes) -> str | None:
    """Return the session that started the sub-agent of a Codex rollout, which has its own id."""
    found = _PARENT.search(start.split(b"\n", 1)[0]) if source_format == "codex-rollout" else None
    return found[1].decode("utf-8", "replace") if found else None
