"""Two steps that belong together, field by field: what is equal is folded, what differs is a difference of lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from html import escape

from benchapp.trajectory_store import StoredStep
from inspector.diff import Pair as LinePair
from inspector.diff import diff_file
from inspector.steps import FieldView, StepView
from runner.trajectories.fields import fields
from runner.types import Source

MAX_CHARS = 12_000  # of either text; longer ones stand beside each other, cut
MAX_LINES = 40  # of a difference that are drawn, folded ones not counted
LINE_BYTES = 170  # what a drawn line takes besides its text
PAGE_BYTES = 24_000  # of all differences on one page


@dataclass(frozen=True, slots=True)
class FieldPair:
    """One field on both sides, None where a side lacks it. `lines`: the lines around what differs, None standing for a
    stretch of equal ones; empty where the texts are better read whole."""

    name: str
    left: FieldView | None
    right: FieldView | None
    is_same: bool
    lines: tuple[LinePair | None, ...] = ()
    lines_left_out: int = 0

    @property
    def shown(self) -> FieldView:
        found = self.left or self.right
        assert found is not None
        return found


class Budget:
    """What may still be drawn on the page."""

    def __init__(self, left: int = PAGE_BYTES) -> None:
        self.left = left

    def takes(self, cost: int) -> bool:
        if cost > self.left:
            return False
        self.left -= cost
        return True


def paired_fields(
    left: StepView, right: StepView, stored: tuple[StoredStep, StoredStep], budget: Budget
) -> tuple[FieldPair, ...]:
    """The fields in the order of the left step, then those that only the right one has."""
    texts = [dict(fields(found.step)) for found in stored]
    views = [{view.name: view for view in step.fields} for step in (left, right)]
    compared = _compared(stored[0])
    return tuple(
        _pair(
            name,
            (views[0].get(name), views[1].get(name)),
            (_whole(name, texts[0], stored[0]), _whole(name, texts[1], stored[1])),
            compared=name.partition("/")[0] in compared,
            budget=budget,
        )
        for name in _names(views)
    )


def _names(views: Sequence[Mapping[str, FieldView]]) -> list[str]:
    """A field that only the right step has comes after the one it follows there."""
    names = list(views[0])
    before = ""
    for name in views[1]:
        if name not in names:
            names.insert(names.index(before) + 1 if before else 0, name)
        before = name
    return names


def _compared(stored: StoredStep) -> set[str]:
    """Words around a call are no difference, so they are not held against each other line by line."""
    step = stored.step
    acts = {"tool_calls"} if step.source is Source.AGENT and step.tool_calls else {"message"}
    return {*acts, "observations"}


def _whole(name: str, texts: Mapping[str, str], stored: StoredStep) -> str | None:
    """The text where it is at hand in full."""
    return None if name in stored.long else texts.get(name)


def _pair(
    name: str,
    views: tuple[FieldView | None, FieldView | None],
    texts: tuple[str | None, str | None],
    *,
    compared: bool,
    budget: Budget,
) -> FieldPair:
    left, right = texts
    is_same = left is not None and left == right
    if is_same or not compared or left is None or right is None or max(len(left), len(right)) > MAX_CHARS:
        return FieldPair(name, *views, is_same)
    if name.startswith("tool_calls/"):  # the tool stands in the label
        left, right = (text.partition("\n")[2] for text in (left, right))
    lines, left_out = _lines(left, right)
    cost = sum(LINE_BYTES + _cost(line) for line in lines if line)
    if not lines or not budget.takes(cost):
        return FieldPair(name, *views, is_same=False)
    return FieldPair(name, *views, is_same=False, lines=tuple(lines), lines_left_out=left_out)


def _cost(line: LinePair) -> int:
    return sum(
        len(escape(row.text).encode("utf-8", "replace")) + 30 * len(row.pieces)
        for row in (line.left, line.right)
        if row
    )


def _lines(left: str, right: str) -> tuple[list[LinePair | None], int]:
    """(lines around the differences, how many more there are). Texts that share no line at all have none."""
    diff = diff_file("text", *(f"{text.rstrip(chr(10))}\n".encode("utf-8", "replace") for text in (left, right)))
    if not any(row.sign == "same" for block in diff.blocks for row in block.rows) and diff.added != diff.removed:
        return [], 0
    lines: list[LinePair | None] = []
    left_out = 0
    for block in diff.blocks:
        if block.is_folded:
            lines.append(None)
            continue
        pairs = block.pairs
        room = max(0, MAX_LINES - sum(line is not None for line in lines))
        lines += pairs[:room]
        left_out += len(pairs) - len(pairs[:room])
    return ([] if all(line is None for line in lines) else lines), left_out
