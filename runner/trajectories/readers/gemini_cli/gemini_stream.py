"""Gemini CLI's `--output-format stream-json`: init, message, tool_use, tool_result, error and result, one event a line.

Parts of the model's answer come as messages with `delta`. Tokens are counted once, at the end, for the whole process:
input_tokens includes cache reads, and total_tokens beyond input and output is thinking.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from runner.base.text import clean, storable
from runner.base.types import Source, Step, Usage
from runner.trajectories.log_records import (
    Record,
    pick_fields,
    read_count,
    read_object,
    read_text,
    read_usage,
)
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.claude_code.claude_messages import AnswerSteps, result_block

EXPECTED = "an event of Gemini CLI's stream"


def read(result: ReadTrajectory) -> Iterator[Step]:
    """Yield one step per answer of the model, with the results of its calls."""
    answers = AnswerSteps()
    result.set_head(agent_name="gemini-cli")
    for line, event in result.lines():
        kind, timestamp = event.get("type"), read_text(event.get("timestamp"))
        if kind == "message" and event.get("role") == "assistant":
            yield from answers.say(str(event.get("content") or ""), timestamp)
        elif kind == "message":
            yield from answers.user(event.get("content"), timestamp)
        elif kind == "tool_use":
            yield from answers.call(event.get("tool_id"), event.get("tool_name"), event.get("parameters"), timestamp)
        elif kind == "tool_result":
            content = event.get("output") or read_object(event.get("error")).get("message") or ""
            block = result_block(event.get("tool_id"), content, event.get("status") == "error")
            yield from answers.user([block], timestamp)
        elif kind == "init":
            result.fill_head(session_id=read_text(event.get("session_id")), model=read_text(event.get("model")))
        elif kind in ("error", "result"):
            yield from answers.flush()
            yield from _end(result, event, timestamp)
        else:
            result.report_event(line, kind, EXPECTED)
    yield from answers.flush()
    result.note_cut_off()


def _end(result: ReadTrajectory, event: Record, timestamp: str | None) -> Iterator[Step]:
    """An error or a warning is a step; a result gives the totals of its process."""
    error, kind = event.get("error"), str(event["type"])
    if kind == "error" or event.get("status") == "error":
        text = error.get("message") if isinstance(error, dict) else event.get("message")
        message = clean(str(text or "ended with an error"))
        yield Step(0, Source.SYSTEM, message, timestamp=timestamp, extra={"event": storable(kind)})
    if kind == "result":
        result.add_result(pick_fields(event, ("status", "stats")), _usage(read_object(event.get("stats"))))


def _usage(stats: Record) -> Usage:
    usage, whole = read_usage(stats, "input_tokens", "cached", "output_tokens"), read_count(stats.get("total_tokens"))
    if whole is None or usage.input_tokens is None or usage.output_tokens is None:
        return usage
    return replace(usage, output_tokens=max(usage.output_tokens, whole - usage.input_tokens))
