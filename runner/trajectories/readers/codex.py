"""Codex' logs: the events of `codex exec --json`, and its session logs (sessions/**/rollout-*.jsonl).

Events are threads, turns and items, with no prompt and no times. Items start and complete out of order or never. Steps
are in the order of their items' start, and an item that never completed is a call without result, marked
`unfinished`. A completed turn counts the tokens of its whole thread so far, also after `codex exec resume`: the last
one of a thread counts. With a turn that did not complete it is a lower bound.

A session log has {timestamp, type, payload} a line, with prompt and times. Steps come from `response_item` lines:
what was sent to the model and what it returned. `event_msg` lines repeat them for the screen; of those only
`token_count` is used: its total_token_usage is a running total. Up to September 2025 the first line was the session's
head ({id, timestamp, instructions}) and the items followed without the wrapper and without times, with
`{"record_type": "state"}` between them. The first Codex, written in TypeScript, put head and items into one object
({session, items}).
"""

from __future__ import annotations

import json
import re
from collections import deque
from collections.abc import Iterator, Mapping
from dataclasses import dataclass

from runner.base.text import clean, storable, storable_value
from runner.base.types import JsonValue, Observation, Source, Step, ToolCall, Usage
from runner.trajectories.atif_values import content_text
from runner.trajectories.images import select_images
from runner.trajectories.log_records import (
    Record,
    parse_json,
    pick_fields,
    read_arguments,
    read_count,
    read_object,
    read_text,
    read_usage,
)
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.exit_codes import has_codex_failed
from runner.trajectories.readers.messages import (
    CompactionMarks,
    MessageSteps,
    call_block,
    compaction_mark,
    result_block,
)

# --- events -----------------------------------------------------------------------------------------------------------


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


def read_events(result: ReadTrajectory) -> Iterator[Step]:
    """Yield steps in order of the items' start. The reasoning before an item becomes that step's reasoning."""
    items, turns, is_open = _Items(), 0, False
    thread: str | None = None
    ended, running = Usage(), dict[str | None, Usage]()  # running: the total of each thread
    result.set_head(agent_name="codex")
    for line, event in result.lines():
        kind, item = str(event.get("type")), event.get("item")
        if kind.startswith("item.") and isinstance(item, Mapping):
            yield from items.add(item, is_complete=kind == "item.completed")
        elif kind == "turn.completed":
            total, before = read_usage(event.get("usage"), *TOKEN_KEYS), running.get(thread)
            if before is not None and (total.input_tokens or 0) < (before.input_tokens or 0):
                ended += before  # counting began again
            running[thread] = total
            turns, is_open = turns + 1, False
        elif kind in ("turn.failed", "error"):
            yield from items.flush()
            error = event.get("error")
            text = error.get("message") if isinstance(error, Mapping) else event.get("message")
            yield Step(0, Source.SYSTEM, clean(str(text or kind)), extra={"event": kind})
        elif kind == "thread.started":
            thread = storable(str(event.get("thread_id") or "")) or None
            result.set_head(session_id=thread)
        elif kind == "turn.started":
            is_open = True
        else:
            result.report_event(line, kind, EXPECTED)
    yield from items.flush()
    usage = sum(running.values(), ended)
    result.usage = usage.in_part() if is_open else usage
    result.turns = None  # one turn is a whole task, not a model turn
    result.facts.update(completed_turns=turns, usage_from="completed turns" if turns else "nothing")
    if is_open or not turns:
        result.facts["cut_off"] = True


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
            found = _CodexItem(identifier, item, is_complete, self._take_thoughts())
            self._waiting.append(found)
            if not is_complete:
                self._by_id[identifier] = found
        while self._waiting and (self._waiting[0].is_complete or len(self._waiting) > MAX_WAITING):
            first = self._waiting.popleft()
            if not first.is_complete:
                self._by_id.pop(first.id, None)
                self._given[first.id] = None
            yield _step(first)

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
    """Convert an item. web_search, todo_list and future kinds are calls named by their type."""
    raw, kind = item.item, str(item.item.get("type"))
    extra: dict[str, object] = {} if item.is_complete else {"unfinished": True}
    if kind == "agent_message":
        return Step(0, Source.AGENT, clean(str(raw.get("text") or "")), reasoning=item.reasoning, extra=extra or None)
    if kind == "error":
        text, extra = clean(str(raw.get("message") or "")), {"event": "error", **extra}
        return Step(0, Source.SYSTEM, text, reasoning=item.reasoning, extra=extra)
    name, arguments, results = kind, dict[str, JsonValue](), _outcome(item)
    if kind == "command_execution":
        name, arguments = "shell", {"command": storable_value(raw.get("command"))}
        output = clean(str(raw.get("aggregated_output") or ""))
        failed = raw.get("exit_code") not in (0, None) or raw.get("status") == "failed"
        facts = pick_fields(raw, ("exit_code", "status")) or None
        results = (Observation(output, item.id, failed, facts),) if item.is_complete or output else ()
    elif kind == "file_change":
        name, arguments = "apply_patch", {"changes": storable_value(raw.get("changes"))}
    elif kind == "mcp_tool_call":
        name = ".".join(storable(str(raw[key])) for key in ("server", "tool") if raw.get(key)) or kind
        arguments = read_arguments(raw.get("arguments"))
    else:
        name = storable(str(raw.get("type") or "unknown"))
        known = ("id", "type", "status", "result", "error")
        arguments = {storable(str(key)): storable_value(value) for key, value in raw.items() if key not in known}
    call = ToolCall(item.id, name, arguments)
    return Step(
        0,
        Source.AGENT,
        reasoning=item.reasoning,
        tool_calls=(call,),
        observations=results,
        extra=extra or None,
    )


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


# --- session logs -----------------------------------------------------------------------------------------------------


_ONE_OBJECT = re.compile(rb'\s*\{\s*"session"\s*:')
_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "web_search_call")


def read_rollout(result: ReadTrajectory) -> Iterator[Step]:
    """Yield agent steps with reasoning, text and calls up to the next result."""
    rollout, marks = _CodexRollout(result), CompactionMarks()
    result.set_head(agent_name="codex")
    for line, event in _events(result):
        counts_before = rollout.counts
        for step in rollout.add(line, event):
            yield from marks.pass_on(step)
        if rollout.counts != counts_before:
            yield from marks.set_tokens_after(rollout.sent)
    for step in rollout.steps.flush():
        yield from marks.pass_on(step)
    yield from marks.flush()
    result.set_usage(rollout.usage, "token counts")


class _CodexRollout:
    """Lines of the file one by one. All output of the model before a result is one message. Steps that a fork copied
    are marked, and their tokens are the parent's."""

    def __init__(self, result: ReadTrajectory) -> None:
        self.result, self.steps = result, MessageSteps()
        self.sent: int | None = None  # tokens sent in the model's last call
        self.counts = 0  # lines that count tokens
        self._total, self._copied_total = Usage(), Usage()
        self._has_meta = self._has_own = False
        self._message, self._is_answered = 0, True
        self._was_compaction = False  # was the last item one?

    @property
    def usage(self) -> Usage:
        """What was added to the copied total; all of it if counting began again at 0."""
        names = ("input_tokens", "cached_tokens", "output_tokens")
        pairs = [(getattr(self._total, name), getattr(self._copied_total, name)) for name in names]
        if any(whole is not None and part is not None and whole < part for whole, part in pairs):
            return self._total
        return Usage(*(None if whole is None else whole - (part or 0) for whole, part in pairs))

    def add(self, line: int, event: Record) -> Iterator[Step]:
        payload, kind = read_object(event.get("payload")), event.get("type")
        timestamp = read_text(event.get("timestamp"))
        is_copied = line <= self.result.copied_lines
        if self.steps.copied and not is_copied:
            yield from self.steps.flush()
            self._is_answered = True
        self.steps.copied = is_copied and self._has_meta
        if kind == "response_item":
            yield from self._add_item(payload, timestamp)
        elif kind == "compacted" and self._was_compaction and not payload.get("message"):
            self.result.count_event(kind)  # of the item before it
        elif kind == "compacted":
            text = clean(str(payload.get("message") or "")) or "Conversation compacted"
            step = Step(0, Source.SYSTEM, text, timestamp=timestamp, extra=compaction_mark(self.sent))
            yield from self.steps.flush()
            yield from self.steps.note(step)
        elif kind == "event_msg" and payload.get("type") == "token_count":
            self._take_tokens(read_object(payload.get("info")), is_copied)
        elif kind in ("session_meta", "turn_context"):
            self._take_head(payload, is_copied and self._has_meta)
        else:
            self.result.count_event(kind, payload.get("type"))

    def _take_tokens(self, info: Record, is_copied: bool) -> None:
        running, last = info.get("total_token_usage"), read_object(info.get("last_token_usage"))
        if isinstance(running, Mapping):
            self._total = read_usage(running, *TOKEN_KEYS)
            self._copied_total = self._total if is_copied else self._copied_total
        self.sent, self.counts = read_count(last.get("input_tokens")), self.counts + 1

    def _take_head(self, payload: Record, is_copied: bool) -> None:
        """Read the head. A copied one only gives its own origin, and the model if no line of the session names one."""
        if "model" in payload and not is_copied and not self._has_own:
            self._has_own = True
            self.result.set_head(model=None)
        names = {"id": "session_id", "cli_version": "agent_version", "model": "model"}
        self.result.fill_head(**{name: read_text(payload.get(key)) for key, name in names.items()})
        if isinstance(payload.get("cwd"), str) and not is_copied:
            self.result.add_extra(cwd=payload["cwd"])
        self._has_meta = True

    def _add_item(self, item: Record, timestamp: str | None) -> Iterator[Step]:
        kind = str(item.get("type"))
        self._was_compaction = "compaction" in kind
        if kind == "reasoning":
            summary = content_text(item.get("summary"))[0]
            yield from self._take_answer({"type": "thinking", "thinking": summary} if summary else None, timestamp)
        elif kind == "message" and item.get("role") == "assistant":
            yield from self._take_answer({"type": "text", "text": content_text(item.get("content"))[0]}, timestamp)
        elif kind == "message":
            self._is_answered = True
            yield from self.steps.flush()
            source = Source.USER if item.get("role") == "user" else Source.SYSTEM
            text, parts = content_text(item.get("content"))
            step = Step(0, source, clean(text), timestamp=timestamp, extra=select_images(parts) or None)
            yield from self.steps.note(step)
        elif kind in _CALLS:
            yield from self._take_answer(call_block(_id(item), item.get("name") or kind, _arguments(item)), timestamp)
        elif kind.endswith("_output"):
            self._is_answered = True
            block = result_block(_id(item), *_output(item.get("output")))
            yield from self.steps.user({"content": [block]}, timestamp)
        else:
            yield from self.steps.flush()
            extra = {"item": storable_value(item)} | (compaction_mark(self.sent) if self._was_compaction else {})
            yield from self.steps.note(Step(0, Source.SYSTEM, f"[{clean(kind)}]", timestamp=timestamp, extra=extra))

    def _take_answer(self, block: Record | None, timestamp: str | None) -> Iterator[Step]:
        if self._is_answered:
            self._message += 1
            self._is_answered = False
        if block is not None:
            yield from self.steps.assistant({"id": f"message-{self._message}", "content": [block]}, timestamp)


def _events(result: ReadTrajectory) -> Iterator[tuple[int, Record]]:
    """(number, line) of the file. Lines of an older file get today's wrapper."""
    with result.open_binary() as stream:
        is_object = _ONE_OBJECT.match(stream.read(200)) is not None
    if is_object:
        for key, value in result.parts(streamed=frozenset({"items"})):
            if isinstance(value, Mapping):
                yield 1, {"type": "response_item" if key == "items" else "session_meta", "payload": value}
        return
    for line, event in result.lines():
        if "payload" in event:
            yield line, event
        elif "record_type" in event:
            yield line, {"type": event["record_type"]}
        else:
            yield line, {"type": "response_item" if "type" in event else "session_meta", "payload": event}


def _id(item: Record) -> str:
    return storable(str(item.get("call_id") or item.get("id") or "call"))


def _arguments(item: Record) -> object:
    raw = item.get("arguments", item.get("input", item.get("action")))
    if not isinstance(raw, str):
        return raw
    value = parse_json(raw)
    return value if isinstance(value, dict) else {"input": raw}


def _output(raw: object) -> tuple[object, bool]:
    """(content, failed): a text, or parts with an image. Shell results are JSON texts {"output": ..., "metadata":
    {"exit_code": ...}} or, since 2025-10, plain texts with the exit code in their head."""
    value = parse_json(raw) if isinstance(raw, str) and raw.startswith("{") else raw
    if not isinstance(value, Mapping):
        text, parts = content_text(raw)
        return raw if select_images(parts) else text, has_codex_failed(text)
    code = read_object(value.get("metadata")).get("exit_code")
    failed = value.get("success") is False or code not in (None, 0)
    for key in ("output", "content"):
        if key in value:
            text, parts = content_text(value[key])
            return value[key] if select_images(parts) else text, failed
    return raw if isinstance(raw, str) else json.dumps(raw, ensure_ascii=False, sort_keys=True), failed
