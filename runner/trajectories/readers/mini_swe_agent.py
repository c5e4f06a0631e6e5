"""mini-swe-agent's trajectories (<instance>.traj.json): {info, messages, trajectory_format}, or only the messages.

Version 1 writes a command as a fenced block in the model's text and the result as the next user message. Version 2
lists commands in `extra.actions`. They come from the text, from tool calls, or from an answer of OpenAI's Responses
API, which is among the messages unchanged. Tokens are known if the model's own answer was kept (`extra.response`).
"""

from __future__ import annotations

import re
from collections import deque
from collections.abc import Iterator, Mapping

from runner.base.text import storable, storable_value
from runner.base.types import Step, Usage
from runner.trajectories.atif_values import content_text
from runner.trajectories.log_records import (
    Record,
    read_amount,
    read_object,
    read_objects,
    read_seconds,
    read_text,
)
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.chat import message_steps
from runner.trajectories.readers.claude_code.claude_messages import counts_without_cache
from runner.trajectories.readers.exit_codes import has_mini_swe_agent_failed

_OPENS, _CLOSES = re.compile(r"```(?:mswea_bash_command|bash)[^\S\n]*\n"), "\n```"
_STREAMED = frozenset({"messages"})


def read(result: ReadTrajectory) -> Iterator[Step]:
    """Yield one step per answer of the model, with the results of its commands."""
    result.set_head(agent_name="mini-swe-agent")
    yield from message_steps(result, _in_chat_shape(_messages(result)))


def _messages(result: ReadTrajectory) -> Iterator[object]:
    for key, value in result.parts(streamed=_STREAMED):
        if key in ("", "messages"):
            yield value
        elif key == "info" and isinstance(value, Mapping):
            _take_info(result, value)


def _take_info(result: ReadTrajectory, info: Record) -> None:
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


def _in_chat_shape(messages: Iterator[object]) -> Iterator[object]:
    """Convert messages for `message_steps`. A command in the text becomes a call, the next message its result."""
    waiting: deque[str] = deque()
    for index, message in enumerate(messages, start=1):
        if not isinstance(message, Mapping):
            yield message
            continue
        extra, role, shaped = read_object(message.get("extra")), message.get("role"), message
        if message.get("type") == "function_call_output":
            shaped = _result(message.get("call_id"), message.get("output"), extra)
        elif role == "tool":
            shaped = _result(message.get("tool_call_id"), message.get("content"), extra)
        elif role == "assistant" or message.get("object") == "response":
            shaped, ids = _answer(message, extra, index)
            waiting = deque(ids)
        elif role == "user" and waiting and "interrupt_type" not in extra:
            shaped = _result(waiting.popleft(), message.get("content"), extra)
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
    usage = _usage(response.get("usage"))
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


def _result(call: object, content: object, extra: Record) -> dict[str, object]:
    """The result of a call. It failed if the command's return code is not 0."""
    code, text = extra.get("returncode"), content_text(content)[0]
    failed = code != 0 if isinstance(code, int) else has_mini_swe_agent_failed(text)
    return {"role": "tool", "tool_call_id": call, "content": text, "is_error": failed}


def _usage(raw: object) -> dict[str, object] | None:
    """Tokens in Anthropic's terms, from either of OpenAI's interfaces."""
    if not isinstance(raw, Mapping):
        return None
    details = read_object(raw.get("prompt_tokens_details") or raw.get("input_tokens_details"))
    sent = raw.get("prompt_tokens", raw.get("input_tokens"))
    return counts_without_cache(
        sent, details.get("cached_tokens"), raw.get("completion_tokens", raw.get("output_tokens"))
    )
