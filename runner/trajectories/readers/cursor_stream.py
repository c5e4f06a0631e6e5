"""Cursor's `cursor-agent --output-format stream-json`: Claude Code's envelope, with calls on lines of their own.

Thinking comes in pieces. A call's arguments and result stand below its kind: {"readToolCall": {"args", "result"}}; the
line that completes it tells both again. Tokens stand in the result, input without what the cache held.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any

from runner.base.text import clean, storable
from runner.base.types import JsonValue, Source, Step
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.answers import AnswerSteps, take_init
from runner.trajectories.readers.claude_messages import number, usage_of_parts
from runner.trajectories.readers.kimi_wire import timestamp_of
from runner.trajectories.readers.line_streams import json_lines

EXPECTED = "an event of Cursor's stream"


def read(result: ReadTrajectory) -> Iterator[Step]:
    """One step per answer of the model, with the results of its calls."""
    answers, started = AnswerSteps(), set[str]()
    result.set_head(agent_name="cursor-cli")
    with result.open_binary() as stream:
        for line, event in json_lines(stream, result.problems):
            kind, timestamp = event.get("type"), timestamp_of(event.get("timestamp_ms"))
            if kind == "assistant":
                yield from answers.say(_text(event.get("message")), timestamp)
            elif kind == "user":
                yield from answers.user({"content": _text(event.get("message"))}, timestamp)
            elif kind == "thinking":
                if event.get("text"):
                    yield from answers.say(str(event["text"]), timestamp, "thinking")
            elif kind == "tool_call":
                yield from _call(answers, event, started, timestamp)
            elif kind == "system" and event.get("subtype") == "init":
                take_init(result, event)
                if isinstance(event.get("cwd"), str):
                    result.add_extra(cwd=storable(event["cwd"]))
            elif kind == "result":
                yield from answers.flush()
                yield from _end(result, event)
            elif kind == "interaction_query":  # what the program asked of whoever started it
                result.count("events_without_step", kind)
            else:
                result.problems.add(f"line {line}", EXPECTED, f"found type {str(kind)[:60]!r}")
                result.count("events_without_step", str(kind)[:100])
    yield from answers.flush()
    if "results" not in result.facts:
        result.facts["cut_off"] = True


def _call(
    answers: AnswerSteps, event: Mapping[str, object], started: set[str], timestamp: str | None
) -> Iterator[Step]:
    ident, told = str(event.get("call_id")), event.get("tool_call")
    for name, call in told.items() if isinstance(told, Mapping) else ():
        if not isinstance(call, Mapping):
            continue
        if ident not in started:
            started.add(ident)
            yield from answers.call(ident, _tool(name, call), call.get("args") or call.get("arguments"), timestamp)
        if event.get("subtype") == "completed":
            yield from answers.user({"content": [_result_block(ident, call.get("result"))]}, timestamp)
        return


def _tool(name: str, call: Mapping[str, JsonValue]) -> str:
    """`readToolCall` is the tool read; others stand as a function with a name."""
    own = call.get("name") if name == "function" else None
    return own if isinstance(own, str) else name.removesuffix("ToolCall")


def _result_block(ident: str, result: object) -> dict[str, JsonValue]:
    """The content of a read, else the whole outcome: {"success": {...}}, {"error": ...}, {"rejected": ...}."""
    outcome, value = next(iter(result.items()), ("", None)) if isinstance(result, Mapping) else ("success", result)
    content = value.get("content") if isinstance(value, Mapping) else value
    failed = outcome != "success" or (isinstance(value, Mapping) and bool(number(value.get("exitCode"))))
    if not isinstance(content, str):
        content = "" if value is None else json.dumps(value, ensure_ascii=False)
    return {"type": "tool_result", "tool_use_id": ident, "content": content, "is_error": failed}


def _text(message: Any) -> str:
    content = message.get("content") if isinstance(message, Mapping) else None
    parts = content if isinstance(content, list) else [{"text": content}]
    return "".join(str(part.get("text") or "") for part in parts if isinstance(part, Mapping))


def _end(result: ReadTrajectory, event: Mapping[str, Any]) -> Iterator[Step]:
    keys = ("subtype", "is_error", "duration_ms", "duration_api_ms", "request_id")
    result.facts.setdefault("results", []).append({key: event[key] for key in keys if _is_plain(event.get(key))})
    if event.get("is_error") is True:
        text = str(event.get("result") or "no text")
        yield Step(0, Source.SYSTEM, clean(f"Ended with {event.get('subtype')}: {text}"), extra={"result": True})
    raw = event.get("usage")
    if isinstance(raw, Mapping):
        usage = usage_of_parts(raw, ("inputTokens", "cacheReadTokens", "cacheWriteTokens"), "outputTokens")
        cost = next((raw[key] for key in ("totalCost", "cost") if isinstance(raw.get(key), int | float)), None)
        result.usage += replace(usage, cost_usd=cost)
        result.reported = result.usage
        result.facts["usage_from"] = "result events"


def _is_plain(value: object) -> bool:
    return isinstance(value, str | int | float | bool)
