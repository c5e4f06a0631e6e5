"""Sessions of Pi (`~/.pi/agent/sessions`) and of what is made from it, and events of `pi --mode json`.

Entries are a tree, and the file has every branch in the order of time. A fork begins with a copy of its parent's
entries, which keep their times. Input excludes what came from the cache.
"""

from __future__ import annotations

from collections.abc import Iterator

from runner.base.text import clean
from runner.base.types import Observation, Source, Step
from runner.trajectories.atif_values import content_text
from runner.trajectories.log_records import Record, read_object, read_objects, read_text
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.messages import MessageSteps, call_block, compaction_mark, result_block

_USAGE = {
    "input": "input_tokens",
    "cacheRead": "cache_read_input_tokens",
    "cacheWrite": "cache_creation_input_tokens",
    "output": "output_tokens",
}
_OWN_WORDS = frozenset({"custom", "hookMessage", "branchSummary", "compactionSummary", "bashExecution"})  # roles


def read(result: ReadTrajectory) -> Iterator[Step]:
    result.set_head(agent_name="pi")
    reading = _Reading(result)
    for number, entry in result.lines():
        yield from reading.take(number, entry)
    yield from reading.steps.flush()
    result.set_usage(reading.steps.usage, "assistant messages")


class _Reading:
    def __init__(self, result: ReadTrajectory) -> None:
        self.result, self.steps = result, MessageSteps()
        self._forked_at = ""

    def take(self, number: int, entry: Record) -> Iterator[Step]:
        kind, at = str(entry.get("type")), read_text(entry.get("timestamp"))
        self.steps.copied = bool(at) and str(at) < self._forked_at
        if kind == "session":
            self.result.fill_head(session_id=read_text(entry.get("id")))
            self._forked_at = at or "" if entry.get("parentSession") else ""
        elif kind in ("message", "message_end"):
            yield from self._take_message(read_object(entry.get("message")), entry.get("id") or f"line-{number}", at)
        elif kind in ("compaction", "branch_summary"):
            extra = compaction_mark(entry.get("tokensBefore")) if kind == "compaction" else {"subtype": kind}
            yield from self._notice(entry.get("summary"), at, extra)
        elif kind == "custom_message":
            yield from self._notice(entry.get("content"), at, {"subtype": str(entry.get("customType"))[:100]})
        else:
            self.result.count_event(kind)

    def _notice(self, content: object, at: str | None, extra: Record) -> Iterator[Step]:
        yield from self.steps.flush()
        yield from self.steps.note(Step(0, Source.SYSTEM, clean(content_text(content)[0]), timestamp=at, extra=extra))

    def _take_message(self, message: Record, identifier: object, at: str | None) -> Iterator[Step]:
        role, content = str(message.get("role")), message.get("content")
        if role == "user":
            yield from self.steps.user({"content": content}, at)
        elif role == "toolResult":
            failed = message.get("isError") is True
            result = result_block(message.get("toolCallId"), content, failed)
            yield from self.steps.user({"content": [result]}, at, result=message.get("details"))
        elif role == "assistant":
            yield from self._take_answer(message, identifier, at)
        elif role in _OWN_WORDS:
            texts = (message.get(key) for key in ("command", "output", "summary"))
            said = content or "\n".join(str(text) for text in texts if text)
            yield from self._notice(said, at, {"subtype": role})
        else:
            self.result.count_event(f"message of {role[:50]}")

    def _take_answer(self, message: Record, identifier: object, at: str | None) -> Iterator[Step]:
        blocks = [
            call_block(block.get("id"), block.get("name"), block.get("arguments"))
            if block.get("type") == "toolCall"
            else block
            for block in read_objects(message.get("content"))
        ]
        counts = read_object(message.get("usage"))
        if blocks:
            answer = {"id": str(identifier), "model": message.get("model"), "content": blocks, "stop_reason": "end"}
            usage = {name: counts.get(key) for key, name in _USAGE.items()}
            usage["cost_usd"] = read_object(counts.get("cost")).get("total")
            yield from self.steps.assistant(answer | ({"usage": usage} if counts else {}), at)
        if message.get("stopReason") in ("error", "aborted"):
            yield from self.steps.flush()
            observation = Observation(clean(str(message.get("errorMessage") or message["stopReason"])), is_error=True)
            yield Step(0, Source.SYSTEM, observations=(observation,), timestamp=at, extra={"api_error": True})
