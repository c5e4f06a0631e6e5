"""Cursor: the stream of its command line, which has Claude Code's envelope, and the transcripts of its agents.

A stream (`cursor-agent --output-format stream-json`; cursor.com/docs/cli/reference/output-format) has calls on lines of
their own. Thinking comes in pieces. A call's arguments and result are below its kind: {"readToolCall": {"args",
"result"}}; the line that completes it repeats both. Tokens are in the result, input without the cached part.

A transcript (~/.cursor/projects/PROJECT/agent-transcripts/ID/ID.jsonl) has a message a line: {"role", "message":
{"content": [...]}}, and lines of type turn_ended. Cursor does not document it: this is the form that several
independent readers of such files describe (getagentseal/codeburn, QuesmaOrg/quesma-shipper, docs.rs/kaizen-cli).
Calls have no ids, and what they returned is not written; nor are models, tokens and times, except a time in the text
of a request.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace
from datetime import datetime, timedelta, timezone

from runner.base.text import clean
from runner.base.types import Observation, Source, Step
from runner.trajectories.log_records import (
    Record,
    pick_fields,
    read_amount,
    read_count,
    read_milliseconds,
    read_object,
    read_objects,
    read_text,
    read_usage_parts,
)
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.messages import AnswerSteps, MessageSteps, result_block

_EVENT = "an event of Cursor's stream"
_OUTCOME = ("subtype", "is_error", "duration_ms", "duration_api_ms", "request_id")
_KEYS = ("inputTokens", "cacheReadTokens", "cacheWriteTokens")


def read_stream(result: ReadTrajectory) -> Iterator[Step]:
    """Yield one step per answer of the model, with the results of its calls."""
    answers, started = AnswerSteps(), set[str]()
    result.set_head(agent_name="cursor-cli")
    for line, event in result.lines():
        kind, timestamp = event.get("type"), read_milliseconds(event.get("timestamp_ms"))
        if kind == "assistant":
            yield from answers.say(_text(event.get("message")), timestamp)
        elif kind == "user":
            yield from answers.user(_text(event.get("message")), timestamp)
        elif kind == "thinking":
            if event.get("text"):
                yield from answers.say(str(event["text"]), timestamp, "thinking")
        elif kind == "tool_call":
            yield from _call(answers, event, started, timestamp)
        elif kind == "system" and event.get("subtype") == "init":
            result.fill_head(session_id=read_text(event.get("session_id")), model=read_text(event.get("model")))
            if isinstance(event.get("cwd"), str):
                result.add_extra(cwd=event["cwd"])
        elif kind == "result":
            yield from answers.flush()
            yield from _end(result, event)
        elif kind == "interaction_query":  # a question of the program to its user
            result.count_event(kind)
        else:
            result.report_event(line, kind, _EVENT)
    yield from answers.flush()
    result.note_cut_off()


def _call(answers: AnswerSteps, event: Record, started: set[str], timestamp: str | None) -> Iterator[Step]:
    identifier = str(event.get("call_id"))
    for name, call in read_object(event.get("tool_call")).items():
        if not isinstance(call, dict):
            continue
        if identifier not in started:
            started.add(identifier)
            arguments = call.get("args") or call.get("arguments")
            yield from answers.call(identifier, _tool(name, call), arguments, timestamp)
        if event.get("subtype") == "completed":
            yield from answers.user([_result(identifier, call.get("result"))], timestamp)
        return


def _tool(name: str, call: Record) -> str:
    """`readToolCall` is the tool read; others are a function with a name."""
    own = call.get("name") if name == "function" else None
    return own if isinstance(own, str) else name.removesuffix("ToolCall")


def _result(identifier: str, result: object) -> dict[str, object]:
    """The content of a read, else the whole outcome: {"success": {...}}, {"error": ...}, {"rejected": ...}."""
    outcome, value = next(iter(result.items()), ("", None)) if isinstance(result, dict) else ("success", result)
    content = value.get("content") if isinstance(value, dict) else value
    failed = outcome != "success" or bool(read_count(read_object(value).get("exitCode")))
    if not isinstance(content, str):
        content = "" if value is None else json.dumps(value, ensure_ascii=False)
    return result_block(identifier, content, failed)


def _text(message: object) -> str:
    content = read_object(message).get("content")
    parts = read_objects(content) if isinstance(content, list) else [{"text": content}]
    return "".join(str(part.get("text") or "") for part in parts)


def _end(result: ReadTrajectory, event: Record) -> Iterator[Step]:
    if event.get("is_error") is True:
        text = str(event.get("result") or "no text")
        yield Step(0, Source.SYSTEM, clean(f"Ended with {event.get('subtype')}: {text}"), extra={"result": True})
    raw, usage = event.get("usage"), None
    if isinstance(raw, dict):
        costs = (read_amount(raw.get(key)) for key in ("totalCost", "cost"))
        cost = next((cost for cost in costs if cost is not None), None)
        usage = replace(read_usage_parts(raw, _KEYS, "outputTokens"), cost_usd=cost)
    outcome = pick_fields(event, _OUTCOME)
    result.add_result({key: value for key, value in outcome.items() if not isinstance(value, list | dict)}, usage)


# --- transcripts ------------------------------------------------------------------------------------------------------


_TIME = re.compile(r"<timestamp>(\w+, \w+ \d+, \d+, \d+:\d+ [AP]M) \(UTC([+-]\d+)?(?::(\d\d))?\)</timestamp>")


def read_transcript(result: ReadTrajectory) -> Iterator[Step]:
    """Yield one step per line. The blocks are those of Claude Code's messages."""
    messages = MessageSteps()
    result.set_head(agent_name="cursor")
    for line, event in result.lines():
        role, message = event.get("role"), read_object(event.get("message"))
        content = message.get("content")
        if role == "assistant":
            yield from messages.assistant({"content": content}, None)
        elif role == "user":
            yield from messages.user({"content": content}, _read_time(_text(message)))
        elif event.get("type") == "turn_ended":
            yield from messages.flush()
            result.count_event("turn_ended", event.get("status"))
            if event.get("error"):
                ended = Observation(clean(str(event["error"])), is_error=True)
                yield Step(0, Source.SYSTEM, observations=(ended,), extra={"api_error": True})
        else:
            result.report_event(line, role or event.get("type"), "a message of a user or an assistant")
    yield from messages.flush()
    result.facts["usage_from"] = "nothing"


def _read_time(text: str) -> str | None:
    """Return the time in a request as ISO 8601. It has no seconds."""
    found = _TIME.search(text[:1_000])
    if found is None:
        return None
    try:
        hours, minutes = int(found[2] or 0), int(found[3] or 0)
        zone = timezone(timedelta(hours=hours, minutes=-minutes if hours < 0 else minutes))
        return datetime.strptime(found[1], "%A, %b %d, %Y, %I:%M %p").replace(tzinfo=zone).isoformat()
    except (ValueError, OverflowError):
        return None
