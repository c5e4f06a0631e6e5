"""A whole attempt as one ATIF document (Harbor's trajectory.json, ATIF-v1.8): the main trajectory,
sub-agents inside it."""

from __future__ import annotations

import json
from collections.abc import Sequence

from runner.base.text import cut
from runner.base.types import JsonValue, Trajectory, TrajectoryHead, Usage
from runner.trajectories.atif_values import ATIF_VERSION, step_to_json

MAX_BYTES = 4 * 1024 * 1024  # of a document for a program that reads many
ROOM = (1_000_000, 100_000, 10_000, 1_000, 200)  # characters of each text, tried one after the other


def atif_document(trajectories: Sequence[Trajectory]) -> dict[str, JsonValue]:
    """Make a valid ATIF document of the first trajectory, with the others embedded as its sub-agents.

    ValueError for an attempt without a step: ATIF has none.
    """
    if not trajectories or not trajectories[0].steps:
        raise ValueError("a trajectory of at least one step is wanted")
    main, *others = trajectories
    document = _document(main)
    inside: list[JsonValue] = [
        {"trajectory_id": other.head.name, **_document(other)} for other in others if other.steps
    ]
    return {**document, "subagent_trajectories": inside} if inside else document


def write_bounded(trajectories: Sequence[Trajectory]) -> bytes:
    """Write the document as a file of at most MAX_BYTES: long texts keep their beginning and end, as much of each as
    fits. Empty without a step, or with too many."""
    if not trajectories or not trajectories[0].steps:
        return b""
    document = atif_document(trajectories)
    for room in ROOM:
        written = json.dumps(_cut_texts(document, room), ensure_ascii=False).encode() + b"\n"
        if len(written) <= MAX_BYTES:
            return written
    return b""


def _cut_texts(value: JsonValue, room: int) -> JsonValue:
    if isinstance(value, str):
        return cut(value, room)
    if isinstance(value, dict):
        return {name: _cut_texts(item, room) for name, item in value.items()}
    return [_cut_texts(item, room) for item in value] if isinstance(value, list) else value


def _document(trajectory: Trajectory) -> dict[str, JsonValue]:
    frame = document_frame(trajectory.head, trajectory.usage, len(trajectory.steps))
    return {**frame, "steps": [step_to_json(step) for step in trajectory.steps]}


def document_frame(head: TrajectoryHead, usage: Usage, steps_total: int) -> dict[str, JsonValue]:
    """Everything of a document but its steps, which the caller may write one by one."""
    totals = {
        "total_prompt_tokens": usage.input_tokens,
        "total_cached_tokens": usage.cached_tokens,
        "total_completion_tokens": usage.output_tokens,
        "total_cost_usd": usage.cost_usd,
    }
    known = {name: value for name, value in totals.items() if value is not None}
    agent = {"name": head.agent_name or "unknown", "version": head.agent_version or "unknown"}
    extra = {**(head.extra or {}), "source_format": head.source_format, "skills_listed": list(head.skills_listed)}
    return {
        "schema_version": ATIF_VERSION,
        **({"session_id": head.session_id} if head.session_id else {}),
        "agent": {**agent, **({"model_name": head.model} if head.model else {})},
        "final_metrics": {**known, "total_steps": steps_total},
        "extra": extra,
    }
