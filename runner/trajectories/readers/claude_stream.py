"""Claude Code's `--output-format stream-json`: one event a line; no prompt, hardly any times.

Cost and tokens come from the `result` events. With several of them, modelUsage and total_cost_usd are running totals
of one process (the last counts; a total that fell began a new process and is added), num_turns and usage are not
(they are summed). Sub-agents share the file; their events carry parent_tool_use_id, and the totals include them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from runner.base.text import clean, storable, storable_value
from runner.base.types import Source, Step, Usage
from runner.trajectories.problems import Problems
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.claude_messages import MessageSteps, number
from runner.trajectories.readers.claude_subagents import Subagents
from runner.trajectories.readers.line_streams import json_lines

# What the program says about itself, and what a program that drives it asks and is asked.
WITHOUT_STEP = frozenset(
    "system stream_event rate_limit_event tool_progress tool_use_summary auth_status prompt_suggestion keep_alive"
    " control_request control_response control_cancel_request".split()
)


def read(
    result: ReadTrajectory,
    agent_name: str = "claude-code",
    translate: Callable[[dict[str, Any]], dict[str, Any]] = lambda event: event,
) -> Iterator[Step]:
    """The steps of one thread: the main one, or the sub-agent that the call `thread.key` started. `translate` puts an event
    of another program that prints this format into Claude Code's terms."""
    messages, totals, subagents = MessageSteps(), _ClaudeTotals(), Subagents()
    has_totals = False
    is_main, is_over = result.thread.key == "", False
    result.set_head(agent_name=agent_name)
    with result.open_binary() as stream:
        for line, told in json_lines(stream, result.problems if is_main else Problems()):
            event = translate(told)
            thread = str(event.get("parent_tool_use_id") or "")
            is_over = event.get("type") == "result" or is_over and event.get("type") != "assistant"
            has_totals |= event.get("type") == "result"
            if is_main:
                subagents.see(event, thread, thread)
            if thread != result.thread.key:
                continue
            message = event.get("message")
            kind, timestamp = event.get("type"), _text(event.get("timestamp"))
            if kind == "assistant" and isinstance(message, Mapping):
                if result.head.model is None and isinstance(message.get("model"), str):
                    result.set_head(model=storable(message["model"]))
                yield from messages.assistant(message, timestamp, {})
            elif kind == "user" and isinstance(message, Mapping):
                extra = {"synthetic": True} if event.get("isSynthetic") is True else {}
                yield from messages.user(message, timestamp, extra, event.get("tool_use_result"))
            elif kind == "result":
                yield from messages.flush()
                yield from totals.add(event)
            elif kind == "system" and event.get("subtype") == "init":
                _take_init(result, event)
            else:
                if is_main and str(kind) not in WITHOUT_STEP:
                    result.problems.add(
                        f"line {line}", "an event of Claude Code's stream", f"found type {str(kind)[:60]!r}"
                    )
                result.count("events_without_step", f"{kind}/{event.get('subtype', '')}"[:100].rstrip("/"))
    yield from messages.flush()
    if is_main:
        _finish(result, messages, totals, is_over)
        subagents.add_to(result)
    elif not has_totals:
        result.usage = messages.usage


def _finish(result: ReadTrajectory, messages: MessageSteps, totals: _ClaudeTotals, is_over: bool) -> None:
    """Without a result event at its end the stream was cut off: what the events tell is a lower bound; without any,
    input is as the messages tell it, output a lower bound and the cost unknown."""
    if totals.results:
        result.reported, result.turns = totals.usage(), totals.turns
        result.usage = totals.usage() if is_over else totals.usage().in_part()
        result.facts["results"] = totals.results
    else:
        result.usage = messages.usage
    if not is_over:
        result.facts["cut_off"] = True
    result.facts["usage_from"] = "result events" if totals.results else "messages"
    result.facts["messages"] = messages.messages


def _take_init(result: ReadTrajectory, event: Mapping[str, Any]) -> None:
    session = _text(event.get("session_id"))
    sessions = result.facts.setdefault("session_ids", [])
    if session and session not in sessions:
        sessions.append(session)
    if result.head.session_id is not None:
        return
    skills = event.get("skills")
    result.set_head(
        session_id=session,
        model=_text(event.get("model")),
        agent_version=_text(event.get("claude_code_version")),
        skills_listed=tuple(storable(name) for name in skills if isinstance(name, str))
        if isinstance(skills, list)
        else (),
    )
    result.add_extra(**{key: storable_value(event[key]) for key in ("cwd", "permissionMode", "tools") if key in event})


class _ClaudeTotals:
    """The result events of a stream."""

    def __init__(self) -> None:
        self.results: list[dict[str, Any]] = []
        self.turns: int | None = None
        self._models: list[Usage] = []  # per process, running
        self._usage = Usage()

    def add(self, event: Mapping[str, Any]) -> Iterator[Step]:
        keys = ("subtype", "is_error", "duration_ms", "duration_api_ms", "num_turns", "stop_reason", "total_cost_usd")
        self.results.append({key: storable_value(event[key]) for key in keys if event.get(key) is not None})
        turns = number(event.get("num_turns"))
        if turns is not None:
            self.turns = (self.turns or 0) + turns
        self._usage += _plain_usage(event.get("usage"))
        running = _model_usage(event)
        if self._models and not _fell(self._models[-1], running):
            self._models[-1] = running
        else:
            self._models.append(running)
        if event.get("is_error") is True or event.get("subtype") not in (None, "success"):
            text = _text(event.get("result")) or "no text"
            yield Step(0, Source.SYSTEM, clean(f"Ended with {event.get('subtype')}: {text}"), extra={"result": True})

    def usage(self) -> Usage:
        """From modelUsage, which counts helper models and sub-agents; from the plain usage where that is missing."""
        total = Usage()
        for running in self._models:
            total += running
        if total.input_tokens is None:
            plain = self._usage
            return Usage(plain.input_tokens, plain.cached_tokens, plain.output_tokens, total.cost_usd)
        return total


def _fell(before: Usage, after: Usage) -> bool:
    pairs = ((before.cost_usd, after.cost_usd), (before.input_tokens, after.input_tokens))
    return any(old is not None and new is not None and new < old for old, new in pairs)


def _model_usage(event: Mapping[str, object]) -> Usage:
    models = event.get("modelUsage")
    total = Usage()
    for model in models.values() if isinstance(models, Mapping) else ():
        if isinstance(model, Mapping):
            total += _counts(model, "inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens", "outputTokens")
    cost = event.get("total_cost_usd")
    is_cost = isinstance(cost, int | float) and not isinstance(cost, bool) and cost >= 0
    return Usage(total.input_tokens, total.cached_tokens, total.output_tokens, float(cost) if is_cost else None)  # type: ignore[arg-type]


def _plain_usage(raw: object) -> Usage:
    if not isinstance(raw, Mapping):
        return Usage()
    return _counts(raw, "input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens", "output_tokens")


def _counts(raw: Mapping[str, object], fresh: str, read_: str, written: str, output: str) -> Usage:
    parts = [number(raw.get(key)) for key in (fresh, read_, written)]
    known = [part for part in parts if part is not None]
    return Usage(sum(known) if known else None, parts[1], number(raw.get(output)))


def _text(value: Any) -> str | None:
    return storable(value) if isinstance(value, str) and value else None
