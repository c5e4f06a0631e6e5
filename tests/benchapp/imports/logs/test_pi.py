"""Sessions of Pi: a tree of entries with messages, and the events of `pi --mode json`."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from benchapp.imports.batch import import_paths
from benchapp.models import Run, Trajectory, Trial
from runner.base.types import Source, Step, Usage
from runner.trajectories.readers.reading import open_file, sniff
from tests.benchapp.import_folders import write

pytestmark = pytest.mark.django_db
AT = "2026-03-01T10:00:0{}.000Z"
HEAD = {"type": "session", "version": 3, "id": "p1", "timestamp": AT.format(0), "cwd": "/w"}
COUNTS = {"input": 50, "output": 10, "cacheRead": 40, "cacheWrite": 5, "totalTokens": 105, "cost": {"total": 0.25}}


def entry(number: int, message: Any, kind: str = "message") -> dict[str, Any]:
    parent = f"e{number - 1}" if number > 1 else None
    own = {"message": message} if kind == "message" else message
    return {"type": kind, "id": f"e{number}", "parentId": parent, "timestamp": AT.format(number), **own}


def answer(*content: dict[str, Any], stop: str = "stop", **more: Any) -> dict[str, Any]:
    about = {"api": "lab", "provider": "lab", "model": "model-1", "usage": COUNTS, "stopReason": stop}
    return {"role": "assistant", "content": list(content), **about, **more}


CALL = {"type": "toolCall", "id": "c1", "name": "bash", "arguments": {"command": "ls"}}
ENTRIES = [
    HEAD,
    entry(1, {"provider": "lab", "modelId": "model-1"}, "model_change"),
    entry(2, {"role": "user", "content": [{"type": "text", "text": "Count the files"}]}),
    entry(3, answer({"type": "thinking", "thinking": "Look."}, CALL, stop="toolUse")),
    entry(
        4, {"role": "toolResult", "toolCallId": "c1", "content": [{"type": "text", "text": "none"}], "isError": True}
    ),
    entry(5, {"summary": "Looked.", "tokensBefore": 900, "firstKeptEntryId": "e4"}, "compaction"),
    entry(6, {"role": "bashExecution", "command": "pwd", "output": "/w", "exitCode": 0}),
    entry(7, answer({"type": "text", "text": "None."})),
    entry(8, answer(stop="error", errorMessage="overloaded", usage={"input": 0, "output": 0})),
]


def save(folder: Path, entries: list[dict[str, Any]], name: str = "s.jsonl") -> Path:
    return write(folder / "sessions" / name, "".join(f"{json.dumps(each)}\n" for each in entries))


def steps_of(path: Path) -> list[Step]:
    assert sniff(path) == "pi"
    return list(open_file(path).steps)


def test_messages_are_steps_with_their_calls_and_tokens(tmp_path: Path) -> None:
    asked, called, compacted, shell, said, failed = steps_of(save(tmp_path, ENTRIES))
    assert (asked.source, asked.message) == (Source.USER, "Count the files")
    assert (called.reasoning, called.tool_calls[0].arguments, called.model) == ("Look.", {"command": "ls"}, "model-1")
    assert (called.observations[0].content, called.observations[0].is_error) == ("none", True)
    assert called.usage == Usage(95, 40, 10, 0.25)
    assert (compacted.message, compacted.extra) == ("Looked.", {"compaction": {"tokens_before": 900}})
    assert (shell.source, shell.message) == (Source.SYSTEM, "pwd\n/w")
    assert (said.message, failed.observations[0].content) == ("None.", "overloaded")


def test_a_session_is_a_trial(tmp_path: Path) -> None:
    report = import_paths([save(tmp_path, ENTRIES).parent])
    assert list(report.problems) == []
    trial = Trial.objects.get()
    assert (trial.task.title, trial.input_tokens, trial.output_tokens) == ("Count the files", 190, 20)
    assert float(trial.cost_usd or 0) == 0.5
    assert trial.duration_seconds == 8
    assert Run.objects.values_list("harness", "agent_model").get() == ("pi", "model-1")
    assert Trajectory.objects.get().source_format == "pi"


def test_what_a_fork_copied_counts_once(tmp_path: Path) -> None:
    head = {**HEAD, "id": "p2", "timestamp": AT.format(6), "parentSession": "/home/dev/s.jsonl"}
    steps = steps_of(save(tmp_path, [head, *ENTRIES[1:6], ENTRIES[-2]]))
    assert [step.is_copied_context for step in steps] == [True, True, True, False]
    assert [step.usage is not None for step in steps] == [False, False, False, True]


def test_printed_events_have_the_same_messages(tmp_path: Path) -> None:
    said = [{"type": "message_end", "message": each["message"]} for each in ENTRIES if each["type"] == "message"]
    steps = steps_of(save(tmp_path, [HEAD, {"type": "agent_start"}, *said, {"type": "agent_end", "messages": []}]))
    assert [step.message for step in steps if step.source is Source.AGENT] == ["", "None."]
