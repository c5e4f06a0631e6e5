"""Anthropic content blocks joined into one step per model message.

Claude Code logs them one a line. Readers of other formats convert their events to the same terms (`text_blocks`,
`call_block`, `result_block`, `counts_without_cache`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace

from runner.base.text import clean, storable, storable_value
from runner.base.types import JsonValue, Observation, Source, Step, ToolCall, Usage
from runner.trajectories.atif_values import content_text
from runner.trajectories.images import PARTS, select_images
from runner.trajectories.log_records import (
    Record,
    read_amount,
    read_arguments,
    read_count,
    read_object,
    read_text,
    read_usage_parts,
)

MAX_EXTRA_CHARS = 500
NO_MODEL = "<synthetic>"  # of messages that Claude Code writes itself
_API_ERROR = "API Error"  # the beginning of its errors, in logs that do not mark them
# Input is everything that was sent: fresh, read from the cache and written to it.
INPUT_KEYS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")
MAX_BLOCKS = 10_000  # of one message; further ones make a separate step


class MessageSteps:
    """Feed it events in file order; it gives steps as soon as they are whole.

    Blocks of one message id make one step. Every line of a message repeats its usage at the time of writing:
    output_tokens is final only with a stop reason, else the largest count is a lower bound. A result joins the step of
    its call; one that comes after that step was given makes a separate step. What the program writes in the model's
    place, such as an error of the provider, is a notice, not a call of a model.
    """

    def __init__(self) -> None:
        self.messages = 0
        self.copied = False  # does current input come from another session? It counts in no total
        self._open: _ClaudeMessage | None = None
        self._asides: list[Step] = []
        self._used: dict[str, Usage] = {}  # by message id: other lines may come between those of one message
        self._used_without_id = Usage()
        self._seen: set[str | None] = set()  # ids of messages that were given
        self._lacks_usage = False

    @property
    def usage(self) -> Usage:
        """Sum over all messages, each counted once."""
        total = sum(self._used.values(), self._used_without_id)
        return total.in_part() if self._lacks_usage else total

    def assistant(
        self, message: Record, timestamp: str | None, extra: Record | None = None, *, is_error: bool = False
    ) -> Iterator[Step]:
        """is_error: the line says that the model gave no answer."""
        if is_error or message.get("model") == NO_MODEL:
            yield from self.note(_program_notice(message, timestamp, extra or {}, is_error))
            return
        raw = message.get("id")
        identifier = raw if isinstance(raw, str) else None
        if self._open is None or identifier is None or self._open.id != identifier or self._open.blocks > MAX_BLOCKS:
            yield from self.flush()
            self._open = _ClaudeMessage(identifier, timestamp, extra or {}, self.copied)
        self._open.add(message)

    def user(
        self, message: Record, timestamp: str | None, extra: Record | None = None, result: object = None
    ) -> Iterator[Step]:
        """`result` is the harness' structured account of a tool's result, if it gives one."""
        content, extra = message.get("content"), extra or {}
        spoken = []
        for block in content if isinstance(content, list) else [content]:
            if isinstance(block, Mapping) and block.get("type") == "tool_result":
                observation = _observation(block, result)
                if self._open is not None and self._open.takes(observation):
                    continue
                yield from self.flush()
                late = {**extra, "late_result": True}
                yield self._mark(Step(0, Source.SYSTEM, observations=(observation,), timestamp=timestamp, extra=late))
            elif block is not None:
                spoken.append(block)
        if spoken:
            yield from self.flush()
            text, parts = content_text(spoken if isinstance(content, list) else content)
            if parts is not None:
                extra = {**extra, PARTS: parts}
            yield self._mark(Step(0, Source.USER, clean(text), timestamp=timestamp, extra=extra or None))

    def _mark(self, step: Step) -> Step:
        return replace(step, is_copied_context=True) if self.copied else step

    def note(self, step: Step) -> Iterator[Step]:
        """A step that belongs to no message. It waits for an open message, whose results are still to come."""
        if self._open is None:
            yield self._mark(step)
        else:
            self._asides.append(self._mark(step))

    @property
    def awaits_message(self) -> bool:
        """Did the last message call tools, so that another one must have followed?"""
        return self._open is not None and bool(self._open.calls)

    def flush(self) -> Iterator[Step]:
        """Yield the open message, even if incomplete."""
        if self._open is not None:
            message, self._open = self._open, None
            is_new = message.id is None or message.id not in self._seen
            self._seen.add(message.id)
            step, usage = message.step(), message.usage()
            if message.copied:
                yield replace(step, usage=None, is_copied_context=True)
            else:
                self.messages += is_new
                if usage is None:
                    self._lacks_usage = True
                elif message.id is None:
                    self._used_without_id += usage
                else:
                    self._used[message.id] = max(self._used.get(message.id, usage), usage, key=_fullness)
                yield step if is_new else replace(step, usage=None)
        asides, self._asides = self._asides, []
        yield from asides


class _ClaudeMessage:
    def __init__(self, identifier: str | None, timestamp: str | None, extra: Record, copied: bool) -> None:
        self.id, self._timestamp, self._extra, self.copied = identifier, timestamp, dict(extra), copied
        self.blocks = 0
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self.calls: dict[str, ToolCall] = {}
        self._observations: list[Observation] = []
        self._images: list[object] = []
        self._model: str | None = None
        self._counts: Record = {}
        self._output: int | None = None
        self._is_final = False

    def add(self, message: Record) -> None:
        content = message.get("content")
        for block in content if isinstance(content, list) else [{"type": "text", "text": content}]:
            self._add_block(block if isinstance(block, Mapping) else {"type": "text", "text": str(block)})
        model = read_text(message.get("model"))
        self._model = self._model if model is None else model
        if isinstance(usage := message.get("usage"), Mapping):
            self._take_usage(usage, is_final=message.get("stop_reason") is not None)

    def _take_usage(self, counts: Record, is_final: bool) -> None:
        """Add one snapshot. They grow while the message is streamed; a final one overrides the others."""
        self._counts = {**self._counts, **counts}
        output = read_count(counts.get("output_tokens"))
        if output is not None and (is_final or not self._is_final):
            self._output = output if is_final else max(output, self._output or 0)
        self._is_final |= is_final

    def usage(self) -> Usage | None:
        """None if it has no usage data. A message with content and without output tokens was not counted at all."""
        if not self._counts:
            return None
        cost = read_amount(self._counts.get("cost_usd")) or None  # 0 is that of a model without a known price
        sent = replace(read_usage_parts(self._counts, INPUT_KEYS, "output_tokens"), output_tokens=None, cost_usd=cost)
        if self._output == 0 and (self._texts or self._thoughts or self.calls):
            return sent if sent.input_tokens else None
        if self._is_final:
            return replace(sent, output_tokens=self._output)
        return replace(sent, output_at_least=self._output)

    def _add_block(self, block: Record) -> None:
        self.blocks += 1
        kind = block.get("type")
        if kind == "text":
            text = clean(str(block.get("text") or ""))
            if text.strip():
                self._texts.append(text)
        elif kind == "thinking":
            self._thoughts.append(clean(str(block.get("thinking") or "")))
        elif kind == "redacted_thinking":
            self._thoughts.append("[redacted thinking]")
        elif kind in ("tool_use", "server_tool_use"):
            identifier = storable(str(block.get("id") or f"call-{len(self.calls) + 1}"))
            given = block.get("input")
            arguments = {"raw": None} if given is None else read_arguments(given)
            self.calls[identifier] = ToolCall(identifier, storable(str(block.get("name") or "unknown")), arguments)
        elif isinstance(kind, str) and kind.endswith("_tool_result"):
            self.takes(_observation(block, None))
        else:
            text, parts = content_text([block])
            self._texts.append(clean(text))
            self._images += select_images(parts).get(PARTS, ())

    def takes(self, observation: Observation) -> bool:
        if observation.source_call_id not in self.calls:
            return False
        self.blocks += 1
        self._observations.append(observation)
        return True

    def step(self) -> Step:
        """Make the step. It has no field for a lower bound: if the count is not final, its output is unknown."""
        usage = self.usage()
        extra = {**self._extra, PARTS: self._images} if self._images else dict(self._extra)
        return Step(
            0,
            Source.AGENT,
            "\n\n".join(self._texts),
            reasoning="\n\n".join(self._thoughts) or None,
            tool_calls=tuple(self.calls.values()),
            observations=tuple(self._observations),
            timestamp=self._timestamp,
            model=self._model,
            usage=None if usage is None else replace(usage, output_at_least=None),
            extra=extra or None if self.id is None else {**extra, "message_id": storable(self.id)},
        )


def _program_notice(message: Record, timestamp: str | None, extra: Record, is_error: bool) -> Step:
    """What the program wrote in the model's place. An error of the provider is the result of a failed call."""
    text = clean(content_text(message.get("content"))[0])
    is_error = is_error or text.startswith(_API_ERROR)
    if is_error:
        results = (Observation(text, is_error=True),)
        extra = {**extra, "api_error": True}
        return Step(0, Source.SYSTEM, observations=results, timestamp=timestamp, extra=extra)
    return Step(0, Source.SYSTEM, text, timestamp=timestamp, extra={**extra} or None)


def _fullness(usage: Usage) -> tuple[bool, int]:
    """Of two usages of one message the final one counts, else the larger."""
    return usage.output_tokens is not None, usage.known_output or 0


def text_blocks(thought: object, text: object) -> list[dict[str, object]]:
    """Return what the model thought and what it wrote, without what is empty."""
    pairs = (("thinking", thought), ("text", text))
    return [{"type": kind, kind: value} for kind, value in pairs if isinstance(value, str) and value]


def call_block(identifier: object, name: object, arguments: object) -> dict[str, object]:
    return {"type": "tool_use", "id": identifier, "name": name, "input": arguments or {}}


def result_block(call: object, content: object, failed: bool) -> dict[str, object]:
    return {"type": "tool_result", "tool_use_id": call, "content": content, "is_error": failed}


def counts_without_cache(sent: object, cached: object, made: object) -> dict[str, object]:
    """Convert usage of a format whose `sent` includes the cache to Anthropic's terms, where input excludes it."""
    whole, held = read_count(sent), read_count(cached)
    return {
        "input_tokens": None if whole is None else max(0, whole - (held or 0)),
        "cache_read_input_tokens": held,
        "output_tokens": read_count(made),
    }


def _observation(block: Record, result: object) -> Observation:
    text, parts = content_text(block.get("content"))
    extra: dict[str, object] = {} if parts is None else {PARTS: parts}
    if small := small_facts(result, text):
        extra["result"] = small
    call = block.get("tool_use_id")
    return Observation(
        clean(text), None if call is None else storable(str(call)), block.get("is_error") is True, extra or None
    )


def small_facts(result: object, shown: str) -> dict[str, JsonValue]:
    """The short facts of a structured result. Long texts, lists and objects (whole files, patches, page images) are
    named below "left_out". Content that is already shown is not repeated."""
    facts: dict[str, JsonValue] = {}
    left_out: list[JsonValue] = []
    for key, value in read_object(result).items():
        is_shown = isinstance(value, str) and (not value or value.strip() == shown.strip())
        if value is None or value is False or is_shown:
            continue
        if isinstance(value, str) and len(value) > MAX_EXTRA_CHARS or isinstance(value, list | Mapping):
            left_out.append(str(key)[:100])
        else:
            facts[str(key)[:100]] = storable_value(value)
    return {**facts, "left_out": left_out} if left_out else facts


def compaction_mark(before: object, trigger: object = None) -> dict[str, JsonValue]:
    """The extra of a step that marks a compaction, where the program replaced the conversation by a summary."""
    tokens, word = read_count(before), read_text(trigger)
    extra: dict[str, JsonValue] = {} if tokens is None else {"tokens_before": tokens}
    return {"compaction": extra | ({} if word is None else {"trigger": word})}


class CompactionMarks:
    """Holds steps back after a compaction, until the tokens sent in the model's next call are known."""

    MOST_HELD = 50

    def __init__(self) -> None:
        self._held: list[Step] = []

    def pass_on(self, step: Step) -> Iterator[Step]:
        if self._held or "compaction" in (step.extra or {}):
            self._held.append(step)
            if len(self._held) > self.MOST_HELD:
                yield from self.flush()
        else:
            yield step

    def set_tokens_after(self, tokens: int | None) -> Iterator[Step]:
        if self._held and tokens is not None:
            first, *others = self._held
            extra = dict(first.extra or {})
            extra["compaction"] = {**read_object(extra["compaction"]), "tokens_after": tokens}
            self._held = [replace(first, extra=extra), *others]
            yield from self.flush()

    def flush(self) -> Iterator[Step]:
        held, self._held = self._held, []
        yield from held


class AnswerSteps:
    """Joins an answer that a program prints in parts: text in pieces, thoughts, calls. The next part after a result
    begins a new answer."""

    def __init__(self) -> None:
        self._steps = MessageSteps()
        self._blocks: list[dict[str, object]] = []
        self._pieces: list[str] = []  # of the last block, if that is text or thoughts
        self._timestamp: str | None = None

    def say(self, text: str, timestamp: str | None, kind: str = "text") -> Iterator[Step]:
        """Add a piece of the current text (or, with kind "thinking", of the thoughts)."""
        if not self._blocks or self._blocks[-1]["type"] != kind:
            yield from self._add({"type": kind}, timestamp)
        self._pieces.append(text)

    def call(self, identifier: object, name: object, arguments: object, timestamp: str | None) -> Iterator[Step]:
        yield from self._add(call_block(identifier, name, arguments), timestamp)

    def user(self, content: object, timestamp: str | None) -> Iterator[Step]:
        """Results, or what a person said."""
        yield from self._close()
        yield from self._steps.user({"content": content}, timestamp)

    def flush(self) -> Iterator[Step]:
        yield from self._close()
        yield from self._steps.flush()

    def _add(self, block: dict[str, object], timestamp: str | None) -> Iterator[Step]:
        if not self._blocks:
            yield from self._steps.flush()
            self._timestamp = timestamp
        self._join_pieces()
        self._blocks.append(block)

    def _join_pieces(self) -> None:
        if self._pieces:
            last = self._blocks[-1]
            last[str(last["type"])] = "".join(self._pieces)
            self._pieces = []

    def _close(self) -> Iterator[Step]:
        self._join_pieces()
        if self._blocks:
            blocks, self._blocks = self._blocks, []
            yield from self._steps.assistant({"content": blocks}, self._timestamp)
