"""Conversations in the common shapes of chat interfaces, and programs that log such messages."""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import replace

from runner.base.text import clean, storable, storable_value
from runner.base.types import Observation, Source, Step, ToolCall, Usage
from runner.trajectories.atif_values import content_text
from runner.trajectories.log_records import (
    Record,
    parse_json,
    pick_fields,
    read_amount,
    read_count,
    read_list,
    read_object,
    read_objects,
    read_seconds,
    read_text,
    read_usage,
)
from runner.trajectories.problems import Problems
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.exit_codes import has_mini_swe_agent_failed
from runner.trajectories.readers.messages import MessageSteps, call_block, counts_without_cache, result_block

# --- any program's messages -------------------------------------------------------------------------------------------


_HEAD_KEYS = {"session_id": "session_id", "model": "model", "agent": "agent_name"}


def read_chat(result: ReadTrajectory) -> Iterator[Step]:
    """Yield one step per message; results join the step of their call."""
    yield from message_steps(result, _chat_messages(result))


def message_steps(result: ReadTrajectory, messages: Iterator[object]) -> Iterator[Step]:
    """The steps of a conversation's messages, and its usage."""
    steps = MessageSteps()
    for place, message in enumerate(messages, start=1):
        if not isinstance(message, Mapping) or not isinstance(message.get("role"), str):
            result.problems.add(f"message {place}", "an object with a role", f"found {message!r:.60}")
            continue
        added = read_object(message.get("_metadata"))
        timestamp, role = read_text(message.get("timestamp") or added.get("timestamp")), message["role"]
        if role in ("assistant", "model", "agent"):
            blocks, outputs = _assistant_blocks(message, place)
            answer = {"id": f"message-{place}", "content": blocks, "stop_reason": "end", "usage": _chat_usage(message)}
            yield from steps.assistant({**message, **answer}, timestamp)
            yield from steps.user({"content": outputs}, timestamp)
        elif role in ("tool", "function"):
            call = message.get("tool_call_id") or message.get("name")
            block = result_block(call, message.get("content"), message.get("is_error") is True)
            yield from steps.user({"content": [block]}, timestamp)
        elif role in ("user", "human"):
            results = _results(message)
            yield from steps.user({**message, "content": results} if results else message, timestamp)
        else:
            yield from steps.flush()
            yield Step(0, Source.SYSTEM, clean(content_text(message.get("content"))[0]), timestamp=timestamp)
    yield from steps.flush()
    result.set_usage(steps.usage, "messages")


def _chat_messages(result: ReadTrajectory) -> Iterator[object]:
    with result.open_binary() as stream:
        start = stream.read(4096).lstrip()
    if not start.startswith(b"[") and b'"messages"' not in start:
        yield from (message for _, message in result.lines())
        return
    for key, value in result.parts(streamed=frozenset({"messages"})):
        if key in ("", "messages"):
            yield value
        elif key in _HEAD_KEYS and isinstance(value, str):
            result.set_head(**{_HEAD_KEYS[key]: storable(value)})
        elif value is not None:
            result.add_extra(**{key: value})


def _assistant_blocks(message: Record, number: int) -> tuple[list[object], list[object]]:
    """(content blocks, results in the same message), in Anthropic's shape."""
    blocks: list[object] = []
    outputs: list[object] = []
    for key in ("reasoning_content", "reasoning", "thinking"):
        if isinstance(message.get(key), str) and message[key]:
            blocks.append({"type": "thinking", "thinking": message[key]})
    content = message.get("content")
    blocks += content if isinstance(content, list) else [{"type": "text", "text": content}] if content else []
    calls = message.get("tool_calls")
    if isinstance(calls, Mapping):  # fast-agent's, by their ids
        calls = [{"id": ident, **read_object(read_object(call).get("params"))} for ident, call in calls.items()]
    for index, call in enumerate(read_objects(calls), start=1):
        inner = call.get("function")
        function = inner if isinstance(inner, Mapping) else call
        identifier = call.get("id") or f"message-{number}-call-{index}"
        blocks.append(call_block(identifier, function.get("name"), _arguments(function.get("arguments"))))
    for index, use in enumerate(read_objects(message.get("tool_uses")), start=1):
        identifier = f"message-{number}-call-{index}"
        blocks.append(call_block(identifier, use.get("tool"), use.get("input")))
        if use.get("output") is not None:
            outputs.append(result_block(identifier, use["output"], use.get("status") == "error"))
    return blocks, outputs


def _results(message: Record) -> list[object]:
    """Return the results that fast-agent has in the user's message, and that message's own content."""
    found = {ident: read_object(each) for ident, each in read_object(message.get("tool_results")).items()}
    blocks = [result_block(ident, each.get("content"), each.get("isError") is True) for ident, each in found.items()]
    return [*blocks, *read_list(message.get("content"))] if blocks else []


def _chat_usage(message: Record) -> object:
    """The message's usage in Anthropic's terms."""
    raw = message.get("usage")
    if not isinstance(raw, Mapping) or "prompt_tokens" not in raw:
        return raw
    cached = read_object(raw.get("prompt_tokens_details")).get("cached_tokens")
    return counts_without_cache(raw["prompt_tokens"], cached, raw.get("completion_tokens"))


def _arguments(raw: object) -> object:
    """OpenAI gives arguments as a text that should be a JSON object. An invalid one is kept unchanged."""
    if not isinstance(raw, str) or not raw.strip():
        return None if isinstance(raw, str) else raw
    value = parse_json(raw)
    if value is None and raw.strip() != "null":
        return raw
    return value if isinstance(value, dict) else {"raw": value}


# --- Inspect ----------------------------------------------------------------------------------------------------------


ATTACHMENT = "attachment://"
_MESSAGES, _EVENTS = frozenset({"messages"}), frozenset({"events"})  # events repeat the messages: they are passed over
_TOKEN_KEYS = ("input_tokens", "input_tokens_cache_read", "output_tokens")
_INSPECT_KEPT = ("id", "epoch", "uuid")


def read_inspect(result: ReadTrajectory) -> Iterator[Step]:
    """Yield one step per message. The file is read twice: attachments and usage come after the messages."""
    result.set_head(agent_name="inspect")
    attachments = _read_behind(result)
    yield from message_steps(result, _inspect_messages(result, attachments))


def _read_behind(result: ReadTrajectory) -> Record:
    """Return the attachments, and put other facts of the sample into the head."""
    attachments: Record = {}
    for key, value in result.parts(nested=_MESSAGES | _EVENTS, problems=Problems()):
        if key == "attachments" and isinstance(value, Mapping):
            attachments = value
        elif key == "model_usage" and isinstance(value, Mapping):
            result.reported = read_model_usage(value)
            result.set_head(model=next((storable(str(model))[:200] for model in value), None))
        elif key in _INSPECT_KEPT and isinstance(value, str | int):
            result.add_extra(**{f"sample_{key}": value})
    return attachments


def read_model_usage(models: Record) -> Usage:
    """Tokens and cost of all models together; input includes cache reads. Inspect knows the cost of models that it
    was given prices for."""
    total = Usage()
    for counts in read_objects(list(models.values())):
        usage, whole = read_usage(counts, *_TOKEN_KEYS), read_count(counts.get("total_tokens"))
        if whole is not None and usage.output_tokens is not None and whole >= usage.output_tokens:
            # Providers differ in whether input_tokens includes cache reads.
            usage = replace(usage, input_tokens=whole - usage.output_tokens)
        total += replace(usage, cost_usd=read_amount(counts.get("total_cost")))
    return total


def _inspect_messages(result: ReadTrajectory, attachments: Record) -> Iterator[object]:
    for key, value in result.parts(streamed=_MESSAGES, nested=_EVENTS):
        if key == "messages":
            yield _convert_inspect(_put_back(value, attachments))


def _put_back(value: object, attachments: Record, depth: int = 0) -> object:
    if isinstance(value, str):
        whole = attachments.get(value.removeprefix(ATTACHMENT)) if value.startswith(ATTACHMENT) else None
        return whole if isinstance(whole, str) else value
    if depth > 20:
        return value
    if isinstance(value, Mapping):
        return {key: _put_back(item, attachments, depth + 1) for key, item in value.items()}
    return [_put_back(item, attachments, depth + 1) for item in value] if isinstance(value, list) else value


def _convert_inspect(message: object) -> object:
    """Convert a message: calls name their function as text, reasoning is a part, a tool's failure has a field."""
    if not isinstance(message, Mapping):
        return message
    found = dict(message)
    content, calls, error = message.get("content"), message.get("tool_calls"), message.get("error")
    if isinstance(content, list):
        found["content"] = [_part(part) for part in content]
    if isinstance(calls, list):
        found["tool_calls"] = [{**call, "name": call.get("function")} for call in read_objects(calls)]
    if isinstance(error, Mapping):
        found["is_error"] = True
        found["content"] = found.get("content") or error.get("message") or "failed"
    return found


def _part(part: object) -> object:
    if isinstance(part, Mapping) and part.get("type") == "reasoning":
        return {"type": "thinking", "thinking": part.get("reasoning") or part.get("summary") or ""}
    return part


# --- mini-swe-agent ---------------------------------------------------------------------------------------------------


_OPENS, _CLOSES = re.compile(r"```(?:mswea_bash_command|bash)[^\S\n]*\n"), "\n```"
_MINI_STREAMED = frozenset({"messages"})


def read_mini(result: ReadTrajectory) -> Iterator[Step]:
    """Yield one step per answer of the model, with the results of its commands."""
    result.set_head(agent_name="mini-swe-agent")
    yield from message_steps(result, _convert_mini(_mini_messages(result)))


def _mini_messages(result: ReadTrajectory) -> Iterator[object]:
    for key, value in result.parts(streamed=_MINI_STREAMED):
        if key in ("", "messages"):
            yield value
        elif key == "info" and isinstance(value, Mapping):
            _take_mini_info(result, value)


def _take_mini_info(result: ReadTrajectory, info: Record) -> None:
    version = read_text(info.get("mini_version"))
    model = read_text(read_object(read_object(info.get("config")).get("model")).get("model_name"))
    cost = read_amount(read_object(info.get("model_stats")).get("instance_cost"))
    if version is not None:
        result.set_head(agent_version=version[:100])
    if info.get("exit_status"):
        result.facts["exit_status"] = storable_value(info["exit_status"])
    if model is not None:
        result.set_head(model=model[:200])
    if cost is not None:
        result.reported = Usage(cost_usd=cost)


def _convert_mini(messages: Iterator[object]) -> Iterator[object]:
    """Convert messages for `message_steps`. A command in the text becomes a call, the next message its result."""
    waiting: deque[str] = deque()
    for index, message in enumerate(messages, start=1):
        if not isinstance(message, Mapping):
            yield message
            continue
        extra, role, shaped = read_object(message.get("extra")), message.get("role"), message
        if message.get("type") == "function_call_output":
            shaped = _mini_result(message.get("call_id"), message.get("output"), extra)
        elif role == "tool":
            shaped = _mini_result(message.get("tool_call_id"), message.get("content"), extra)
        elif role == "assistant" or message.get("object") == "response":
            shaped, ids = _answer(message, extra, index)
            waiting = deque(ids)
        elif role == "user" and waiting and "interrupt_type" not in extra:
            shaped = _mini_result(waiting.popleft(), message.get("content"), extra)
        yield {**shaped, "timestamp": read_seconds(extra.get("timestamp", message.get("timestamp")))}


def _answer(message: Record, extra: Record, index: int) -> tuple[dict[str, object], list[str]]:
    """(the answer, the ids of its calls)."""
    response = extra.get("response")
    response = response if isinstance(response, Mapping) else message
    parts = _response_parts(message.get("output")) if message.get("object") == "response" else {}
    found = {**message, "role": "assistant", "model": response.get("model"), **parts}
    calls = found.get("tool_calls")
    if not isinstance(calls, list) or not calls:
        calls = [
            {"id": f"message-{index}-action-{place}", "name": "bash", "arguments": {"command": command}}
            for place, command in enumerate(_commands(found.get("content"), extra), start=1)
        ]
    calls = [
        {**call, "id": storable(str(call.get("id") or f"message-{index}-call-{place}"))}
        for place, call in enumerate(calls, start=1)
        if isinstance(call, Mapping)
    ]
    usage = _openai_usage(response.get("usage"))
    counts = {"usage": usage, "stop_reason": "end"} if usage else {}
    return {**found, "tool_calls": calls, **counts}, [call["id"] for call in calls]


def _response_parts(output: object) -> dict[str, object]:
    """Text, reasoning and calls of an answer of the Responses API."""
    items = read_objects(output)
    texts = [content_text(item.get("content"))[0] for item in items if item.get("type") == "message"]
    thoughts = [content_text(item.get("summary"))[0] for item in items if item.get("type") == "reasoning"]
    calls = [
        {"id": item.get("call_id"), "name": item.get("name"), "arguments": item.get("arguments")}
        for item in items
        if item.get("type") == "function_call"
    ]
    return {"content": "\n\n".join(texts), "reasoning": "\n\n".join(filter(None, thoughts)), "tool_calls": calls}


def _commands(content: object, extra: Record) -> list[str]:
    actions = extra.get("actions")
    if isinstance(actions, list):
        commands = [action.get("command") if isinstance(action, Mapping) else action for action in actions]
        return [command for command in commands if isinstance(command, str)]
    text, at, found = content_text(content)[0], 0, list[str]()
    while (opening := _OPENS.search(text, at)) and (end := text.find(_CLOSES, opening.end())) >= 0:
        found.append(text[opening.end() : end].strip())
        at = end + len(_CLOSES)
    return found


def _mini_result(call: object, content: object, extra: Record) -> dict[str, object]:
    """The result of a call. It failed if the command's return code is not 0."""
    code, text = extra.get("returncode"), content_text(content)[0]
    failed = code != 0 if isinstance(code, int) else has_mini_swe_agent_failed(text)
    return {"role": "tool", "tool_call_id": call, "content": text, "is_error": failed}


def _openai_usage(raw: object) -> dict[str, object] | None:
    """Tokens in Anthropic's terms, from either of OpenAI's interfaces."""
    if not isinstance(raw, Mapping):
        return None
    details = read_object(raw.get("prompt_tokens_details") or raw.get("input_tokens_details"))
    sent = raw.get("prompt_tokens", raw.get("input_tokens"))
    return counts_without_cache(
        sent, details.get("cached_tokens"), raw.get("completion_tokens", raw.get("output_tokens"))
    )


# --- SWE-agent --------------------------------------------------------------------------------------------------------


MAX_OPENING = 200  # messages before the agent's first answer
_SWE_STREAMED = frozenset({"trajectory", "history"})
_SOURCES = {"system": Source.SYSTEM, "user": Source.USER}
_SWE_KEPT = ("execution_time", "state")


def read_swe(result: ReadTrajectory) -> Iterator[Step]:
    """Yield one step per action, after the instructions. The file is read twice: `history` follows `trajectory`."""
    result.set_head(agent_name="swe-agent")
    yield from _read_opening(result)
    index = 0
    for key, value in result.parts(streamed=_SWE_STREAMED):
        if key == "trajectory":
            index += 1
            if isinstance(value, Mapping):
                yield _swe_step(value, index)
            else:
                result.problems.add(f"trajectory[{index - 1}]", "an object", f"found {value!r:.60}")
    if not index:
        yield from message_steps(result, _convert_swe(_answers(result)))


def _answers(result: ReadTrajectory) -> Iterator[Record]:
    """The messages of the history from the agent's first answer on."""
    answered = False
    for key, value in result.parts(streamed=_SWE_STREAMED, problems=Problems()):
        if key == "history" and isinstance(value, Mapping):
            answered = answered or _is_answer(value)
            if answered:
                yield value


def _is_answer(message: Record) -> bool:
    return str(message.get("role")) not in _SOURCES and not message.get("is_demo")


def _convert_swe(messages: Iterator[Record]) -> Iterator[Record]:
    """Convert an answer without tool calls: its command is in `action`, its result is the next message."""
    waiting: str | None = None
    for index, message in enumerate(messages, start=1):
        role, identifiers = message.get("role"), read_list(message.get("tool_call_ids"))
        if role == "assistant":
            action, calls = _swe_text(message.get("action")).strip(), message.get("tool_calls")
            waiting = f"action-{index}" if action and not calls else None
            if waiting:
                calls = [{"id": waiting, "name": "shell", "arguments": {"command": action}}]
            yield {**message, "content": message.get("thought") or message.get("content"), "tool_calls": calls}
        elif role == "tool" and identifiers:
            yield {**message, "tool_call_id": identifiers[0]}
        elif role == "user" and waiting:
            yield {"role": "tool", "tool_call_id": waiting, "content": message.get("content")}
            waiting = None
        else:
            yield message


def _read_opening(result: ReadTrajectory) -> Iterator[Step]:
    """The messages before the first answer, and the head."""
    messages: list[Step] = []
    answered = False
    for key, value in result.parts(streamed=_SWE_STREAMED, problems=Problems()):
        if key == "history":
            answered = answered or not isinstance(value, Mapping) or _is_answer(value)
            if isinstance(value, Mapping) and not answered and len(messages) < MAX_OPENING:
                source = _SOURCES.get(str(value.get("role")), Source.AGENT)
                is_demo = bool(value.get("is_demo"))
                messages.append(Step(0, source, _swe_text(value.get("content")), is_copied_context=is_demo))
        elif key == "info" and isinstance(value, Mapping):
            _take_swe_info(result, value)
        elif key == "environment" and isinstance(value, str):
            result.add_extra(environment=value)
    yield from messages


def _take_swe_info(result: ReadTrajectory, info: Record) -> None:
    version, stats = read_text(info.get("swe_agent_version")), info.get("model_stats")
    if version is not None:
        result.set_head(agent_version=version[:100])
    if info.get("exit_status") is not None:
        result.facts["exit_status"] = storable_value(info["exit_status"])
    if isinstance(stats, Mapping):
        cost = read_amount(stats.get("instance_cost", stats.get("total_cost")))
        result.reported = Usage(
            read_count(stats.get("tokens_sent")), None, read_count(stats.get("tokens_received")), cost
        )


def _swe_step(item: Record, index: int) -> Step:
    action, thought, response = (_swe_text(item.get(key)) for key in ("action", "thought", "response"))
    call = ToolCall(f"action-{index}", "shell", {"command": action.strip()}) if action.strip() else None
    observation = _swe_text(item.get("observation"))
    results = (Observation(observation, call.id if call else None),) if observation or call else ()
    return Step(
        0,
        Source.AGENT,
        thought or response,
        tool_calls=(call,) if call else (),
        observations=results,
        extra=pick_fields(item, _SWE_KEPT) or None,
    )


def _swe_text(value: object) -> str:
    return clean(content_text(value)[0])
