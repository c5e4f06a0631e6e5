"""SWE-agent's .traj files: one object with trajectory, history and info; a demonstration has only the history.

A step of the trajectory is one action with the thought before it and what came back. What the agent was told stands in
`history`, before its first answer; messages of a demonstration are marked as copied context. Where there is no
trajectory, the answers and results come from the history too. The log tells tokens and cost only for the whole run
(`info.model_stats`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from runner.base.text import clean, storable, storable_value
from runner.base.types import JsonValue, Observation, Source, Step, ToolCall, Usage
from runner.trajectories.atif_values import content_text
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.chat import message_steps
from runner.trajectories.readers.claude_messages import number
from runner.trajectories.readers.line_streams import walk

MAX_TOLD = 200  # messages before the agent's first answer
_STREAMED = frozenset({"trajectory", "history"})
_SOURCES = {"system": Source.SYSTEM, "user": Source.USER}
_KEPT = ("execution_time", "state")


def read(result: ReadTrajectory) -> Iterator[Step]:
    """One step per action, after what the agent was told. The file is read twice: `history` follows `trajectory`."""
    result.set_head(agent_name="swe-agent")
    yield from _read_opening(result)
    index = 0
    with result.open_binary() as stream:
        for key, value in walk(stream, result.problems, streamed=_STREAMED):
            if key == "trajectory":
                index += 1
                if isinstance(value, Mapping):
                    yield _step(value, index)
                else:
                    result.problems.add(f"trajectory[{index - 1}]", "an object", f"found {value!r:.60}")
    if not index:
        yield from message_steps(result, _in_chat_shape(_answers(result)))


def _answers(result: ReadTrajectory) -> Iterator[Mapping[str, JsonValue]]:
    """The messages of the history from the agent's first answer on."""
    answered = False
    with result.open_binary() as stream:
        for key, value in walk(stream, type(result.problems)(), streamed=_STREAMED):
            if key == "history" and isinstance(value, Mapping):
                answered = answered or _is_answer(value)
                if answered:
                    yield value


def _is_answer(message: Mapping[str, JsonValue]) -> bool:
    return str(message.get("role")) not in _SOURCES and not message.get("is_demo")


def _in_chat_shape(messages: Iterator[Mapping[str, Any]]) -> Iterator[dict[str, Any]]:
    """An answer without tool calls has its command in `action`, and the next message is what came back."""
    waiting: str | None = None
    for index, message in enumerate(messages, start=1):
        role, idents = message.get("role"), message.get("tool_call_ids")
        if role == "assistant":
            action, calls = _text(message.get("action")).strip(), message.get("tool_calls")
            waiting = f"action-{index}" if action and not calls else None
            if waiting:
                calls = [{"id": waiting, "name": "shell", "arguments": {"command": action}}]
            yield {**message, "content": message.get("thought") or message.get("content"), "tool_calls": calls}
        elif role == "tool" and isinstance(idents, list) and idents:
            yield {**message, "tool_call_id": idents[0]}
        elif role == "user" and waiting:
            yield {"role": "tool", "tool_call_id": waiting, "content": message.get("content")}
            waiting = None
        else:
            yield dict(message)


def _read_opening(result: ReadTrajectory) -> Iterator[Step]:
    """The messages before the first answer, and what the file says besides."""
    messages: list[Step] = []
    answered = False
    with result.open_binary() as stream:
        for key, value in walk(stream, type(result.problems)(), streamed=_STREAMED):
            if key == "history":
                answered = answered or not isinstance(value, Mapping) or _is_answer(value)
                if not answered and len(messages) < MAX_TOLD:
                    source = _SOURCES.get(str(value.get("role")), Source.AGENT)
                    is_demo = bool(value.get("is_demo"))
                    messages.append(Step(0, source, _text(value.get("content")), is_copied_context=is_demo))
            elif key == "info" and isinstance(value, Mapping):
                _take_info(result, value)
            elif key == "environment" and isinstance(value, str):
                result.add_extra(environment=value)
    yield from messages


def _take_info(result: ReadTrajectory, info: Mapping[str, object]) -> None:
    version, exit_status = info.get("swe_agent_version"), info.get("exit_status")
    if isinstance(version, str):
        result.set_head(agent_version=storable(version)[:100])
    if exit_status is not None:
        result.facts["exit_status"] = storable_value(exit_status)
    stats = info.get("model_stats")
    if isinstance(stats, Mapping):
        cost = stats.get("instance_cost", stats.get("total_cost"))
        plain = isinstance(cost, int | float) and not isinstance(cost, bool) and 0 <= cost < 1e9
        result.reported = Usage(
            number(stats.get("tokens_sent")), None, number(stats.get("tokens_received")), float(cost) if plain else None
        )


def _step(item: Mapping[str, JsonValue], index: int) -> Step:
    action, thought, response = (_text(item.get(key)) for key in ("action", "thought", "response"))
    call = ToolCall(f"action-{index}", "shell", {"command": action.strip()}) if action.strip() else None
    observation = _text(item.get("observation"))
    results = (Observation(observation, call.id if call else None),) if observation or call else ()
    extra = {key: storable_value(item[key]) for key in _KEPT if item.get(key) is not None}
    return Step(
        0,
        Source.AGENT,
        thought or response,
        tool_calls=(call,) if call else (),
        observations=results,
        extra=extra or None,
    )


def _text(value: Any) -> str:
    text, _ = content_text(value)
    return clean(text)
