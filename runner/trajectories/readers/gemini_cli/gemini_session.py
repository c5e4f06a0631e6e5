"""Gemini CLI's session log since 0.30 (.gemini/tmp/<project>/chats/session-*.jsonl): a head, then records, one a line.

A message is written again under its id whenever it grew (text, then tool calls, then their results). The last one
counts, at the place of its last writing. `$set` replaces the whole conversation, at the beginning and after the program
compressed it; repeated messages are recognised by id, and new ones did not come from the model again. `$rewindTo` takes
messages back: they were sent and paid for, so their steps stay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from runner.base.text import storable
from runner.base.types import Source, Step, Usage
from runner.trajectories.log_records import Record, read_object, read_text
from runner.trajectories.problems import Problems
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.gemini_cli.gemini import message_step

_HEAD_KEYS = ("startTime", "projectHash", "kind")


def read(result: ReadTrajectory) -> Iterator[Step]:
    """Yield one step per message; results of tools are in the step of their calls. Usage is the sum over messages."""
    result.set_head(agent_name="gemini-cli")
    session = _GeminiSession(_last_lines(result))
    for line, record in result.lines():
        if isinstance(record.get("id"), str):
            if session.last_lines.get(str(record["id"])) == line:
                yield from session.message(record, is_copy=False)
        elif isinstance(changes := record.get("$set"), Mapping):
            yield from session.replace_steps(changes, result)
        elif "$rewindTo" in record:
            result.count_event("$rewindTo")
        else:
            if (session_id := read_text(record.get("sessionId"))) is not None:
                result.set_head(session_id=session_id)
            result.add_extra(**{key: record[key] for key in _HEAD_KEYS if key in record})
        result.fill_head(model=session.model)
    result.turns = session.turns
    result.set_usage(session.usage, "messages")


class _GeminiSession:
    """The conversation so far."""

    def __init__(self, last_lines: Mapping[str, int]) -> None:
        self.last_lines = last_lines
        self.usage = Usage()
        self.turns = 0
        self.model: str | None = None
        self._given: set[str] = set()
        self._calls: set[str] = set()
        self._index = 0

    def message(self, message: Record, *, is_copy: bool) -> Iterator[Step]:
        self._index += 1
        self._given.add(str(message["id"]))
        if self._repeats_results(message):
            return
        step = message_step(message, self._index)
        self._calls.update(call.id for call in step.tool_calls)
        if is_copy:
            yield replace(step, is_copied_context=True, usage=None)
            return
        if step.source is Source.AGENT:
            self.turns += 1
        if step.usage is not None:
            self.usage += step.usage
        self.model = self.model or step.model
        yield step

    def replace_steps(self, changes: Record, result: ReadTrajectory) -> Iterator[Step]:
        messages = changes.get("messages")
        if not isinstance(messages, list):
            return
        if self.turns:
            result.count_event("conversation replaced")
        is_copy = self.turns > 0
        for message in messages:
            if not isinstance(message, Mapping) or not isinstance(message.get("id"), str):
                result.problems.add("$set", "messages with an id", f"found {message!r:.60}")
            elif message["id"] not in self._given and message["id"] not in self.last_lines:
                yield from self.message(message, is_copy=is_copy)

    def _repeats_results(self, message: Record) -> bool:
        """Is it a user message with only results that are already in the step of the calls?"""
        content = message.get("content")
        parts = content if isinstance(content, list) else [content]
        for part in parts:
            response = read_object(part).get("functionResponse")
            if not isinstance(response, Mapping) or storable(str(response.get("id"))) not in self._calls:
                return False
        return bool(parts)


def _last_lines(result: ReadTrajectory) -> dict[str, int]:
    """Message id -> the line where it was last written."""
    return {str(record["id"]): line for line, record in result.lines(Problems()) if isinstance(record.get("id"), str)}
