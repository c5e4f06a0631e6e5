"""SWE-agent's .traj files: one object with trajectory, history and info; a demonstration has only the history.

A step of the trajectory is one action with the thought before it and its result. The instructions are in `history`,
before the first answer; messages of a demonstration are marked as copied context. Without a trajectory, answers and
results come from the history too. Tokens and cost are known only for the whole run (`info.model_stats`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from runner.base.text import clean, storable_value
from runner.base.types import Observation, Source, Step, ToolCall, Usage
from runner.trajectories.atif_values import content_text
from runner.trajectories.log_records import Record, pick_fields, read_amount, read_count, read_list, read_text
from runner.trajectories.problems import Problems
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.chat import message_steps

MAX_OPENING = 200  # messages before the agent's first answer
_STREAMED = frozenset({"trajectory", "history"})
_SOURCES = {"system": Source.SYSTEM, "user": Source.USER}
_KEPT = ("execution_time", "state")


def read(result: ReadTrajectory) -> Iterator[Step]:
    """Yield one step per action, after the instructions. The file is read twice: `history` follows `trajectory`."""
    result.set_head(agent_name="swe-agent")
    yield from _read_opening(result)
    index = 0
    for key, value in result.parts(streamed=_STREAMED):
        if key == "trajectory":
            index += 1
            if isinstance(value, Mapping):
                yield _step(value, index)
            else:
                result.problems.add(f"trajectory[{index - 1}]", "an object", f"found {value!r:.60}")
    if not index:
        yield from message_steps(result, _in_chat_shape(_answers(result)))


def _answers(result: ReadTrajectory) -> Iterator[Record]:
    """The messages of the history from the agent's first answer on."""
    answered = False
    for key, value in result.parts(streamed=_STREAMED, problems=Problems()):
        if key == "history" and isinstance(value, Mapping):
            answered = answered or _is_answer(value)
            if answered:
                yield value


def _is_answer(message: Record) -> bool:
    return str(message.get("role")) not in _SOURCES and not message.get("is_demo")


def _in_chat_shape(messages: Iterator[Record]) -> Iterator[Record]:
    """Convert an answer without tool calls: its command is in `action`, its result is the next message."""
    waiting: str | None = None
    for index, message in enumerate(messages, start=1):
        role, identifiers = message.get("role"), read_list(message.get("tool_call_ids"))
        if role == "assistant":
            action, calls = _text(message.get("action")).strip(), message.get("tool_calls")
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
    for key, value in result.parts(streamed=_STREAMED, problems=Problems()):
        if key == "history":
            answered = answered or not isinstance(value, Mapping) or _is_answer(value)
            if isinstance(value, Mapping) and not answered and len(messages) < MAX_OPENING:
                source = _SOURCES.get(str(value.get("role")), Source.AGENT)
                is_demo = bool(value.get("is_demo"))
                messages.append(Step(0, source, _text(value.get("content")), is_copied_context=is_demo))
        elif key == "info" and isinstance(value, Mapping):
            _take_info(result, value)
        elif key == "environment" and isinstance(value, str):
            result.add_extra(environment=value)
    yield from messages


def _take_info(result: ReadTrajectory, info: Record) -> None:
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


def _step(item: Record, index: int) -> Step:
    action, thought, response = (_text(item.get(key)) for key in ("action", "thought", "response"))
    call = ToolCall(f"action-{index}", "shell", {"command": action.strip()}) if action.strip() else None
    observation = _text(item.get("observation"))
    results = (Observation(observation, call.id if call else None),) if observation or call else ()
    return Step(
        0,
        Source.AGENT,
        thought or response,
        tool_calls=(call,) if call else (),
        observations=results,
        extra=pick_fields(item, _KEPT) or None,
    )


def _text(value: object) -> str:
    return clean(content_text(value)[0])
