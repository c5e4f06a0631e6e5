"""Logs of Gemini CLI, and of Qwen Code, which began as a copy of it."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import replace

from runner.base.text import clean, storable, storable_value
from runner.base.types import Observation, Source, Step, ToolCall, Usage
from runner.trajectories.atif_values import content_text
from runner.trajectories.images import select_images
from runner.trajectories.log_records import (
    Record,
    pick_fields,
    read_arguments,
    read_count,
    read_list,
    read_object,
    read_objects,
    read_text,
    read_usage,
)
from runner.trajectories.problems import Problems
from runner.trajectories.readers import ReadTrajectory, claude
from runner.trajectories.readers.exit_codes import has_gemini_failed
from runner.trajectories.readers.messages import (
    AnswerSteps,
    MessageSteps,
    call_block,
    counts_without_cache,
    result_block,
)

# --- Gemini CLI's messages --------------------------------------------------------------------------------------------


def read_native(result: ReadTrajectory) -> Iterator[Step]:
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
    usage = None
    if isinstance(tokens, Mapping):
        extra["tokens"] = storable_value(tokens)
        # Thinking is output, as it is billed. `tool` (toolUsePromptTokenCount) is what tools added to the prompt.
        sent, made = (_sum_counts(tokens, *keys) for keys in (("input", "tool"), ("output", "thoughts")))
        usage = Usage(sent, read_count(tokens.get("cached")), made)
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
        usage=usage,
        extra=extra,
    )


def _sum_counts(tokens: Record, *keys: str) -> int | None:
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


# --- Gemini CLI's sessions --------------------------------------------------------------------------------------------


_HEAD_KEYS = ("startTime", "projectHash", "kind")


def read_session(result: ReadTrajectory) -> Iterator[Step]:
    """Yield one step per message; results of tools are in the step of their calls. Usage is the sum over messages."""
    result.set_head(agent_name="gemini-cli")
    session = _GeminiSession(
        {str(record["id"]): line for line, record in result.lines(Problems()) if isinstance(record.get("id"), str)}
    )
    for line, record in result.lines():
        if isinstance(record.get("id"), str):
            if session.last_lines.get(str(record["id"])) == line:
                yield from session.message(record, is_copy=False)
        elif isinstance(changes := record.get("$set"), Mapping):
            yield from session.replace_steps(changes, result)
        elif "$rewindTo" in record:
            result.count_event("$rewindTo")
        else:
            if (session_id := read_text(record.get("sessionId"))) is not None:
                result.set_head(session_id=session_id)
            result.add_extra(**{key: record[key] for key in _HEAD_KEYS if key in record})
        result.fill_head(model=session.model)
    result.turns = session.turns
    result.set_usage(session.usage, "messages")


class _GeminiSession:
    """The conversation so far."""

    def __init__(self, last_lines: Mapping[str, int]) -> None:
        self.last_lines = last_lines  # message id -> the line where it was last written
        self.usage = Usage()
        self.turns = 0
        self.model: str | None = None
        self._given: set[str] = set()
        self._calls: set[str] = set()
        self._index = 0

    def message(self, message: Record, *, is_copy: bool) -> Iterator[Step]:
        self._index += 1
        self._given.add(str(message["id"]))
        if self._repeats_results(message):
            return
        step = message_step(message, self._index)
        self._calls.update(call.id for call in step.tool_calls)
        if is_copy:
            yield replace(step, is_copied_context=True, usage=None)
            return
        if step.source is Source.AGENT:
            self.turns += 1
        if step.usage is not None:
            self.usage += step.usage
        self.model = self.model or step.model
        yield step

    def replace_steps(self, changes: Record, result: ReadTrajectory) -> Iterator[Step]:
        messages = changes.get("messages")
        if not isinstance(messages, list):
            return
        if self.turns:
            result.count_event("conversation replaced")
        is_copy = self.turns > 0
        for message in messages:
            if not isinstance(message, Mapping) or not isinstance(message.get("id"), str):
                result.problems.add("$set", "messages with an id", f"found {message!r:.60}")
            elif message["id"] not in self._given and message["id"] not in self.last_lines:
                yield from self.message(message, is_copy=is_copy)

    def _repeats_results(self, message: Record) -> bool:
        """Is it a user message with only results that are already in the step of the calls?"""
        content = message.get("content")
        parts = content if isinstance(content, list) else [content]
        for part in parts:
            response = read_object(part).get("functionResponse")
            if not isinstance(response, Mapping) or storable(str(response.get("id"))) not in self._calls:
                return False
        return bool(parts)


# --- Gemini CLI's stream ----------------------------------------------------------------------------------------------


_EVENT = "an event of Gemini CLI's stream"


def read_stream(result: ReadTrajectory) -> Iterator[Step]:
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
            result.report_event(line, kind, _EVENT)
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
        result.add_result(pick_fields(event, ("status", "stats")), _stream_usage(read_object(event.get("stats"))))


def _stream_usage(stats: Record) -> Usage:
    usage, whole = read_usage(stats, "input_tokens", "cached", "output_tokens"), read_count(stats.get("total_tokens"))
    if whole is None or usage.input_tokens is None or usage.output_tokens is None:
        return usage
    return replace(usage, output_tokens=max(usage.output_tokens, whole - usage.input_tokens))


# --- Qwen Code's sessions ---------------------------------------------------------------------------------------------


_COUNTS = ("promptTokenCount", "cachedContentTokenCount", "candidatesTokenCount")


def read_qwen_session(result: ReadTrajectory) -> Iterator[Step]:
    """Yield one step per model message, with the results of its calls. Usage is the sum over messages."""
    messages = MessageSteps()
    answers: dict[str, str] = {}  # line -> the model's message it belongs to
    result.set_head(agent_name="qwen-code")
    for _, event in result.lines():
        kind, message = event.get("type"), event.get("message")
        timestamp, extra = read_text(event.get("timestamp")), _extra(event)
        names = {"sessionId": "session_id", "version": "agent_version", "model": "model"}
        result.fill_head(**{name: read_text(event.get(key)) for key, name in names.items()})
        if "cwd" not in (result.head.extra or {}) and isinstance(event.get("cwd"), str):
            result.add_extra(cwd=event["cwd"])
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


# --- Qwen Code's stream -----------------------------------------------------------------------------------------------


_NAMES = {"qwen_code_version": "claude_code_version", "permission_mode": "permissionMode"}


def read_qwen_stream(result: ReadTrajectory) -> Iterator[Step]:
    """See `claude.read_stream`."""
    return claude.read_stream(result, "qwen-code", _in_claude_terms)


def _in_claude_terms(event: Record) -> Record:
    kind, message, usage, error = (event.get(key) for key in ("type", "message", "usage", "error"))
    if kind == "assistant" and isinstance(message, Mapping):
        raw = message.get("usage")
        counts = {"usage": _without_cache(raw), "stop_reason": "end"} if isinstance(raw, Mapping) else {}
        return {**event, "message": {**message, **counts}}
    if kind == "result":
        text = {"result": error.get("message")} if isinstance(error, Mapping) else {}
        return {**event, **text, **(_as_model_usage(usage) if isinstance(usage, Mapping) else {})}
    return {_NAMES.get(key, key): value for key, value in event.items()} if kind == "system" else event


def _as_model_usage(usage: Record) -> dict[str, object]:
    counts = _without_cache(usage)
    keys = {"inputTokens": "input_tokens", "cacheReadInputTokens": "cache_read_input_tokens"}
    keys["outputTokens"] = "output_tokens"
    return {"modelUsage": {"all": {name: counts.get(key) for name, key in keys.items()}}}


def _without_cache(usage: Record) -> dict[str, object]:
    keys = ("input_tokens", "cache_read_input_tokens", "output_tokens")
    return {**usage, **counts_without_cache(*(usage.get(key) for key in keys))}
