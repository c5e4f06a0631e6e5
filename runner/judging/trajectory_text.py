"""A trajectory as a judge reads it: what the agent said and thought in full, calls and results cut short.

The limits are those of the SkillLearnBench release: 300 characters of a call's input, 800 of a result, and of a text
over 600,000 the first 400,000 and the last 200,000. User and system messages are left out: the task is given
separately, and the rest are skills that a harness pasted in. No verdict is shown.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator

from runner.base.text import cut, mark_left_out
from runner.base.types import Source, Step
from runner.trajectories.fields import tool_call_text

MAX_CALL_CHARS = 300
MAX_RESULT_CHARS = 800
MAX_HEAD_CHARS = 400_000
MAX_TAIL_CHARS = 200_000


def trajectory_text(trajectories: Iterable[tuple[str, Iterable[Step]]]) -> str:
    """(name, steps) of each trajectory of an attempt, in order. Never holds more than the head and the tail."""
    kept = _HeadAndTail()
    for name, steps in trajectories:
        kept.add(f"# Trajectory {name}\n")
        for step in steps:
            if step.source is Source.AGENT:
                kept.add("\n".join(_lines(step)) + "\n")
    return kept.text()


def _lines(step: Step) -> Iterator[str]:
    yield f"## Step {step.number}"
    if step.reasoning:
        yield f"[thinking] {step.reasoning}"
    if step.message:
        yield f"[text] {step.message}"
    for call in step.tool_calls:
        yield f"[call] {cut(tool_call_text(call), MAX_CALL_CHARS)}"
    for observation in step.observations:
        word = "error" if observation.is_error else "result"
        yield f"[{word}] {cut(observation.content, MAX_RESULT_CHARS)}"


class _HeadAndTail:
    """The beginning up to its limit, then the end up to its own."""

    def __init__(self) -> None:
        self.head: list[str] = []
        self.tail: deque[str] = deque()
        self.head_chars = self.tail_chars = self.dropped = 0

    def add(self, text: str) -> None:
        room = MAX_HEAD_CHARS - self.head_chars
        if room > 0:
            self.head.append(text[:room])
            self.head_chars += len(text[:room])
            text = text[room:]
        if not text:
            return
        self.tail.append(text)
        self.tail_chars += len(text)
        while self.tail_chars > MAX_TAIL_CHARS:
            over = min(self.tail_chars - MAX_TAIL_CHARS, len(self.tail[0]))
            self.tail[0] = self.tail[0][over:]
            self.tail_chars, self.dropped = self.tail_chars - over, self.dropped + over
            if not self.tail[0]:
                self.tail.popleft()

    def text(self) -> str:
        gap = [f"\n{mark_left_out(self.dropped)}\n"] if self.dropped else []
        return "".join([*self.head, *gap, *self.tail])
