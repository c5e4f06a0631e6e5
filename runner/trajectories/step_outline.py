"""One small row per step, so that a list of a thousand steps never needs their texts."""

from __future__ import annotations

from collections.abc import Iterator

from runner.base.types import JsonValue, Step, ToolCall
from runner.trajectories.readers.skill_use import step_uses

MAX_TEXT_CHARS = 120
MAX_TOOLS = 8


def outline_row(step: Step) -> dict[str, JsonValue]:
    """A JSON object: n, source, text (first 120 characters), and if not empty: tools (first 8 names), calls (number
    of tool calls), error, copied, skills ({slug: [kinds]}), tokens ({input, output}), time."""
    row: dict[str, JsonValue] = {"n": step.number, "source": str(step.source), "text": first_text(step)}
    if step.tool_calls:
        row["tools"] = [call.name[:MAX_TEXT_CHARS] for call in step.tool_calls[:MAX_TOOLS]]
        row["calls"] = len(step.tool_calls)
    if any(observation.is_error for observation in step.observations):
        row["error"] = True
    if step.is_copied_context:
        row["copied"] = True
    uses: dict[str, list[str]] = {}
    for use in step_uses(step, mounted=None):
        uses.setdefault(use.skill, []).append(str(use.kind))
    if uses:
        row["skills"] = {slug: [*kinds] for slug, kinds in uses.items()}
    if step.usage is not None:
        counts = {"input": step.usage.input_tokens, "output": step.usage.output_tokens}
        row["tokens"] = {key: count for key, count in counts.items() if count is not None}
    if step.timestamp is not None:
        row["time"] = step.timestamp
    return row


def first_text(step: Step) -> str:
    """A step in a line: the message, else the subject of the first tool call, else reasoning or the first result."""
    for candidate in _candidates(step):
        text = " ".join(candidate[: MAX_TEXT_CHARS * 4].split())
        if text:
            return text if len(text) <= MAX_TEXT_CHARS else text[: MAX_TEXT_CHARS - 1] + "\u2026"
    return ""


def _candidates(step: Step) -> Iterator[str]:
    yield step.message
    yield from map(subject, step.tool_calls)
    yield step.reasoning or ""
    yield from (observation.content for observation in step.observations)


def subject(call: ToolCall) -> str:
    """The subject of a call: the first of its arguments, by name, that is a text."""
    values = (value for _, value in sorted(call.arguments.items()) if isinstance(value, str) and value.strip())
    return next(values, "")
