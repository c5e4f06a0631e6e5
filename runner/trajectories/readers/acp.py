"""BenchFlow's log of the Agent Client Protocol: messages, thoughts and tool calls, one a line.

It has no times, no tokens and no tool input. If a result shows the call's subject (the loaded skill, the file that was
read or changed), the arguments are taken from it and marked so in the call's extra.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from runner.base.text import clean, storable, storable_value
from runner.base.types import JsonValue, Observation, Source, Step, ToolCall
from runner.trajectories.atif_values import content_text
from runner.trajectories.images import select_images
from runner.trajectories.log_records import Record, read_arguments, read_objects
from runner.trajectories.readers import ReadTrajectory

EXPECTED = "a message, a thought or a tool call"
_SKILL = re.compile(r"<skill_content name=\"([^\"\n]{1,200})\">")
_PATH = re.compile(r"<path>([^<\n]{1,4000})</path>")
MAX_PIECES = 10_000  # of one message; further ones make a separate step
_IDENTIFIER = re.compile(r"[A-Za-z_][\w.\-]{0,63}")


def read(result: ReadTrajectory) -> Iterator[Step]:
    """Yield one agent step from thoughts, message and the tool calls that follow them."""
    turn = _AcpTurn()
    for line, event in result.lines():
        kind = event.get("type")
        if kind == "user_message":
            yield from turn.flush()
            text, parts = content_text(event.get("text"))
            yield Step(0, Source.USER, clean(text), extra=select_images(parts) or None)
        elif kind in ("agent_thought", "agent_message"):
            if turn.calls or len(turn.thoughts) + len(turn.messages) > MAX_PIECES:
                yield from turn.flush()
            texts = turn.thoughts if kind == "agent_thought" else turn.messages
            texts.append(clean(content_text(event.get("text"))[0]))
        elif kind in ("tool_call", "tool_call_update"):
            if len(turn.calls) > MAX_PIECES:
                yield from turn.flush()
            turn.add_call(event)
        else:
            result.report_event(line, kind, EXPECTED)
    yield from turn.flush()
    result.facts["usage_from"] = "nothing"


class _AcpTurn:
    def __init__(self) -> None:
        self.thoughts: list[str] = []
        self.messages: list[str] = []
        self.calls: dict[str, dict[str, object]] = {}

    def add_call(self, event: Record) -> None:
        """Add a call, or update it from a later event with the same id."""
        identifier = storable(str(event.get("tool_call_id") or f"call-{len(self.calls) + 1}"))
        known = self.calls.setdefault(identifier, {})
        known.update({key: value for key, value in event.items() if value is not None})

    def flush(self) -> Iterator[Step]:
        if self.thoughts or self.messages or self.calls:
            pairs = [_call(identifier, event) for identifier, event in self.calls.items()]
            yield Step(
                0,
                Source.AGENT,
                "".join(self.messages).strip("\n"),
                reasoning="".join(self.thoughts).strip("\n") or None,
                tool_calls=tuple(call for call, _ in pairs),
                observations=tuple(observation for _, observation in pairs if observation is not None),
            )
        self.thoughts, self.messages, self.calls = [], [], {}


def _call(identifier: str, event: Record) -> tuple[ToolCall, Observation | None]:
    content = event.get("content")
    blocks = content if isinstance(content, list) else [] if content is None else [content]
    text, diffs = _texts(blocks), [block for block in read_objects(blocks) if block.get("type") == "diff"]
    title, kind = str(event.get("title") or ""), str(event.get("kind") or "")
    name = title if _IDENTIFIER.fullmatch(title) else kind or "tool"
    given = event.get("input") or event.get("rawInput")
    extra = {key: storable_value(event[key]) for key in ("kind", "title", "status") if event.get(key)}
    if isinstance(given, dict):
        arguments = read_arguments(given)
    else:
        arguments = _find_arguments(text, diffs)
        if arguments:
            extra["arguments_from"] = "result"
    status = event.get("status")
    is_over = blocks or status in ("completed", "failed")
    images = select_images([part for block in blocks for part in content_text(_inner(block))[1] or ()])
    observation = Observation(text, identifier, status == "failed", images or None) if is_over else None
    return ToolCall(identifier, storable(name), arguments, extra or None), observation


def _find_arguments(text: str, diffs: list[Record]) -> dict[str, JsonValue]:
    if diffs:
        first = storable_value({key: diffs[0].get(key) for key in ("path", "oldText", "newText")})
        return {key: value for key, value in first.items() if value not in (None, "")}
    skill, path = _SKILL.search(text[:2_000]), _PATH.match(text)
    if skill:
        return {"name": skill[1]}
    return {"path": path[1]} if path else {}


def _texts(blocks: list[object]) -> str:
    """The text blocks, without consecutive repeats: the log writes most of them twice."""
    texts: list[str] = []
    for block in blocks:
        if isinstance(block, dict) and block.get("type") == "diff":
            continue
        text = clean(content_text(_inner(block))[0])
        if not texts or texts[-1] != text:
            texts.append(text)
    return "\n".join(texts)


def _inner(block: object) -> object:
    return block.get("content") if isinstance(block, dict) and block.get("type") == "content" else block
