"""Qwen Code's session log (.qwen/projects/<folder>/chats/<session>.jsonl): a message in Gemini's parts, one a line.

promptTokenCount holds what came from the cache, candidatesTokenCount the thinking. Lines of type `system` tell what the
program did beside the conversation; of those only a compression of the context is a step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from runner.base.text import storable
from runner.base.types import Source, Step, Usage
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.claude_messages import MessageSteps, number
from runner.trajectories.readers.exit_codes import has_gemini_failed
from runner.trajectories.readers.line_streams import json_lines


def read(result: ReadTrajectory) -> Iterator[Step]:
    """One step per model message, with the results of its calls. Usage is the sum over messages."""
    messages = MessageSteps()
    answers: dict[str, str] = {}  # line -> the model's message it belongs to
    result.set_head(agent_name="qwen-code")
    with result.open_binary() as stream:
        for _, event in json_lines(stream, result.problems):
            kind, message = event.get("type"), event.get("message")
            timestamp = storable(event["timestamp"]) if isinstance(event.get("timestamp"), str) else None
            _take_head(result, event)
            if kind == "assistant" and isinstance(message, Mapping):
                yield from messages.assistant(_assistant(event, message, answers), timestamp, _extra(event))
            elif kind in ("user", "tool_result") and isinstance(message, Mapping):
                content = [_block(part, event.get("toolCallResult")) for part in _parts(message)]
                yield from messages.user({"content": content}, timestamp, _extra(event), None)
            elif event.get("subtype") == "chat_compression":
                yield from messages.flush()
                yield Step(0, Source.SYSTEM, "[context compressed]", timestamp=timestamp, extra=_extra(event) or None)
            else:
                result.count("events_without_step", f"{kind}/{event.get('subtype', '')}"[:100].rstrip("/"))
    yield from messages.flush()
    result.usage, result.turns = messages.usage, messages.messages
    result.facts["usage_from"] = "messages" if messages.usage != Usage() else "nothing"


def _take_head(result: ReadTrajectory, event: Mapping[str, Any]) -> None:
    for key, name in {"sessionId": "session_id", "version": "agent_version", "model": "model"}.items():
        if getattr(result.head, name) is None and isinstance(event.get(key), str):
            result.set_head(**{name: storable(event[key])})
    if "cwd" not in (result.head.extra or {}) and isinstance(event.get("cwd"), str):
        result.add_extra(cwd=storable(event["cwd"]))


def _extra(event: Mapping[str, object]) -> dict[str, Any]:
    """Messages that no user wrote (reminders, notices) say so."""
    subtype = event.get("subtype")
    return {"subtype": storable(subtype)} if isinstance(subtype, str) else {}


def _message_id(event: Mapping[str, object], answers: dict[str, str]) -> str | None:
    """The line's own id; a sub-agent's calls stand in a line after the words of the same answer, without usage."""
    own, above = event.get("uuid"), event.get("parentUuid")
    if not isinstance(own, str):
        return None
    answers[own] = own if event.get("usageMetadata") else answers.get(str(above), own)
    return answers[own]


def _assistant(event: Mapping[str, Any], message: Mapping[str, Any], answers: dict[str, str]) -> dict[str, Any]:
    """The message in Anthropic's terms, whose input_tokens leave the cache out."""
    raw = event.get("usageMetadata")
    counts = raw if isinstance(raw, Mapping) else {}
    sent, cached = number(counts.get("promptTokenCount")), number(counts.get("cachedContentTokenCount"))
    usage = {
        "input_tokens": None if sent is None else max(0, sent - (cached or 0)),
        "cache_read_input_tokens": cached,
        "output_tokens": number(counts.get("candidatesTokenCount")),
    }
    return {
        "id": _message_id(event, answers),
        "model": event.get("model"),
        "content": [_block(part, None) for part in _parts(message)],
        "stop_reason": "told",
        **({"usage": usage} if counts else {}),
    }


def _parts(message: Mapping[str, Any]) -> list[Any]:
    parts = message.get("parts")
    return parts if isinstance(parts, list) else []


def _block(part: object, result: object) -> Any:
    """A part as a content block. A result that the program calls an error says so only beside the message."""
    if not isinstance(part, Mapping):
        return {"type": "text", "text": str(part)}
    call, response = part.get("functionCall"), part.get("functionResponse")
    if isinstance(call, Mapping):
        return {"type": "tool_use", "id": call.get("id"), "name": call.get("name"), "input": call.get("args") or {}}
    if isinstance(response, Mapping):
        given = response.get("response")
        given = given if isinstance(given, Mapping) else {"output": given}
        status = result.get("status") if isinstance(result, Mapping) else None
        content = given["output"] if "output" in given else given.get("error", given)
        failed = status in ("error", "cancelled") or ("error" in given and "output" not in given)
        failed = failed or has_gemini_failed(str(content), str(response.get("name")))
        return {
            "type": "tool_result",
            "tool_use_id": response.get("id"),
            "content": content,
            "is_error": failed,
        }
    if part.get("thought") is True:
        return {"type": "thinking", "thinking": part.get("text")}
    return {"type": "text", **part} if isinstance(part.get("text"), str) else dict(part)
