"""Codex' own session log (sessions/**/rollout-*.jsonl): {timestamp, type, payload} a line, with prompt and times.

Steps come from `response_item` lines: what was sent to the model and what it returned. `event_msg` lines repeat them
for the screen; of those only `token_count` is used: its total_token_usage is a running total.

Up to September 2025 the first line was the session's head ({id, timestamp, instructions}) and the items followed
without the wrapper and without times, with `{"record_type": "state"}` between them. The first Codex, written in
TypeScript, put head and items into one object ({session, items}).
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from runner.base.text import clean, storable, storable_value
from runner.base.types import Source, Step, Usage
from runner.trajectories.atif_values import content_text
from runner.trajectories.images import select_images
from runner.trajectories.log_records import Record, parse_json, read_count, read_object, read_text, read_usage
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.claude_code.claude_messages import (
    CompactionMarks,
    MessageSteps,
    call_block,
    compaction_mark,
    result_block,
)
from runner.trajectories.readers.codex_cli.codex import TOKEN_KEYS
from runner.trajectories.readers.exit_codes import has_codex_failed

_ONE_OBJECT = re.compile(rb'\s*\{\s*"session"\s*:')
_CALLS = ("function_call", "custom_tool_call", "local_shell_call", "web_search_call")


def read(result: ReadTrajectory) -> Iterator[Step]:
    """Yield agent steps with reasoning, text and calls up to the next result."""
    rollout, marks = _CodexRollout(result), CompactionMarks()
    result.set_head(agent_name="codex")
    for line, event in _events(result):
        counts_before = rollout.counts
        for step in rollout.add(line, event):
            yield from marks.pass_on(step)
        if rollout.counts != counts_before:
            yield from marks.set_tokens_after(rollout.sent)
    for step in rollout.turn.steps.flush():
        yield from marks.pass_on(step)
    yield from marks.flush()
    result.set_usage(rollout.usage, "token counts")


class _CodexRollout:
    """Lines of the file one by one. Steps that a fork copied are marked, and their tokens are the parent's."""

    def __init__(self, result: ReadTrajectory) -> None:
        self.result, self.turn = result, _CodexTurn()
        self.sent: int | None = None  # tokens sent in the model's last call
        self.counts = 0  # lines that count tokens
        self._total, self._copied_total = Usage(), Usage()
        self._has_meta = self._has_own = False

    @property
    def usage(self) -> Usage:
        return _subtract(self._total, self._copied_total)

    def add(self, line: int, event: Record) -> Iterator[Step]:
        payload, kind = read_object(event.get("payload")), event.get("type")
        timestamp = read_text(event.get("timestamp"))
        is_copied = line <= self.result.copied_lines
        if self.turn.steps.copied and not is_copied:
            yield from self.turn.end_copy()
        self.turn.steps.copied = is_copied and self._has_meta
        if kind == "response_item":
            yield from self.turn.add(payload, timestamp)
        elif kind == "compacted":
            text = clean(str(payload.get("message") or "")) or "Conversation compacted"
            step = Step(0, Source.SYSTEM, text, timestamp=timestamp, extra=compaction_mark(self.sent))
            yield from self.turn.steps.flush()
            yield from self.turn.steps.aside(step)
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


def _subtract(total: Usage, before: Usage) -> Usage:
    """Return what was added to a running total; all of it if counting began again at 0."""
    names = ("input_tokens", "cached_tokens", "output_tokens")
    pairs = [(getattr(total, name), getattr(before, name)) for name in names]
    if any(whole is not None and part is not None and whole < part for whole, part in pairs):
        return total
    return Usage(*(None if whole is None else whole - (part or 0) for whole, part in pairs))


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
        yield line, event if "payload" in event else _wrap(event)


def _wrap(event: Record) -> Record:
    if "record_type" in event:
        return {"type": event["record_type"]}
    return {"type": "response_item" if "type" in event else "session_meta", "payload": event}


class _CodexTurn:
    """Join items: all output of the model before a result is one message."""

    def __init__(self) -> None:
        self.steps = MessageSteps()
        self._message = 0
        self._is_answered = True

    def add(self, item: Record, timestamp: str | None) -> Iterator[Step]:
        kind = str(item.get("type"))
        if kind == "reasoning":
            summary = content_text(item.get("summary"))[0]
            yield from self._take_answer({"type": "thinking", "thinking": summary} if summary else None, timestamp)
        elif kind == "message" and item.get("role") == "assistant":
            yield from self._take_answer({"type": "text", "text": content_text(item.get("content"))[0]}, timestamp)
        elif kind == "message":
            yield from self._other_message(item, timestamp)
        elif kind in _CALLS:
            yield from self._take_answer(call_block(_id(item), item.get("name") or kind, _arguments(item)), timestamp)
        elif kind.endswith("_output"):
            self._is_answered = True
            block = result_block(_id(item), *_output(item.get("output")))
            yield from self.steps.user({"content": [block]}, timestamp)
        else:
            yield from self.steps.flush()
            extra = {"item": storable_value(item)} | (compaction_mark(None) if "compaction" in kind else {})
            yield from self.steps.aside(Step(0, Source.SYSTEM, f"[{clean(kind)}]", timestamp=timestamp, extra=extra))

    def end_copy(self) -> Iterator[Step]:
        """Start a new message after the copied part."""
        yield from self.steps.flush()
        self._is_answered = True

    def _take_answer(self, block: Record | None, timestamp: str | None) -> Iterator[Step]:
        if self._is_answered:
            self._message += 1
            self._is_answered = False
        if block is not None:
            message = {"id": f"message-{self._message}", "content": [block]}
            yield from self.steps.assistant(message, timestamp)

    def _other_message(self, item: Record, timestamp: str | None) -> Iterator[Step]:
        self._is_answered = True
        yield from self.steps.flush()
        source = Source.USER if item.get("role") == "user" else Source.SYSTEM
        text, parts = content_text(item.get("content"))
        extra = select_images(parts) or None
        yield from self.steps.aside(Step(0, source, clean(text), timestamp=timestamp, extra=extra))


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
