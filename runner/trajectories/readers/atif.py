"""ATIF files (Harbor's trajectory.json), and the earlier trajectory.json of Terminus-2."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from dataclasses import replace

from runner.base.text import clean, storable, storable_value
from runner.base.types import JsonValue, Observation, Source, Step, ToolCall, Usage
from runner.trajectories.atif_values import ATIF_KEY, read_amounts, step_from_json
from runner.trajectories.log_records import Record, parse_json, read_list, read_object, read_objects
from runner.trajectories.readers import ReadTrajectory, Thread
from runner.trajectories.readers.exit_codes import with_failures

# --- Terminus-2's episodes --------------------------------------------------------------------------------------------


_AVAILABLE = re.compile(r"available_skills:[ \t]{0,9}\n?(\[.{2,200000}?\n\])", re.DOTALL)
_FENCE_OPENINGS = ("```", "```json")
_ACTED_ON = ("load_skill", "load_reference", "commands", "task_complete")
_SPOKEN = ("analysis", "explanation", "plan")


def read_terminus(result: ReadTrajectory) -> Iterator[Step]:
    """Yield a user step for the first prompt, then one agent step per response with the next prompt as its result."""
    result.set_head(agent_name="terminus-2")
    pending: Step | None = None
    for index, (_, item) in enumerate(result.parts(), start=1):
        if not isinstance(item, dict):
            result.problems.add(f"episode {index}", "an object with prompt and response", f"found {item!r:.60}")
            continue
        prompt, response = clean(_terminus_text(item.get("prompt"))), clean(_terminus_text(item.get("response")))
        if pending is not None and pending.tool_calls:
            # One result for all calls of the step: the terminal does not separate them.
            call = pending.tool_calls[0].id if len(pending.tool_calls) == 1 else None
            yield replace(pending, observations=(Observation(prompt, call, prompt.startswith("Skill not found")),))
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


def _terminus_text(value: object) -> str:
    return value if isinstance(value, str) else "" if value is None else json.dumps(value, ensure_ascii=False)


def _agent_step(item: Record, index: int, response: str) -> Step:
    block, spoken = _find_action(response)
    extra: dict[str, JsonValue] = {"episode": storable_value(item.get("episode"))}
    rest = {key: value for key, value in item.items() if key not in ("episode", "prompt", "response")}
    unknown = {key: value for key, value in block.items() if key not in (*_ACTED_ON, *_SPOKEN)}
    if rest or unknown:
        extra["other"] = storable_value({**rest, **unknown})
    texts = [f"{key.capitalize()}: {block[key]}" for key in _SPOKEN if isinstance(block.get(key), str) and block[key]]
    message = "\n\n".join(part for part in (spoken, *texts) if part)
    return Step(0, Source.AGENT, message, tool_calls=tuple(_terminus_calls(block, index)), extra=extra)


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


def _terminus_calls(block: Record, index: int) -> Iterator[ToolCall]:
    """Name them as Harbor's own converter does: bash_command and mark_task_complete."""
    for key in ("load_skill", "load_reference"):
        if key in block:
            yield ToolCall(f"episode-{index}-{key}", key, {"name": storable_value(block[key])})
    for number, command in enumerate(read_list(block.get("commands")), start=1):
        arguments = storable_value(command if isinstance(command, dict) else {"keystrokes": command})
        yield ToolCall(f"episode-{index}-command-{number}", "bash_command", arguments)
    if block.get("task_complete") is True:
        yield ToolCall(f"episode-{index}-complete", "mark_task_complete", {})


# --- what the converter of Claude Code's logs writes twice ------------------------------------------------------------


_STDOUT = "\n\n[stdout]\n"
_METADATA = "\n\n[metadata] "
MAX_MARKS = 50
CHARS_OF_A_TOKEN = 16  # at most, over a whole message
_ERROR = "[error] tool reported failure"


class CallMetrics:
    """Removes the metrics from steps that repeat those of the step before."""

    def __init__(self) -> None:
        self.repeats = 0
        self._last: tuple[object, ...] | None = None

    def once(self, step: Step) -> Step:
        if step.source is not Source.AGENT or step.usage is None:
            if step.source is not Source.AGENT:
                self._last = None
            return step
        extra = dict(step.extra or {})
        rest = dict(extra.get(ATIF_KEY) or {})
        metrics = (step.usage, json.dumps(rest.get("metrics"), sort_keys=True, default=str), step.model)
        if metrics != self._last:
            self._last = metrics
            return step
        self.repeats += 1
        rest.pop("metrics", None)
        rest["metrics_repeated"] = True
        return replace(step, usage=None, extra={**extra, ATIF_KEY: rest})


def counted_in_part(step: Step, *, is_claude: bool) -> Usage | None:
    """Return the reliable part of a step's metrics, for a sum.

    A call that wrote something took output tokens, so 0 was not measured. The converter's metrics come from Claude
    Code's session logs. These mostly hold the count at the start of a message's stream, and so do the costs computed
    from it. Text too long for its token count shows such a count.
    """
    usage = step.usage
    if usage is None or usage.output_tokens is None or (usage.output_tokens and not is_claude):
        return usage
    written = len(step.message) + len(step.reasoning or "") + sum(len(str(call.arguments)) for call in step.tool_calls)
    if not written or usage.output_tokens and not usage.output_tokens * CHARS_OF_A_TOKEN < written:
        return usage
    bound, cost = usage.output_tokens or None, usage.cost_usd
    return replace(usage, output_tokens=None, cost_usd=None, output_at_least=bound, priced_usd=cost)


def without_copies(step: Step) -> Step:
    """Remove the converter's copies of what the step holds elsewhere."""
    if not step.observations:
        return step
    extra = dict(step.extra or {})
    metadata = extra.get("tool_result_metadata")
    observations = tuple(_tidy(observation, metadata) for observation in step.observations)
    if extra.get("metadata") == metadata:
        extra.pop("metadata", None)
    if len(step.tool_calls) == 1:
        call = step.tool_calls[0]
        if extra.get("raw_arguments") == dict(call.arguments):
            extra.pop("raw_arguments", None)
        if extra.get("tool_use_name") == call.name:
            extra.pop("tool_use_name", None)
    is_error = read_object(read_object(metadata).get("raw_tool_result")).get("is_error")
    if isinstance(metadata, dict):
        extra["tool_result_metadata"] = _without_text(metadata, {item.content.strip() for item in observations})
    if extra.get("tool_result_is_error") is True or is_error is True:
        observations = tuple(replace(observation, is_error=True) for observation in observations)
    return replace(step, observations=observations, extra=extra or None)


def _tidy(observation: Observation, metadata: JsonValue) -> Observation:
    content, is_error = observation.content, observation.is_error
    if content.rstrip().endswith(_ERROR):
        content, is_error = content.rstrip().removesuffix(_ERROR).rstrip("\n"), True
    head, mark, tail = content.rpartition(_METADATA)
    if mark and isinstance(metadata, dict) and _is_copy(tail, metadata.get("tool_use_result")):
        content = head
    head, mark, tail = content.partition(_STDOUT)
    for _ in range(MAX_MARKS if mark else 0):  # the output may contain the mark: the copy makes both sides equal
        if head.strip() == tail.strip():
            content = head
            break
        more, mark, tail = tail.partition(_STDOUT)
        if not mark:
            break
        head = head + _STDOUT + more
    return replace(observation, content=content, is_error=is_error)


def _is_copy(text: str, result: JsonValue) -> bool:
    try:
        return bool(json.loads(text) == result)
    except (ValueError, RecursionError):
        return False


def _without_text(metadata: dict[str, JsonValue], shown: set[str]) -> dict[str, JsonValue]:
    """Remove texts that the content shows, two levels down: tool_use_result.stdout, raw_tool_result.content."""

    def is_shown(value: JsonValue) -> bool:
        return isinstance(value, str) and bool(value.strip()) and value.strip() in shown

    kept = {key: value for key, value in metadata.items() if not is_shown(value)}
    for key, value in kept.items():
        if isinstance(value, dict):
            kept[key] = {name: item for name, item in value.items() if not is_shown(item)}
    return kept


# --- ATIF -------------------------------------------------------------------------------------------------------------


_TOTALS = {
    "total_prompt_tokens": "input_tokens",
    "total_cached_tokens": "cached_tokens",
    "total_completion_tokens": "output_tokens",
    "total_cost_usd": "cost_usd",
}
_STREAMED, _NESTED = frozenset({"steps"}), frozenset({"subagent_trajectories"})
MAX_REFERENCES = 1_000
MAX_SUBAGENTS = 1_000


def read_atif(result: ReadTrajectory) -> Iterator[Step]:
    """Yield steps one by one. If no step has token counts, usage is that of the file's final metrics."""
    counted, number, total = CallMetrics(), 0, Usage()
    for key, value in result.parts(streamed=_STREAMED, nested=_NESTED):
        if key == "subagent_trajectories" and isinstance(value, int):
            _add_subagent(result, value)
        elif key != "steps":
            _take(result, key, value)
        else:
            number += 1
            step = _clean_step(step_from_json(value, number, result.problems))
            is_claude = result.head.agent_name == "claude-code"
            if is_claude:
                step = counted.once(without_copies(step))
            step = with_failures(step, result.head.agent_name)
            usage = counted_in_part(step, is_claude=is_claude)
            if usage is not None and not step.is_copied_context:
                total += usage
            if usage is not step.usage and usage != step.usage:
                step = replace(step, usage=usage and replace(usage, priced_usd=None, output_at_least=None))
            _note(result, step)
            yield step
    if not number:
        result.problems.add("steps", "a list with at least one step", "found none")
    if counted.repeats:
        result.facts["steps_with_repeated_metrics"] = counted.repeats
    is_counted, stated = total != Usage(), result.reported or Usage()
    if not is_counted:  # totals of 0 are written by programs that do not count
        total = replace(stated, input_tokens=stated.input_tokens or None, output_tokens=stated.output_tokens or None)
    result.usage = total
    result.facts["usage_from"] = "steps" if is_counted else "final metrics" if result.reported else "nothing"


def _take(result: ReadTrajectory, key: str, value: object) -> None:
    """Add one top-level key to the head."""
    if value is None:
        return
    if key == "schema_version":
        result.set_head(source_format=storable(str(value))[:100])
    elif key == "session_id":
        result.set_head(session_id=storable(str(value)))
    elif key == "agent" and isinstance(value, Mapping):
        names = {"name": "agent_name", "version": "agent_version", "model_name": "model"}
        found = {names[key]: storable(str(value[key])) for key in names if value.get(key) is not None}
        result.set_head(**found)
        rest = {key: item for key, item in value.items() if key not in names and item is not None}
        if rest:
            result.add_extra(agent=rest)
    elif key == "final_metrics" and isinstance(value, Mapping):
        usage, _ = read_amounts(value, _TOTALS, "final_metrics", "", result.problems)
        result.reported = None if usage == Usage() else usage
        result.facts["final_metrics"] = storable_value(value)
    else:
        result.add_extra(**{key: value})


def _note(result: ReadTrajectory, step: Step) -> None:
    """Keep what a step shows of the whole trajectory: listed skills, and sub-agents."""
    if step.number == 1 and step.source is Source.USER:
        listed = read_listed_skills(step.message)
        if listed:
            result.set_head(skills_listed=listed)
    for observation in step.observations:
        if observation.extra is None:  # true of most
            continue
        references = observation.extra.get("subagent_trajectory_ref")
        if isinstance(references, Mapping):
            references = [references]
        if not isinstance(references, list):
            continue
        known = (result.head.extra or {}).get("subagent_trajectory_refs", [])
        new = [{**item, "step": step.number} for item in references if isinstance(item, Mapping)]
        if len(known) + len(new) > MAX_REFERENCES:
            result.problems.add(f"step {step.number}", f"at most {MAX_REFERENCES:,} sub-agents", "the rest is left out")
        else:
            result.add_extra(subagent_trajectory_refs=[*known, *new])


def _add_subagent(result: ReadTrajectory, index: int) -> None:
    if index >= MAX_SUBAGENTS or len(result.thread.inside) >= 8:
        result.problems.add(
            "subagent_trajectories", f"at most {MAX_SUBAGENTS:,}, nested 8 deep", "the rest is left out"
        )
        return
    prefix = "subagent" if result.head.name == "main" else result.head.name
    inside = (*result.thread.inside, ("subagent_trajectories", index))
    result.subagent(f"{prefix}-{index + 1}", result.head.name, Thread(inside=inside))


def _clean_step(step: Step) -> Step:
    """Clean every text to what a person would have seen (see `clean`). Returns the same object if nothing changes."""
    message, reasoning = clean(step.message), step.reasoning and clean(step.reasoning)
    observations = step.observations
    for item in observations:
        if clean(item.content) is not item.content:
            observations = tuple(replace(each, content=clean(each.content)) for each in observations)
            break
    if message is step.message and reasoning is step.reasoning and observations is step.observations:
        return step
    return replace(step, message=message, reasoning=reasoning, observations=observations)
