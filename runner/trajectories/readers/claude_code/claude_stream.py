"""Claude Code's `--output-format stream-json`: one event a line; no prompt, hardly any times.

Cost and tokens come from the `result` events. With several of them, modelUsage and total_cost_usd are running totals
of one process (the last counts; a lower total began a new process and is added), num_turns and usage are not
(they are summed). Sub-agents share the file; their events carry parent_tool_use_id, and the totals include them.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace

from runner.base.text import clean, storable
from runner.base.types import JsonValue, Source, Step, Usage
from runner.trajectories.log_records import (
    Record,
    pick_fields,
    read_amount,
    read_count,
    read_list,
    read_object,
    read_objects,
    read_text,
    read_usage_parts,
)
from runner.trajectories.problems import Problems
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.claude_code.claude_messages import INPUT_KEYS, MessageSteps
from runner.trajectories.readers.claude_code.claude_subagents import Subagents

EXPECTED = "an event of Claude Code's stream"
# Notices of the program itself, and its dialogue with a controlling program.
WITHOUT_STEP = frozenset(
    "system stream_event rate_limit_event tool_progress tool_use_summary auth_status prompt_suggestion keep_alive"
    " control_request control_response control_cancel_request".split()
)


_OUTCOME = ("subtype", "is_error", "duration_ms", "duration_api_ms", "num_turns", "stop_reason", "total_cost_usd")
_MODEL_KEYS = ("inputTokens", "cacheReadInputTokens", "cacheCreationInputTokens")


def read(
    result: ReadTrajectory, agent_name: str = "claude-code", translate: Callable[[Record], Record] = lambda event: event
) -> Iterator[Step]:
    """Yield the steps of one thread: the main one, or the sub-agent that the call `thread.key` started. `translate`
    converts events of another program with this format to Claude Code's terms."""
    messages, totals, subagents = MessageSteps(), _ClaudeTotals(), Subagents()
    is_main, is_over = result.thread.key == "", False
    result.set_head(agent_name=agent_name)
    for line, raw in result.lines(None if is_main else Problems()):
        event = translate(raw)
        kind, message, thread = event.get("type"), event.get("message"), str(event.get("parent_tool_use_id") or "")
        is_over = kind == "result" or is_over and kind != "assistant"
        totals.has_any |= kind == "result"
        if is_main:
            subagents.see(event, thread, thread)
        if thread != result.thread.key:
            continue
        timestamp = _text(event.get("timestamp"))
        if kind == "assistant" and isinstance(message, Mapping):
            result.fill_head(model=read_text(message.get("model")))
            yield from messages.assistant(message, timestamp)
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
                result.problems.add(f"line {line}", EXPECTED, f"found type {str(kind)[:60]!r}")
            result.count_event(kind, event.get("subtype"))
    yield from messages.flush()
    if is_main:
        _finish(result, messages, totals, is_over)
        subagents.add_to(result)
    elif not totals.has_any:
        result.usage = messages.usage


def _finish(result: ReadTrajectory, messages: MessageSteps, totals: _ClaudeTotals, is_over: bool) -> None:
    """Set the usage. A stream without a result event at its end was cut off, and its totals are a lower bound.
    Without any result, input is counted from the messages, output is a lower bound and the cost unknown."""
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


def _take_init(result: ReadTrajectory, event: Record) -> None:
    session = _text(event.get("session_id"))
    sessions = result.facts.setdefault("session_ids", [])
    if session and session not in sessions:
        sessions.append(session)
    if result.head.session_id is not None:
        return
    result.set_head(
        session_id=session,
        model=_text(event.get("model")),
        agent_version=_text(event.get("claude_code_version")),
        skills_listed=tuple(storable(name) for name in read_list(event.get("skills")) if isinstance(name, str)),
    )
    result.add_extra(**{key: event[key] for key in ("cwd", "permissionMode", "tools") if key in event})


class _ClaudeTotals:
    """The result events of a stream."""

    def __init__(self) -> None:
        self.has_any = False  # in any thread
        self.results: list[dict[str, JsonValue]] = []
        self.turns: int | None = None
        self._models: list[Usage] = []  # per process, running
        self._usage = Usage()

    def add(self, event: Record) -> Iterator[Step]:
        self.results.append(pick_fields(event, _OUTCOME))
        turns = read_count(event.get("num_turns"))
        if turns is not None:
            self.turns = (self.turns or 0) + turns
        self._usage += read_usage_parts(event.get("usage"), INPUT_KEYS, "output_tokens")
        running = _model_usage(event)
        if self._models and not _fell(self._models[-1], running):
            self._models[-1] = running
        else:
            self._models.append(running)
        if event.get("is_error") is True or event.get("subtype") not in (None, "success"):
            text = _text(event.get("result")) or "no text"
            yield Step(0, Source.SYSTEM, clean(f"Ended with {event.get('subtype')}: {text}"), extra={"result": True})

    def usage(self) -> Usage:
        """From modelUsage, which counts helper models and sub-agents, or from the plain usage if that is missing."""
        total = sum(self._models, Usage())
        return replace(self._usage, cost_usd=total.cost_usd) if total.input_tokens is None else total


def _fell(before: Usage, after: Usage) -> bool:
    pairs = ((before.cost_usd, after.cost_usd), (before.input_tokens, after.input_tokens))
    return any(old is not None and new is not None and new < old for old, new in pairs)


def _model_usage(event: Record) -> Usage:
    models = read_objects(list(read_object(event.get("modelUsage")).values()))
    total = sum((read_usage_parts(model, _MODEL_KEYS, "outputTokens") for model in models), Usage())
    return Usage(total.input_tokens, total.cached_tokens, total.output_tokens, read_amount(event.get("total_cost_usd")))


def _text(value: object) -> str | None:
    return read_text(value) or None
