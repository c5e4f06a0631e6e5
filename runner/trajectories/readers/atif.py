"""ATIF files (Harbor's trajectory.json), versions 1.0 to 1.8, of any size.

Top-level keys may come in any order, so the head is complete only after the last step. Names of files that belong to
the trajectory are in head.extra: `continued_trajectory_ref`, and `subagent_trajectory_refs` with their steps.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from runner.base.text import clean, storable, storable_value
from runner.base.types import Source, Step, Usage
from runner.trajectories.atif_values import read_amounts, step_from_json
from runner.trajectories.log_records import Record
from runner.trajectories.readers import ReadTrajectory, Thread
from runner.trajectories.readers.claude_code.claude_atif import CallMetrics, counted_in_part, without_copies
from runner.trajectories.readers.exit_codes import with_failures
from runner.trajectories.readers.terminus import read_listed_skills

_TOTALS = {
    "total_prompt_tokens": "input_tokens",
    "total_cached_tokens": "cached_tokens",
    "total_completion_tokens": "output_tokens",
    "total_cost_usd": "cost_usd",
}
_STREAMED, _NESTED = frozenset({"steps"}), frozenset({"subagent_trajectories"})
MAX_REFERENCES = 1_000
MAX_SUBAGENTS = 1_000


def read(result: ReadTrajectory) -> Iterator[Step]:
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
            if usage != step.usage:
                step = replace(step, usage=usage and replace(usage, priced_usd=None, output_at_least=None))
            _note(result, step)
            yield step
    if not number:
        result.problems.add("steps", "a list with at least one step", "found none")
    if counted.repeats:
        result.facts["steps_with_repeated_metrics"] = counted.repeats
    is_counted = total != Usage()
    result.usage = total if is_counted else _drop_zero_totals(result.reported or Usage())
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
        _take_agent(result, value)
    elif key == "final_metrics" and isinstance(value, Mapping):
        result.reported = _totals(result, value)
        result.facts["final_metrics"] = storable_value(value)
    else:
        result.add_extra(**{key: value})


def _take_agent(result: ReadTrajectory, agent: Record) -> None:
    names = {"name": "agent_name", "version": "agent_version", "model_name": "model"}
    found = {names[key]: storable(str(agent[key])) for key in names if agent.get(key) is not None}
    result.set_head(**found)
    rest = {key: value for key, value in agent.items() if key not in names and value is not None}
    if rest:
        result.add_extra(agent=rest)


def _totals(result: ReadTrajectory, metrics: Record) -> Usage | None:
    usage, _ = read_amounts(metrics, _TOTALS, "final_metrics", "", result.problems)
    return None if usage == Usage() else usage


def _drop_zero_totals(reported: Usage) -> Usage:
    """Drop totals of 0: programs write them that do not count."""
    return replace(reported, input_tokens=reported.input_tokens or None, output_tokens=reported.output_tokens or None)


def _note(result: ReadTrajectory, step: Step) -> None:
    """Keep what a step shows of the whole trajectory: listed skills, and sub-agents."""
    if step.number == 1 and step.source is Source.USER:
        listed = read_listed_skills(step.message)
        if listed:
            result.set_head(skills_listed=listed)
    for observation in step.observations:
        references = (observation.extra or {}).get("subagent_trajectory_ref")
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
