"""Anthropic content blocks, as Claude Code logs them one a line, put together into one step per model message."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from runner.trajectories.atif import content_text
from runner.trajectories.text import clean, storable, storable_value
from runner.types import Observation, Source, Step, ToolCall, Usage

MAX_EXTRA_CHARS = 500
MAX_BLOCKS = 10_000  # of one message; what follows makes a step of its own


class MessageSteps:
    """Feed it events in file order; it gives steps as soon as they are whole.

    Blocks of one message id make one step, with its usage once: every line of a message repeats the usage, and its
    output_tokens is a partial count until a stop reason is given, so until then output stays unknown. A result joins
    the step of its call; one that comes after that step was given makes a step of its own.
    """

    def __init__(self) -> None:
        self.usage = Usage()
        self.messages = 0
        self._open: _Message | None = None

    def assistant(self, message: Mapping[str, Any], timestamp: str | None, extra: dict[str, Any]) -> Iterator[Step]:
        identifier = message.get("id")
        if self._open is None or identifier is None or self._open.id != identifier or self._open.blocks > MAX_BLOCKS:
            yield from self.flush()
            self._open = _Message(identifier, timestamp, extra)
        self._open.add(message)

    def user(
        self, message: Mapping[str, Any], timestamp: str | None, extra: dict[str, Any], result: Any
    ) -> Iterator[Step]:
        """`result` is the harness' structured account of a tool's result, where it gives one."""
        content = message.get("content")
        blocks = content if isinstance(content, list) else [content]
        spoken = []
        for block in blocks:
            if isinstance(block, Mapping) and block.get("type") == "tool_result":
                observation = _observation(block, result)
                if self._open is not None and self._open.takes(observation):
                    continue
                yield from self.flush()
                yield Step(
                    0,
                    Source.SYSTEM,
                    observations=(observation,),
                    timestamp=timestamp,
                    extra={**extra, "late_result": True},
                )
            elif block is not None:
                spoken.append(block)
        if spoken:
            yield from self.flush()
            text, parts = content_text(spoken if isinstance(content, list) else content)
            if parts is not None:
                extra = {**extra, "content_parts": parts}
            yield Step(0, Source.USER, clean(text), timestamp=timestamp, extra=extra or None)

    def flush(self) -> Iterator[Step]:
        """The message under way, as far as it came."""
        if self._open is not None:
            step = self._open.step()
            self._open = None
            self.messages += 1
            if step.usage is not None:
                self.usage += step.usage
            yield step


class _Message:
    def __init__(self, identifier: Any, timestamp: str | None, extra: dict[str, Any]) -> None:
        self.id, self._timestamp, self._extra = identifier, timestamp, dict(extra)
        self.blocks = 0
        self._texts: list[str] = []
        self._thoughts: list[str] = []
        self._calls: dict[str, ToolCall] = {}
        self._observations: list[Observation] = []
        self._model: str | None = None
        self._usage: Usage | None = None

    def add(self, message: Mapping[str, Any]) -> None:
        content = message.get("content")
        for block in content if isinstance(content, list) else [{"type": "text", "text": content}]:
            self._add_block(block if isinstance(block, Mapping) else {"type": "text", "text": str(block)})
        if isinstance(message.get("model"), str):
            self._model = storable(message["model"])
        if isinstance(message.get("usage"), Mapping):
            self._usage = _usage(message["usage"], is_final=message.get("stop_reason") is not None)

    def _add_block(self, block: Mapping[str, Any]) -> None:
        self.blocks += 1
        kind = block.get("type")
        if kind == "text":
            if block.get("text"):
                self._texts.append(clean(str(block["text"])))
        elif kind == "thinking":
            self._thoughts.append(clean(str(block.get("thinking") or "")))
        elif kind == "redacted_thinking":
            self._thoughts.append("[redacted thinking]")
        elif kind in ("tool_use", "server_tool_use"):
            identifier = storable(str(block.get("id") or f"call-{len(self._calls) + 1}"))
            arguments = block.get("input")
            arguments = arguments if isinstance(arguments, Mapping) else {"raw": arguments}
            self._calls[identifier] = ToolCall(
                identifier, storable(str(block.get("name") or "unknown")), storable_value(arguments)
            )
        elif isinstance(kind, str) and kind.endswith("_tool_result"):
            self.takes(_observation(block, None))
        else:
            self._texts.append(clean(content_text([block])[0]))

    def takes(self, observation: Observation) -> bool:
        if observation.source_call_id not in self._calls:
            return False
        self.blocks += 1
        self._observations.append(observation)
        return True

    def step(self) -> Step:
        return Step(
            0,
            Source.AGENT,
            "\n\n".join(self._texts),
            reasoning="\n\n".join(self._thoughts) or None,
            tool_calls=tuple(self._calls.values()),
            observations=tuple(self._observations),
            timestamp=self._timestamp,
            model=self._model,
            usage=self._usage,
            extra={**self._extra, "message_id": storable(self.id)} if isinstance(self.id, str) else self._extra or None,
        )


def _usage(raw: Mapping[str, Any], is_final: bool) -> Usage:
    """Input is what was sent in all: fresh, read from the cache and written to it."""
    parts = [number(raw.get(key)) for key in ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")]
    known = [part for part in parts if part is not None]
    return Usage(sum(known) if known else None, parts[1], number(raw.get("output_tokens")) if is_final else None)


def number(value: Any) -> int | None:
    """A count of 0 or more, or None."""
    is_count = isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e15
    return int(value) if is_count else None


def _observation(block: Mapping[str, Any], result: Any) -> Observation:
    text, parts = content_text(block.get("content"))
    extra: dict[str, Any] = {}
    if parts is not None:
        extra["content_parts"] = parts
    small = _small(result, text)
    if small:
        extra["result"] = small
    call = block.get("tool_use_id")
    return Observation(
        clean(text), None if call is None else storable(str(call)), block.get("is_error") is True, extra or None
    )


def _small(result: Any, shown: str) -> dict[str, Any]:
    """The short facts of a structured result. Long texts, lists and objects (whole files, patches, page images) are
    named below "left_out"; what the content already shows is not repeated."""
    if not isinstance(result, Mapping):
        return {}
    kept: dict[str, Any] = {}
    left_out = []
    for key, value in result.items():
        if (
            value is None
            or value == ""
            or value is False
            or (isinstance(value, str) and value.strip() == shown.strip())
        ):
            continue
        if isinstance(value, str) and len(value) > MAX_EXTRA_CHARS or isinstance(value, list | Mapping):
            left_out.append(str(key)[:100])
        else:
            kept[str(key)[:100]] = storable_value(value)
    if left_out:
        kept["left_out"] = left_out
    return kept
