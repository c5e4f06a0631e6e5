"""Gemini CLI's `--output-format stream-json`: init, message, tool_use, tool_result, error and result, one event a line.

Parts of the model's answer come as messages with `delta`. Tokens are told once, at the end, for the whole process:
input_tokens holds what came from a cache, and total_tokens beyond input and output is thinking.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from runner.base.text import clean, storable, storable_value
from runner.base.types import Source, Step, Usage
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.answers import AnswerSteps, take_init
from runner.trajectories.readers.claude_messages import number
from runner.trajectories.readers.line_streams import json_lines

EXPECTED = "an event of Gemini CLI's stream"


def read(result: ReadTrajectory) -> Iterator[Step]:
    """One step per answer of the model, with the results of its calls."""
    answers = AnswerSteps()
    result.set_head(agent_name="gemini-cli")
    with result.open_binary() as stream:
        for line, event in json_lines(stream, result.problems):
            kind, timestamp = event.get("type"), event.get("timestamp")
            timestamp = storable(timestamp) if isinstance(timestamp, str) else None
            if kind == "message" and event.get("role") == "assistant":
                yield from answers.say(str(event.get("content") or ""), timestamp)
            elif kind == "message":
                yield from answers.user({"content": event.get("content")}, timestamp)
            elif kind == "tool_use":
                yield from answers.call(
                    event.get("tool_id"), event.get("tool_name"), event.get("parameters"), timestamp
                )
            elif kind == "tool_result":
                yield from answers.user({"content": [_result_block(event)]}, timestamp)
            elif kind == "init":
                take_init(result, event)
            elif kind in ("error", "result"):
                yield from answers.flush()
                yield from _end(result, event, timestamp)
            else:
                result.problems.add(f"line {line}", EXPECTED, f"found type {str(kind)[:60]!r}")
                result.count("events_without_step", str(kind)[:100])
    yield from answers.flush()
    if "results" not in result.facts:
        result.facts["cut_off"] = True


def _result_block(event: Mapping[str, Any]) -> dict[str, object]:
    error = event.get("error")
    told = error.get("message") if isinstance(error, Mapping) else None
    return {
        "type": "tool_result",
        "tool_use_id": event.get("tool_id"),
        "content": event.get("output") or told or "",
        "is_error": event.get("status") == "error",
    }


def _end(result: ReadTrajectory, event: Mapping[str, object], timestamp: str | None) -> Iterator[Step]:
    """An error or a warning is a step; a result gives the totals of its process."""
    error, stats = event.get("error"), event.get("stats")
    text = error.get("message") if isinstance(error, Mapping) else event.get("message")
    if event.get("type") == "error" or event.get("status") == "error":
        told = clean(str(text or "ended with an error"))
        yield Step(0, Source.SYSTEM, told, timestamp=timestamp, extra={"event": storable(str(event["type"]))})
    if event.get("type") == "result":
        result.facts.setdefault("results", []).append(
            {key: storable_value(event[key]) for key in ("status", "stats") if event.get(key) is not None}
        )
        result.facts["usage_from"] = "result events"
        result.usage += _usage(stats if isinstance(stats, Mapping) else {})
        result.reported = result.usage


def _usage(stats: Mapping[str, object]) -> Usage:
    sent, cached, output, whole = (
        number(stats.get(key)) for key in ("input_tokens", "cached", "output_tokens", "total_tokens")
    )
    if whole is not None and sent is not None and output is not None:
        output = max(output, whole - sent)
    return Usage(sent, cached, output)
