"""Terminus-2's early trajectory.json: a list of {episode, prompt, response}, without times and tokens.

The first prompt is the user's; each later prompt is the terminal's output after the response before it. A response is
a JSON object, alone or in a fenced block among prose.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from dataclasses import replace

from runner.base.text import clean, storable_value
from runner.base.types import JsonValue, Observation, Source, Step, ToolCall
from runner.trajectories.log_records import Record, parse_json, read_list, read_objects
from runner.trajectories.readers import ReadTrajectory

_AVAILABLE = re.compile(r"available_skills:[ \t]{0,9}\n?(\[.{2,200000}?\n\])", re.DOTALL)
_FENCE_OPENINGS = ("```", "```json")
_ACTED_ON = ("load_skill", "load_reference", "commands", "task_complete")
_SPOKEN = ("analysis", "explanation", "plan")


def read(result: ReadTrajectory) -> Iterator[Step]:
    """Yield a user step for the first prompt, then one agent step per response with the next prompt as its result."""
    result.set_head(agent_name="terminus-2")
    pending: Step | None = None
    for index, (_, item) in enumerate(result.parts(), start=1):
        if not isinstance(item, dict):
            result.problems.add(f"episode {index}", "an object with prompt and response", f"found {item!r:.60}")
            continue
        prompt, response = clean(_text(item.get("prompt"))), clean(_text(item.get("response")))
        if pending is not None and pending.tool_calls:
            yield _with_result(pending, prompt)
        else:
            if pending is not None:
                yield pending
            listed = read_listed_skills(prompt)
            if listed:
                result.set_head(skills_listed=listed)
            yield Step(0, Source.USER, prompt)
        pending = _agent_step(item, index, response)
    if pending is not None:
        yield pending


def read_listed_skills(prompt: str) -> tuple[str, ...]:
    """Names of the skills a terminus prompt announces below "available_skills:"."""
    start = max(0, prompt.find("available_skills:"))
    match = _AVAILABLE.match(prompt, start)  # only the first: a search could be made slow
    names = [item.get("name") for item in read_objects(parse_json(match[1]))] if match else []
    return tuple(name for name in names if isinstance(name, str))


def _text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def _with_result(step: Step, prompt: str) -> Step:
    """Add one result for all calls of the step: the terminal does not separate them."""
    call = step.tool_calls[0].id if len(step.tool_calls) == 1 else None
    return replace(step, observations=(Observation(prompt, call, prompt.startswith("Skill not found")),))


def _agent_step(item: Record, index: int, response: str) -> Step:
    block, spoken = _find_action(response)
    extra: dict[str, JsonValue] = {"episode": storable_value(item.get("episode"))}
    rest = {key: value for key, value in item.items() if key not in ("episode", "prompt", "response")}
    unknown = {key: value for key, value in block.items() if key not in (*_ACTED_ON, *_SPOKEN)}
    if rest or unknown:
        extra["other"] = storable_value({**rest, **unknown})
    texts = [f"{key.capitalize()}: {block[key]}" for key in _SPOKEN if isinstance(block.get(key), str) and block[key]]
    message = "\n\n".join(part for part in (spoken, *texts) if part)
    return Step(0, Source.AGENT, message, tool_calls=tuple(_tool_calls(block, index)), extra=extra)


def _find_action(response: str) -> tuple[dict[str, JsonValue], str]:
    """(the JSON object the harness acted on, the prose around it). Loading a skill comes before everything else."""
    whole = _object(response)
    if whole is not None:
        return whole, ""
    blocks = [(start, end, _object(body)) for start, end, body in _iterate_fences(response)]
    known = [(start, end, block) for start, end, block in blocks if block is not None]
    loading = [each for each in known if "load_skill" in each[2]]
    if not known:
        return {}, response
    start, end, block = (loading or known)[0]
    return block, (response[:start] + response[end:]).strip()


def _iterate_fences(text: str) -> Iterator[tuple[int, int, str]]:
    """(start, end, inside) of each fenced block, found line by line."""
    at, opened, inside = 0, -1, 0
    for line in text.splitlines(keepends=True):
        mark = line.strip()
        if opened < 0 and mark in _FENCE_OPENINGS:
            opened, inside = at, at + len(line)
        elif opened >= 0 and mark == "```":
            yield opened, at + len(line), text[inside:at]
            opened = -1
        at += len(line)


def _object(text: str) -> dict[str, JsonValue] | None:
    value = parse_json(text)
    return value if isinstance(value, dict) else None


def _tool_calls(block: Record, index: int) -> Iterator[ToolCall]:
    """Name them as Harbor's own converter does: bash_command and mark_task_complete."""
    for key in ("load_skill", "load_reference"):
        if key in block:
            yield ToolCall(f"episode-{index}-{key}", key, {"name": storable_value(block[key])})
    for number, command in enumerate(read_list(block.get("commands")), start=1):
        arguments = storable_value(command if isinstance(command, dict) else {"keystrokes": command})
        yield ToolCall(f"episode-{index}-command-{number}", "bash_command", arguments)
    if block.get("task_complete") is True:
        yield ToolCall(f"episode-{index}-complete", "mark_task_complete", {})
