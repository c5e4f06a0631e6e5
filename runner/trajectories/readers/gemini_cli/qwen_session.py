"""Qwen Code's session log (.qwen/projects/<folder>/chats/<session>.jsonl): a message in Gemini's parts, one a line.

promptTokenCount includes what came from the cache, candidatesTokenCount the thinking. Lines of type `system` report
actions of the program outside the conversation. Of those only a compression of the context is a step.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runner.base.types import Source, Step
from runner.trajectories.atif_values import content_text
from runner.trajectories.images import select_images
from runner.trajectories.log_records import Record, read_list, read_object, read_text
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.claude_code.claude_messages import (
    MessageSteps,
    call_block,
    counts_without_cache,
    result_block,
)
from runner.trajectories.readers.exit_codes import has_gemini_failed

_COUNTS = ("promptTokenCount", "cachedContentTokenCount", "candidatesTokenCount")


def read(result: ReadTrajectory) -> Iterator[Step]:
    """Yield one step per model message, with the results of its calls. Usage is the sum over messages."""
    messages = MessageSteps()
    answers: dict[str, str] = {}  # line -> the model's message it belongs to
    result.set_head(agent_name="qwen-code")
    for _, event in result.lines():
        kind, message = event.get("type"), event.get("message")
        timestamp, extra = read_text(event.get("timestamp")), _extra(event)
        _take_head(result, event)
        if kind == "assistant" and isinstance(message, Mapping):
            yield from messages.assistant(_assistant(event, message, answers), timestamp, extra)
        elif kind in ("user", "tool_result") and isinstance(message, Mapping):
            status = read_object(event.get("toolCallResult")).get("status")
            content = [_block(part, status) for part in read_list(message.get("parts"))]
            yield from messages.user({"content": content}, timestamp, extra)
        elif event.get("subtype") == "chat_compression":
            yield from messages.flush()
            yield Step(0, Source.SYSTEM, "[context compressed]", timestamp=timestamp, extra=extra)
        else:
            result.count_event(kind, event.get("subtype"))
    yield from messages.flush()
    result.turns = messages.messages
    result.set_usage(messages.usage, "messages")


def _take_head(result: ReadTrajectory, event: Record) -> None:
    names = {"sessionId": "session_id", "version": "agent_version", "model": "model"}
    result.fill_head(**{name: read_text(event.get(key)) for key, name in names.items()})
    if "cwd" not in (result.head.extra or {}) and isinstance(event.get("cwd"), str):
        result.add_extra(cwd=event["cwd"])


def _extra(event: Record) -> dict[str, object] | None:
    """Mark messages that no user wrote, such as reminders and notices."""
    subtype = read_text(event.get("subtype"))
    return None if subtype is None else {"subtype": subtype}


def _message_id(event: Record, answers: dict[str, str]) -> str | None:
    """Return the line's own id. A sub-agent's calls are on a line after the text of the same answer, without usage."""
    own, above = event.get("uuid"), event.get("parentUuid")
    if not isinstance(own, str):
        return None
    answers[own] = own if event.get("usageMetadata") else answers.get(str(above), own)
    return answers[own]


def _assistant(event: Record, message: Record, answers: dict[str, str]) -> dict[str, object]:
    """The message in Anthropic's terms."""
    counts = read_object(event.get("usageMetadata"))
    usage = {"usage": counts_without_cache(*(counts.get(key) for key in _COUNTS))} if counts else {}
    return {
        "id": _message_id(event, answers),
        "model": event.get("model"),
        "content": [_block(part, None) for part in read_list(message.get("parts"))],
        "stop_reason": "end",
        **usage,
    }


def _block(part: object, status: object) -> dict[str, object]:
    """Convert a part to a content block. `status`: of the result, from the message's own fields."""
    if not isinstance(part, Mapping):
        return {"type": "text", "text": str(part)}
    call, response = part.get("functionCall"), part.get("functionResponse")
    if isinstance(call, Mapping):
        return call_block(call.get("id"), call.get("name"), call.get("args"))
    if isinstance(response, Mapping):
        given = response.get("response")
        given = given if isinstance(given, Mapping) else {"output": given}
        content = given["output"] if "output" in given else given.get("error", given)
        failed = status in ("error", "cancelled") or ("error" in given and "output" not in given)
        failed = failed or has_gemini_failed(str(content), str(response.get("name")))
        if select_images(content_text(parts := read_list(response.get("parts")))[1]):
            content = [{"type": "text", "text": content_text(content)[0]}, *parts]
        return result_block(response.get("id"), content, failed)
    if part.get("thought") is True:
        return {"type": "thinking", "thinking": part.get("text")}
    return {"type": "text", **part} if isinstance(part.get("text"), str) else dict(part)
