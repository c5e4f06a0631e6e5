"""Sessions that hold copies of others, line by line as Claude Code and Codex write them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import Any

Line = dict[str, Any]
FIRST, SECOND, THIRD = (f"0000000{number}-aaaa-4bbb-8ccc-000000000000" for number in (1, 2, 3))


def write_lines(path: Path, lines: Iterable[Line]) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


def claude_turns(session: str, turns: Sequence[int], *, start: int = 0) -> list[Line]:
    """A question and an answer for each number, whose ids and times come from it: the same number is the same turn."""
    lines: list[Line] = []
    for turn in turns:
        stamp = f"2026-03-01T10:{turn:02d}"
        head = {"sessionId": session, "isSidechain": False, "cwd": "/w", "version": "2.1.63"}
        asked: Line = {"type": "user", "uuid": f"u{turn}", "timestamp": f"{stamp}:00.000Z"}
        said: Line = {"type": "assistant", "uuid": f"a{turn}", "timestamp": f"{stamp}:30.000Z", "requestId": f"r{turn}"}
        usage = {"input_tokens": 10 * turn, "output_tokens": turn}
        message = {"id": f"m{turn}", "model": "claude-sonnet-4-5", "stop_reason": "end_turn", "usage": usage}
        lines.append({**head, **asked, "message": {"role": "user", "content": f"Question {turn}"}})
        lines.append({**head, **said, "message": {**message, "content": [{"type": "text", "text": f"Answer {turn}"}]}})
    return lines


def codex_head(session: str, at: str, **more: Any) -> Line:
    payload = {"id": session, "timestamp": at, "cwd": f"/{session}", "cli_version": "0.99.0", **more}
    return {"timestamp": at, "type": "session_meta", "payload": payload}


def codex_turns(turns: Sequence[int], at: str | None = None) -> list[Line]:
    """As `claude_turns`; `at` is the time of every line. The counts of tokens run on."""
    lines: list[Line] = []
    for turn in turns:
        stamp = at or f"2026-03-01T10:{turn:02d}:00.000Z"
        for role, kind, text in (("user", "input_text", "Question"), ("assistant", "output_text", "Answer")):
            content = [{"type": kind, "text": f"{text} {turn}"}]
            lines.append(_item(stamp, {"type": "message", "role": role, "content": content}))
        total = {
            "input_tokens": sum(range(turn + 1)) * 10,
            "cached_input_tokens": 0,
            "output_tokens": sum(range(turn + 1)),
        }
        info = {"total_token_usage": total, "last_token_usage": {"input_tokens": 10 * turn, "output_tokens": turn}}
        lines.append({"timestamp": stamp, "type": "event_msg", "payload": {"type": "token_count", "info": info}})
    return lines


def _item(at: str, payload: Line) -> Line:
    return {"timestamp": at, "type": "response_item", "payload": payload}
