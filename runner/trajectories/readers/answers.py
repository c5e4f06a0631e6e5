"""Answers of a model that a program prints in pieces, put together into steps."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from runner.base.text import storable
from runner.base.types import JsonValue, Step
from runner.trajectories.readers import ReadTrajectory
from runner.trajectories.readers.claude_messages import MessageSteps


class AnswerSteps:
    """Puts the parts of an answer together: text in pieces, thoughts, calls. The next part after a result begins a new
    answer."""

    def __init__(self, model: str | None = None) -> None:
        self._steps = MessageSteps()
        self._blocks: list[dict[str, Any]] = []
        self._timestamp: str | None = None
        self.model = model

    def say(self, text: str, timestamp: str | None, kind: str = "text") -> Iterator[Step]:
        """A piece of the text (or, with kind "thinking", of the thoughts) under way."""
        key = "text" if kind == "text" else "thinking"
        if self._blocks and self._blocks[-1]["type"] == kind:
            self._blocks[-1]["pieces"].append(text)
        else:
            yield from self._add({"type": kind, "key": key, "pieces": [text]}, timestamp)

    def call(self, ident: Any, name: Any, arguments: Any, timestamp: str | None) -> Iterator[Step]:
        yield from self._add({"type": "tool_use", "id": ident, "name": name, "input": arguments or {}}, timestamp)

    def user(self, message: Mapping[str, Any], timestamp: str | None) -> Iterator[Step]:
        """A result, or what a person said."""
        yield from self._close()
        yield from self._steps.user(message, timestamp, {}, None)

    def flush(self) -> Iterator[Step]:
        yield from self._close()
        yield from self._steps.flush()

    def _add(self, block: dict[str, object], timestamp: str | None) -> Iterator[Step]:
        if not self._blocks:
            yield from self._steps.flush()
            self._timestamp = timestamp
        self._blocks.append(block)

    def _close(self) -> Iterator[Step]:
        if self._blocks:
            content = [
                {"type": block["type"], block["key"]: "".join(block["pieces"])} if "pieces" in block else block
                for block in self._blocks
            ]
            self._blocks = []
            yield from self._steps.assistant({"content": content, "model": self.model}, self._timestamp, {})


def take_init(result: ReadTrajectory, event: Mapping[str, JsonValue]) -> None:
    """Session and model of the event that begins a stream, where they are not known yet."""
    for key in ("session_id", "model"):
        if isinstance(value := event.get(key), str) and getattr(result.head, key) is None:
            result.set_head(**{key: storable(value)})
