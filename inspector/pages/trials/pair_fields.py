"""Two steps that belong together, field by field: what is equal is folded, what differs is a difference of lines."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from benchapp.record.trajectory_store import StoredStep
from inspector.web.text.diff import RowPair, diff_file
from inspector.web.text.drawn_steps import FieldView, StepView
from runner.base.types import Source
from runner.trajectories.fields import fields

MAX_CHARS = 12_000  # of either text; longer ones stand beside each other, folded


@dataclass(frozen=True, slots=True)
class Equal:
    """Neighbouring lines that both texts have."""

    equal: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class FieldPair:
    """One field on both sides, None where a side lacks it. `lines`: the lines around what differs, with stretches of
    equal ones folded; empty where the texts are better read whole."""

    name: str
    left: FieldView | None
    right: FieldView | None
    is_same: bool
    lines: tuple[RowPair | Equal, ...] = ()

    @property
    def shown(self) -> FieldView:
        found = self.left or self.right
        assert found is not None
        return found


def paired_fields(left: StepView, right: StepView, stored: tuple[StoredStep, StoredStep]) -> tuple[FieldPair, ...]:
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
) -> FieldPair:
    left, right = texts
    is_same = left is not None and left == right
    if is_same or not compared or left is None or right is None or max(len(left), len(right)) > MAX_CHARS:
        return FieldPair(name, *views, is_same)
    if name.startswith("tool_calls/"):  # the tool stands in the label
        left, right = (text.partition("\n")[2] for text in (left, right))
    return FieldPair(name, *views, is_same=False, lines=tuple(_lines(left, right)))


def _lines(left: str, right: str) -> list[RowPair | Equal]:
    """The lines around the differences. Texts that share no line at all have none."""
    diff = diff_file("text", *(f"{text.rstrip(chr(10))}\n".encode("utf-8", "replace") for text in (left, right)))
    if not any(row.sign == "same" for block in diff.blocks for row in block.rows) and diff.added != diff.removed:
        return []
    lines: list[RowPair | Equal] = []
    for block in diff.blocks:
        lines += [Equal(tuple(row.text for row in block.rows))] if block.is_folded else block.pairs
    return [] if all(isinstance(line, Equal) for line in lines) else lines
