"""Gemini CLI's own trajectory file: one object with sessionId and messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any

from runner.base.text import clean, storable, storable_value
from runner.base.types import JsonValue, Observation, Source, Step, ToolCall, Usage
from runner.trajectories.atif_values import content_text
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.claude_messages import number
from runner.trajectories.readers.exit_codes import has_gemini_failed
from runner.trajectories.readers.line_streams import walk


def read(result: ReadTrajectory) -> Iterator[Step]:
    """One step per message; usage is the sum over messages."""
    total, index = Usage(), 0
    result.set_head(agent_name="gemini-cli")
    with result.open_binary() as stream:
        for key, value in walk(stream, result.problems, streamed=frozenset({"messages"})):
            if key == "sessionId":
                result.set_head(session_id=storable(str(value)))
            elif key != "messages":
                result.add_extra(**{storable(key): storable_value(value)})
            elif not isinstance(value, Mapping):
                index += 1
                result.problems.add(f"message {index}", "an object", f"found {value!r:.60}")
            else:
                index += 1
                step = message_step(value, index)
                if step.model is not None and result.head.model is None:
                    result.set_head(model=step.model)
                if step.usage is not None:
                    total += step.usage
                yield step
    result.usage = total
    result.facts["usage_from"] = "messages" if total != Usage() else "nothing"


def message_step(message: Mapping[str, Any], index: int) -> Step:
    """The step of one message; `index` numbers the messages of the file."""
    kind = message.get("type")
    source = {"user": Source.USER, "gemini": Source.AGENT}.get(str(kind), Source.SYSTEM)
    text, _ = content_text(message.get("content"))
    raw = message.get("toolCalls")
    calls = [call for call in raw if isinstance(call, Mapping)] if isinstance(raw, list) else []
    tokens = message.get("tokens")
    extra = {"message_id": storable_value(message.get("id"))}
    if source is Source.SYSTEM:
        extra["type"] = storable_value(kind)
    if isinstance(tokens, Mapping):
        extra["tokens"] = storable_value(tokens)
    return Step(
        0,
        source,
        clean(text),
        reasoning=_thoughts(message.get("thoughts")),
        tool_calls=tuple(_call(call, index, number) for number, call in enumerate(calls, start=1)),
        observations=tuple(
            item for number, call in enumerate(calls, start=1) for item in _results(call, _id(call, index, number))
        ),
        timestamp=storable(message["timestamp"]) if isinstance(message.get("timestamp"), str) else None,
        model=storable(message["model"]) if isinstance(message.get("model"), str) else None,
        usage=_usage(tokens) if isinstance(tokens, Mapping) else None,
        extra=extra,
    )


def _usage(tokens: Mapping[str, Any]) -> Usage:
    """Thinking is output, as it is billed. `tool` (toolUsePromptTokenCount) is what tools put into the prompt."""
    return Usage(_sum(tokens, "input", "tool"), number(tokens.get("cached")), _sum(tokens, "output", "thoughts"))


def _sum(tokens: Mapping[str, object], *keys: str) -> int | None:
    known = [count for key in keys if (count := number(tokens.get(key))) is not None]
    return sum(known) if known else None


def _thoughts(raw: object) -> str | None:
    texts = []
    for thought in raw if isinstance(raw, list) else ():
        if isinstance(thought, Mapping):
            texts.append("\n".join(str(thought[key]) for key in ("subject", "description") if thought.get(key)))
        else:
            texts.append(str(thought))
    return clean("\n\n".join(texts)) or None


def _id(call: Mapping[str, object], index: int, number: int) -> str:
    return storable(str(call.get("id") or f"message-{index}-call-{number}"))


def _call(call: Mapping[str, Any], index: int, number: int) -> ToolCall:
    arguments = call.get("args")
    arguments = arguments if isinstance(arguments, Mapping) else {} if arguments is None else {"raw": arguments}
    return ToolCall(_id(call, index, number), storable(str(call.get("name") or "unknown")), storable_value(arguments))


def _results(call: Mapping[str, JsonValue], identifier: str) -> Iterator[Observation]:
    raw = call.get("result")
    failed = call.get("status") in ("error", "cancelled")
    for item in raw if isinstance(raw, list) else [] if raw is None else [raw]:
        text = clean(_result_text(item))
        yield Observation(text, identifier, failed or has_gemini_failed(text, str(call.get("name"))))


def _result_text(item: JsonValue) -> str:
    response = item.get("functionResponse") if isinstance(item, Mapping) else None
    response = response.get("response") if isinstance(response, Mapping) else None
    if isinstance(response, Mapping):
        for key in ("output", "error"):
            if isinstance(response.get(key), str):
                return str(response[key])
        return json.dumps(response, ensure_ascii=False, sort_keys=True, default=str)
    return content_text(item)[0]
