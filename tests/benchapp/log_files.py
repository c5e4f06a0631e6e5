"""Small logs that stand alone, as Inspect, SWE-agent, Claude Code, Codex and Gemini CLI write them."""

from __future__ import annotations

import json
import zipfile
import zlib
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import zstandard

from tests.benchapp.import_folders import write

HEADER: dict[str, Any] = {
    "version": 2,
    "status": "success",
    "eval": {
        "eval_set_id": "set-1",
        "eval_id": "eval-1",
        "run_id": "run-1",
        "task": "sums",
        "task_id": "task-1",
        "solver": "react",
        "model": "lab/model-1",
        "packages": {"inspect_ai": "0.3.200"},
    },
    "stats": {"started_at": "2026-03-01T10:00:00+00:00", "completed_at": "2026-03-01T10:10:00+00:00"},
}


def sample(name: str | int, epoch: int = 1, **changes: Any) -> dict[str, Any]:
    told: dict[str, Any] = {
        "id": name,
        "epoch": epoch,
        "input": "Sum the column.",
        "target": "6",
        "messages": [
            {"id": "m0", "role": "system", "content": "Be exact."},
            {"id": "m1", "role": "user", "content": "Sum the column."},
            {
                "id": "m2",
                "role": "assistant",
                "content": [{"type": "reasoning", "reasoning": "Look first."}, {"type": "text", "text": "Looking."}],
                "tool_calls": [{"id": "c1", "function": "bash", "arguments": {"command": "cat data.csv"}}],
            },
            {"id": "m3", "role": "tool", "tool_call_id": "c1", "function": "bash", "content": "attachment://abc"},
            {"id": "m4", "role": "assistant", "content": "6"},
        ],
        "scores": {"match": {"value": "C", "answer": "6", "explanation": "equal"}},
        "model_usage": {
            "lab/model-1": {"input_tokens": 70, "output_tokens": 10, "total_tokens": 110, "input_tokens_cache_read": 30}
        },
        "events": [{"event": "model", "output": "many"}],
        "attachments": {"abc": "1\n2\n3\n"},
        "total_time": 12.5,
        "working_time": 10.0,
        "started_at": "2026-03-01T10:00:00+00:00",
    }
    return {**told, **changes}


def inspect_log(path: Path, *samples: dict[str, Any], header: Any = None) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("header.json", json.dumps(HEADER if header is None else header))
        for told in samples:
            archive.writestr(f"samples/{told['id']}_epoch_{told['epoch']}.json", json.dumps(told))
    return path


def packed_with_zstandard(path: Path) -> Path:
    """The same zip as newer releases of Inspect pack it, by a method that Python's zipfile does not write."""
    with zipfile.ZipFile(path) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_STORED) as archive:
        for name, content in contents.items():
            archive.writestr(name, zstandard.ZstdCompressor().compress(content))
        members = archive.infolist()
    raw = bytearray(path.read_bytes())
    for member in members:
        size = len(contents[member.filename]).to_bytes(4, "little")
        crc = zlib.crc32(contents[member.filename]).to_bytes(4, "little")
        in_list = raw.rfind(member.filename.encode()) - 46
        for start, method, check, length in ((member.header_offset, 8, 14, 22), (in_list, 10, 16, 24)):
            raw[start + method : start + method + 2] = (93).to_bytes(2, "little")
            raw[start + check : start + check + 4] = crc
            raw[start + length : start + length + 4] = size
    path.write_bytes(bytes(raw))
    return path


def traj(folder: Path, instance: str = "acme__sums-1", **changes: Any) -> Path:
    told: dict[str, Any] = {
        "trajectory": [
            {
                "action": "cat skills/totals/SKILL.md\n",
                "observation": "Use awk.",
                "response": "I read the skill. ```cat```",
                "thought": "I read the skill.",
                "execution_time": 0.2,
                "state": {"open_file": ""},
                "query": [{"role": "user", "content": "We have an issue."}],
            },
            {"action": "submit\n", "observation": "", "response": "Done.", "thought": "Done."},
        ],
        "history": [
            {"role": "system", "content": "You fix issues.", "agent": "main"},
            {"role": "user", "content": "A demonstration.", "agent": "main", "is_demo": True},
            {"role": "user", "content": "We have an issue.", "agent": "main"},
            {"role": "assistant", "content": "I read the skill.", "agent": "main"},
            {"role": "user", "content": "Use awk.", "agent": "main"},
        ],
        "info": {
            "swe_agent_version": "1.1.0",
            "exit_status": "submitted",
            "submission": "diff --git a/x b/x\n",
            "model_stats": {"instance_cost": 0.25, "tokens_sent": 900, "tokens_received": 40, "api_calls": 2},
        },
        "replay_config": json.dumps({"agent": {"model": {"name": "lab/model-1"}}}),
        "environment": "swe_main",
    }
    return write(folder / instance / f"{instance}.traj", {**told, **changes})


def claude_session(
    path: Path,
    session: str = "s-1",
    *,
    side: bool = False,
    prompt: str = "Sum the column.",
    cwd: object = "/home/somebody",
    started: str = "2026-03-01T10:00:00Z",
    command: str = "ls",
    output: str = "data.csv",
    is_error: bool = False,
    follow_ups: int = 0,
) -> Path:
    """One request, one command of nine seconds, then so many more requests. `started` "": no line has a time."""
    base = {"sessionId": session, "version": "2.0.1", "cwd": cwd, "isSidechain": side, "userType": "external"}
    if side:
        base["agentId"] = "a1"
    call = {"type": "tool_use", "id": "t1", "name": "Bash", "input": {"command": command}}
    answered = {
        "id": "m1",
        "role": "assistant",
        "model": "claude-opus-4-5",
        "content": [{"type": "text", "text": "Looking."}, call],
        "stop_reason": "tool_use",
        "usage": {"input_tokens": 100, "output_tokens": 10},
    }
    result = {"type": "tool_result", "tool_use_id": "t1", "content": output, **({"is_error": True} if is_error else {})}
    messages = [
        ("user", 0, {"role": "user", "content": prompt}),
        ("assistant", 5, answered),
        ("user", 9, {"role": "user", "content": [result]}),
        *[("user", 9, {"role": "user", "content": f"No, not so ({number})."}) for number in range(follow_ups)],
    ]
    lines = [
        {
            **base,
            "type": kind,
            "uuid": f"u-{session}-{number}",
            "parentUuid": f"u-{session}-{number - 1}" if number > 1 else None,
            **({"timestamp": _later(started, second)} if started else {}),
            "message": message,
        }
        for number, (kind, second, message) in enumerate(messages, start=1)
    ]
    return write(path, "".join(json.dumps(line) + "\n" for line in lines))


def _later(moment: str, seconds: int) -> str:
    return f"{datetime.fromisoformat(moment) + timedelta(seconds=seconds):%Y-%m-%dT%H:%M:%SZ}"


def codex_rollout(
    path: Path,
    session: str = "codex-1",
    *,
    cwd: object = "/home/somebody",
    started: str = "2026-03-01T11:00:00Z",
    command: str = "ls",
) -> Path:
    def line(kind: str, second: int, payload: dict[str, Any]) -> str:
        return json.dumps({"timestamp": _later(started, second), "type": kind, "payload": payload}) + "\n"

    told = {"type": "message", "role": "user", "content": [{"type": "input_text", "text": "List the files."}]}
    words = json.dumps({"command": command.split()})
    call = {"type": "function_call", "name": "shell", "arguments": words, "call_id": "c1"}
    return write(
        path,
        line("session_meta", 0, {"id": session, "cli_version": "0.50.0", "cwd": cwd})
        + line("turn_context", 0, {"model": "gpt-5.2-codex"})
        + line("response_item", 1, told)
        + line("response_item", 2, call)
        + line("response_item", 3, {"type": "function_call_output", "call_id": "c1", "output": "data.csv"}),
    )


def gemini_chat(path: Path) -> Path:
    messages = [
        {"id": "1", "timestamp": "2026-03-01T12:00:00.000Z", "type": "user", "content": "Count the words."},
        {
            "id": "2",
            "timestamp": "2026-03-01T12:00:09.000Z",
            "type": "gemini",
            "content": "Three.",
            "model": "gemini-3-flash",
            "tokens": {"input": 50, "output": 5, "cached": 0, "thoughts": 0, "tool": 0, "total": 55},
        },
    ]
    return write(path, {"sessionId": "g-1", "projectHash": "ab", "messages": messages})
