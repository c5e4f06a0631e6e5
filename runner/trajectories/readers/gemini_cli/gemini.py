"""Gemini CLI's own trajectory file: one object with sessionId and messages."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from runner.base.text import clean, storable, storable_value
from runner.base.types import Observation, Source, Step, ToolCall, Usage
from runner.trajectories.atif_values import content_text
from runner.trajectories.images import select_images
from runner.trajectories.log_records import (
    Record,
    read_arguments,
    read_count,
    read_list,
    read_object,
    read_objects,
    read_text,
)
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.exit_codes import has_gemini_failed


def read(result: ReadTrajectory) -> Iterator[Step]:
    """Yield one step per message; usage is the sum over messages."""
    total, index = Usage(), 0
    result.set_head(agent_name="gemini-cli")
    for key, value in result.parts(streamed=frozenset({"messages"})):
        if key == "sessionId":
            result.set_head(session_id=storable(str(value)))
        elif key != "messages":
            result.add_extra(**{key: value})
        elif not isinstance(value, Mapping):
            index += 1
            result.problems.add(f"message {index}", "an object", f"found {value!r:.60}")
        else:
            index += 1
            step = message_step(value, index)
            result.fill_head(model=step.model)
            if step.usage is not None:
                total += step.usage
            yield step
    result.set_usage(total, "messages")


def message_step(message: Record, index: int) -> Step:
    """The step of one message; `index` numbers the messages of the file."""
    kind, tokens = message.get("type"), message.get("tokens")
    source = {"user": Source.USER, "gemini": Source.AGENT}.get(str(kind), Source.SYSTEM)
    calls = [
        (storable(str(call.get("id") or f"message-{index}-call-{place}")), call)
        for place, call in enumerate(read_objects(message.get("toolCalls")), start=1)
    ]
    text, parts = content_text(message.get("content"))
    extra: dict[str, object] = {"message_id": storable_value(message.get("id")), **select_images(parts)}
    if source is Source.SYSTEM:
        extra["type"] = storable_value(kind)
    if isinstance(tokens, Mapping):
        extra["tokens"] = storable_value(tokens)
    return Step(
        0,
        source,
        clean(text),
        reasoning=_thoughts(message.get("thoughts")),
        tool_calls=tuple(
            ToolCall(identifier, storable(str(call.get("name") or "unknown")), read_arguments(call.get("args")))
            for identifier, call in calls
        ),
        observations=tuple(item for identifier, call in calls for item in _results(call, identifier)),
        timestamp=read_text(message.get("timestamp")),
        model=read_text(message.get("model")),
        usage=_usage(tokens) if isinstance(tokens, Mapping) else None,
        extra=extra,
    )


def _usage(tokens: Record) -> Usage:
    """Thinking is output, as it is billed. `tool` (toolUsePromptTokenCount) is what tools added to the prompt."""
    return Usage(_sum(tokens, "input", "tool"), read_count(tokens.get("cached")), _sum(tokens, "output", "thoughts"))


def _sum(tokens: Record, *keys: str) -> int | None:
    known = [count for key in keys if (count := read_count(tokens.get(key))) is not None]
    return sum(known) if known else None


def _thoughts(raw: object) -> str | None:
    texts = []
    for thought in read_list(raw):
        if isinstance(thought, Mapping):
            texts.append("\n".join(str(thought[key]) for key in ("subject", "description") if thought.get(key)))
        else:
            texts.append(str(thought))
    return clean("\n\n".join(texts)) or None


def _results(call: Record, identifier: str) -> Iterator[Observation]:
    raw = call.get("result")
    failed = call.get("status") in ("error", "cancelled")
    for item in raw if isinstance(raw, list) else [] if raw is None else [raw]:
        text, parts = _result_text(item)
        text = clean(text)
        failed_too = failed or has_gemini_failed(text, str(call.get("name")))
        yield Observation(text, identifier, failed_too, select_images(parts) or None)


def _result_text(item: object) -> tuple[str, list[object] | None]:
    """(text, parts): a response's output or error, with the images next to it."""
    answer = read_object(read_object(item).get("functionResponse"))
    response = answer.get("response")
    if not isinstance(response, Mapping):
        return content_text(item)
    texts = (response.get(key) for key in ("output", "error"))
    as_json = json.dumps(response, ensure_ascii=False, sort_keys=True, default=str)
    text = next((text for text in texts if isinstance(text, str)), as_json)
    shown, parts = content_text(answer.get("parts"))
    return (f"{text}\n{shown}" if select_images(parts) else text), parts
