"""mini-swe-agent's trajectories (<instance>.traj.json): {info, messages, trajectory_format}, or the bare list of messages.

Version 1 writes a command as a fenced block in the model's text and the result as the next user message. Version 2 lists
commands in `extra.actions`; they come from the text, from tool calls, or from an answer of OpenAI's Responses API, which
stands among the messages as it came. Tokens are known where the model's own answer was kept (`extra.response`).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping
from datetime import UTC, datetime
from typing import Any

from runner.base.text import storable, storable_value
from runner.base.types import JsonValue, Step, Usage
from runner.trajectories.atif_values import content_text
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.chat import message_steps
from runner.trajectories.readers.claude_messages import number
from runner.trajectories.readers.exit_codes import has_mini_swe_agent_failed
from runner.trajectories.readers.line_streams import walk

_FENCED = re.compile(r"```(?:mswea_bash_command|bash)\s*\n(.*?)\n```", re.DOTALL)
_STREAMED = frozenset({"messages"})
_LATEST_SECONDS = 253_402_300_799  # the end of the year 9999


def read(result: ReadTrajectory) -> Iterator[Step]:
    """One step per answer of the model, with the results of its commands."""
    result.set_head(agent_name="mini-swe-agent")
    yield from message_steps(result, _in_chat_shape(_messages(result)))


def _messages(result: ReadTrajectory) -> Iterator[Any]:
    with result.open_binary() as stream:
        for key, value in walk(stream, result.problems, streamed=_STREAMED):
            if key in ("", "messages"):
                yield value
            elif key == "info" and isinstance(value, Mapping):
                _take_info(result, value)


def _take_info(result: ReadTrajectory, info: Mapping[str, JsonValue]) -> None:
    version, ended, stats = info.get("mini_version"), info.get("exit_status"), info.get("model_stats")
    if isinstance(version, str):
        result.set_head(agent_version=storable(version)[:100])
    if ended:
        result.facts["exit_status"] = storable_value(ended)
    config = info.get("config")
    model = config.get("model") if isinstance(config, Mapping) else None
    name = model.get("model_name") if isinstance(model, Mapping) else None
    if isinstance(name, str):
        result.set_head(model=storable(name)[:200])
    cost = stats.get("instance_cost") if isinstance(stats, Mapping) else None
    if isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e9:
        result.reported = Usage(cost_usd=float(cost))


def _in_chat_shape(messages: Iterator[Any]) -> Iterator[Any]:
    """Messages as `message_steps` takes them. A command that the text holds becomes a call; what follows, its result."""
    waiting: deque[str] = deque()
    for index, message in enumerate(messages, start=1):
        if not isinstance(message, Mapping):
            yield message
            continue
        extra = message.get("extra")
        extra = extra if isinstance(extra, Mapping) else {}
        timestamp = _time(extra.get("timestamp", message.get("timestamp")))
        if message.get("type") == "function_call_output":
            yield {**_result(message.get("call_id"), message.get("output"), extra), "timestamp": timestamp}
        elif message.get("role") == "tool":
            yield {**_result(message.get("tool_call_id"), message.get("content"), extra), "timestamp": timestamp}
        elif message.get("role") == "assistant" or message.get("object") == "response":
            answer = _answer(message, extra, index)
            waiting = deque(call["id"] for call in answer["tool_calls"])
            yield {**answer, "timestamp": timestamp}
        elif message.get("role") == "user" and waiting and "interrupt_type" not in extra:
            yield {**_result(waiting.popleft(), message.get("content"), extra), "timestamp": timestamp}
        else:
            yield {**message, "timestamp": timestamp}


def _answer(message: Mapping[str, Any], extra: Mapping[str, Any], index: int) -> dict[str, Any]:
    response = extra.get("response")
    response = response if isinstance(response, Mapping) else message
    found = {**message, "role": "assistant", "model": response.get("model")}
    if message.get("object") == "response":
        found |= _response_parts(message.get("output"))
    if not isinstance(found.get("tool_calls"), list) or not found["tool_calls"]:
        found["tool_calls"] = [
            {"id": f"message-{index}-action-{place}", "name": "bash", "arguments": {"command": command}}
            for place, command in enumerate(_commands(found.get("content"), extra), start=1)
        ]
    found["tool_calls"] = [
        {**call, "id": storable(str(call.get("id") or f"message-{index}-call-{place}"))}
        for place, call in enumerate(found["tool_calls"], start=1)
        if isinstance(call, Mapping)
    ]
    if usage := _usage(response.get("usage")):
        found |= {"usage": usage, "stop_reason": "told"}
    return found


def _response_parts(output: object) -> dict[str, object]:
    """Text, reasoning and calls of an answer of the Responses API."""
    items = [item for item in output if isinstance(item, Mapping)] if isinstance(output, list) else []
    texts = [content_text(item.get("content"))[0] for item in items if item.get("type") == "message"]
    thoughts = [content_text(item.get("summary"))[0] for item in items if item.get("type") == "reasoning"]
    calls = [
        {"id": item.get("call_id"), "name": item.get("name"), "arguments": item.get("arguments")}
        for item in items
        if item.get("type") == "function_call"
    ]
    return {"content": "\n\n".join(texts), "reasoning": "\n\n".join(filter(None, thoughts)), "tool_calls": calls}


def _commands(content: object, extra: Mapping[str, object]) -> list[str]:
    actions = extra.get("actions")
    if isinstance(actions, list):
        told = [action.get("command") if isinstance(action, Mapping) else action for action in actions]
        return [command for command in told if isinstance(command, str)]
    return [match.strip() for match in _FENCED.findall(content_text(content)[0])]


def _result(call: JsonValue, content: JsonValue, extra: Mapping[str, JsonValue]) -> dict[str, object]:
    """The result of a call. It failed where the command's return code is not 0."""
    code = extra.get("returncode")
    text = content_text(content)[0]
    failed = code != 0 if isinstance(code, int) else has_mini_swe_agent_failed(text)
    return {"role": "tool", "tool_call_id": call, "content": text, **({"is_error": True} if failed else {})}


def _usage(raw: object) -> dict[str, JsonValue] | None:
    """Tokens in Anthropic's terms, whose input_tokens leave the cache out; from either of OpenAI's interfaces."""
    if not isinstance(raw, Mapping):
        return None
    details = raw.get("prompt_tokens_details") or raw.get("input_tokens_details")
    cached = number(details.get("cached_tokens")) if isinstance(details, Mapping) else None
    sent = number(raw.get("prompt_tokens", raw.get("input_tokens")))
    return {
        "input_tokens": None if sent is None else max(0, sent - (cached or 0)),
        "cache_read_input_tokens": cached,
        "output_tokens": number(raw.get("completion_tokens", raw.get("output_tokens"))),
    }


def _time(raw: JsonValue) -> str | None:
    """Seconds since 1970 as ISO 8601."""
    seconds = raw if isinstance(raw, int | float) and not isinstance(raw, bool) else None
    if seconds is None or not 0 <= seconds <= _LATEST_SECONDS:
        return None
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")
