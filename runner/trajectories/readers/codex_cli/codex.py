"""Codex' JSON events (`codex exec --json`): threads, turns and items; no prompt and no times.

Items start and complete out of order or never. Steps are in the order of their items' start, and an item that never
completed is a call without result, marked `unfinished`. A completed turn counts the tokens of its whole thread so far,
also after `codex exec resume`: the last one of a thread counts. With a turn that did not complete it is a lower bound.
"""

from __future__ import annotations

import json
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace

from runner.base.text import clean, storable, storable_value
from runner.base.types import Observation, Source, Step, ToolCall, Usage
from runner.trajectories.atif_values import content_text
from runner.trajectories.images import select_images
from runner.trajectories.log_records import Record, pick_fields, read_arguments, read_usage
from runner.trajectories.readers import ReadTrajectory

TOKEN_KEYS = ("input_tokens", "cached_input_tokens", "output_tokens")
EXPECTED = "a thread, turn or item event"
MAX_WAITING = 1_000  # open items; beyond it the oldest is given as it is


@dataclass
class _CodexItem:
    """One item on its way to a step; `reasoning` is the thinking before it."""

    id: str
    item: Record
    is_complete: bool
    reasoning: str | None = None


def read(result: ReadTrajectory) -> Iterator[Step]:
    """Yield steps in order of the items' start. The reasoning before an item becomes that step's reasoning."""
    items, totals, turns, is_open = _Items(), _CodexTotals(), 0, False
    result.set_head(agent_name="codex")
    for line, event in result.lines():
        kind, item = str(event.get("type")), event.get("item")
        if kind.startswith("item.") and isinstance(item, Mapping):
            yield from items.add(item, is_complete=kind == "item.completed")
        elif kind == "turn.completed":
            totals.add(read_usage(event.get("usage"), *TOKEN_KEYS))
            turns, is_open = turns + 1, False
        elif kind in ("turn.failed", "error"):
            yield from items.flush()
            error = event.get("error")
            text = error.get("message") if isinstance(error, Mapping) else event.get("message")
            yield Step(0, Source.SYSTEM, clean(str(text or kind)), extra={"event": kind})
        elif kind == "thread.started":
            thread = storable(str(event.get("thread_id") or "")) or None
            result.set_head(session_id=thread)
            totals.begin(thread)
        elif kind == "turn.started":
            is_open = True
        else:
            result.report_event(line, kind, EXPECTED)
    yield from items.flush()
    result.usage = totals.usage.in_part() if is_open else totals.usage
    result.turns = None  # one turn is a whole task, not a model turn
    result.facts.update(completed_turns=turns, usage_from="completed turns" if turns else "nothing")
    if is_open or not turns:
        result.facts["cut_off"] = True


class _CodexTotals:
    """Running totals by thread. A lower total means that counting began again."""

    def __init__(self) -> None:
        self._thread: str | None = None
        self._ended = Usage()
        self._running: dict[str | None, Usage] = {}

    def begin(self, thread: str | None) -> None:
        self._thread = thread

    def add(self, running: Usage) -> None:
        before = self._running.get(self._thread)
        if before is not None and (running.input_tokens or 0) < (before.input_tokens or 0):
            self._ended += before
        self._running[self._thread] = running

    @property
    def usage(self) -> Usage:
        return sum(self._running.values(), self._ended)


class _Items:
    def __init__(self) -> None:
        self._waiting: deque[_CodexItem] = deque()
        self._by_id: dict[str, _CodexItem] = {}
        self._given: dict[str, None] = {}  # ids given before they completed
        self._thoughts: list[str] = []

    def add(self, item: Record, is_complete: bool) -> Iterator[Step]:
        identifier = storable(str(item.get("id")))
        if item.get("type") == "reasoning":
            if is_complete and len(self._thoughts) > MAX_WAITING:
                yield Step(0, Source.AGENT, reasoning=self._take_thoughts())
            if is_complete:
                self._thoughts.append(clean(str(item.get("text") or "")))
            return
        known = self._by_id.get(identifier)
        if known is not None:
            known.item, known.is_complete = item, is_complete
            if is_complete:
                del self._by_id[identifier]
        elif is_complete and identifier in self._given:
            del self._given[identifier]
            late = _step(_CodexItem(identifier, item, True))
            yield Step(0, Source.SYSTEM, observations=late.observations, extra={"late_result": True})
        else:
            self._start(_CodexItem(identifier, item, is_complete))
        yield from self._ready()

    def _start(self, item: _CodexItem) -> None:
        item.reasoning = self._take_thoughts()
        self._waiting.append(item)
        if not item.is_complete:
            self._by_id[item.id] = item

    def _ready(self) -> Iterator[Step]:
        while self._waiting and (self._waiting[0].is_complete or len(self._waiting) > MAX_WAITING):
            item = self._waiting.popleft()
            if not item.is_complete:
                self._by_id.pop(item.id, None)
                self._given[item.id] = None
            yield _step(item)

    def flush(self) -> Iterator[Step]:
        """Yield every open item, finished or not, and thoughts that led to nothing more."""
        while self._waiting:
            yield _step(self._waiting.popleft())
        self._by_id.clear()
        left = self._take_thoughts()
        if left is not None:
            yield Step(0, Source.AGENT, reasoning=left)

    def _take_thoughts(self) -> str | None:
        thoughts = "\n\n".join(self._thoughts)
        self._thoughts = []
        return thoughts or None


def _step(item: _CodexItem) -> Step:
    step = _CONVERTERS.get(str(item.item.get("type")), _other)(item)
    extra = dict(step.extra or {}) | ({} if item.is_complete else {"unfinished": True})
    return replace(step, reasoning=item.reasoning, extra=extra or None)


def _message(item: _CodexItem) -> Step:
    return Step(0, Source.AGENT, clean(str(item.item.get("text") or "")))


def _error(item: _CodexItem) -> Step:
    return Step(0, Source.SYSTEM, clean(str(item.item.get("message") or "")), extra={"event": "error"})


def _command(item: _CodexItem) -> Step:
    raw = item.item
    call = ToolCall(item.id, "shell", {"command": storable_value(raw.get("command"))})
    output, code = clean(str(raw.get("aggregated_output") or "")), raw.get("exit_code")
    facts = pick_fields(raw, ("exit_code", "status"))
    if not item.is_complete and not output:
        return Step(0, Source.AGENT, tool_calls=(call,))
    failed = code not in (0, None) or raw.get("status") == "failed"
    return Step(
        0, Source.AGENT, tool_calls=(call,), observations=(Observation(output, item.id, failed, facts or None),)
    )


def _file_change(item: _CodexItem) -> Step:
    call = ToolCall(item.id, "apply_patch", {"changes": storable_value(item.item.get("changes"))})
    return Step(0, Source.AGENT, tool_calls=(call,), observations=_outcome(item))


def _tool(item: _CodexItem) -> Step:
    """mcp_tool_call: server, tool, arguments, result or error."""
    raw = item.item
    name = ".".join(storable(str(raw[key])) for key in ("server", "tool") if raw.get(key)) or "mcp_tool_call"
    call = ToolCall(item.id, name, read_arguments(raw.get("arguments")))
    return Step(0, Source.AGENT, tool_calls=(call,), observations=_outcome(item))


def _other(item: _CodexItem) -> Step:
    """web_search, todo_list and future kinds: a call named by its type."""
    known = ("id", "type", "status", "result", "error")
    arguments = {storable(str(key)): storable_value(value) for key, value in item.item.items() if key not in known}
    call = ToolCall(item.id, storable(str(item.item.get("type") or "unknown")), arguments)
    return Step(0, Source.AGENT, tool_calls=(call,), observations=_outcome(item))


def _outcome(item: _CodexItem) -> tuple[Observation, ...]:
    raw = item.item
    if not item.is_complete:
        return ()
    outcome = raw.get("error") or raw.get("result") or raw.get("status")
    if outcome is None:
        return ()
    failed = bool(raw.get("error")) or raw.get("status") == "failed"
    parts = content_text(outcome["content"])[1] if isinstance(outcome, Mapping) and "content" in outcome else None
    return (Observation(clean(_result_text(outcome)), item.id, failed, select_images(parts) or None),)


def _result_text(outcome: object) -> str:
    """Return an error's message, the text parts of an MCP server's answer, or JSON of anything else."""
    if isinstance(outcome, Mapping) and "message" in outcome:
        outcome = outcome["message"]
    elif isinstance(outcome, Mapping) and isinstance(outcome.get("content"), list):
        outcome = content_text(outcome["content"])[0] or outcome
    return outcome if isinstance(outcome, str) else json.dumps(outcome, ensure_ascii=False, default=str)


_CONVERTERS = {
    "agent_message": _message,
    "error": _error,
    "command_execution": _command,
    "file_change": _file_change,
    "mcp_tool_call": _tool,
}
