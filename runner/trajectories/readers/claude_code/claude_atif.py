"""Reverts what Harbor's early Claude Code converter (ATIF-v1.2) did to trajectories.

It wrote one step per content block, with three kinds of repetition. Only these are removed:
- the metrics of one model call, repeated on each of its steps: only the first keeps them;
- a copy of the output after "[stdout]", and of the structured result after "[metadata]", at the end of the content;
  "[error] tool reported failure" becomes is_error;
- in the step's extra: `metadata` (equal to tool_result_metadata), `raw_arguments` (equal to the arguments),
  `tool_use_name` (equal to the tool's name), and the text of results that the content already holds.

Structured data that exists nowhere else (a patch, an original file) is kept.
"""

from __future__ import annotations

import json
from dataclasses import replace

from runner.base.types import JsonValue, Observation, Source, Step, Usage
from runner.trajectories.atif_values import ATIF_KEY
from runner.trajectories.log_records import read_object

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
    if isinstance(metadata, dict):
        extra["tool_result_metadata"] = _without_text(metadata, {item.content.strip() for item in observations})
    if extra.get("tool_result_is_error") is True or _has_failed(metadata):
        observations = tuple(replace(observation, is_error=True) for observation in observations)
    return replace(step, observations=observations, extra=extra or None)


def _has_failed(metadata: JsonValue) -> bool:
    return read_object(read_object(metadata).get("raw_tool_result")).get("is_error") is True


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
    kept: dict[str, JsonValue] = {}
    for key, value in metadata.items():
        if isinstance(value, dict):
            value = {name: item for name, item in value.items() if not _is_shown(item, shown)}
        elif _is_shown(value, shown):
            continue
        kept[key] = value
    return kept


def _is_shown(value: JsonValue, shown: set[str]) -> bool:
    return isinstance(value, str) and bool(value.strip()) and value.strip() in shown
