"""Which steps one answer brings, from the address: pages of the review rooms, chunks of the reader."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Protocol

from inspector.web.text.drawn_steps import PAGE_STEPS

CHUNK_STEPS = 50
FIRST_STEPS = 30  # around the one that the address points at; the next chunk follows while the reader reads these
BEFORE = 8  # steps above the one that the address points at


class Numbered(Protocol):
    @property
    def number(self) -> int: ...


@dataclass(frozen=True, slots=True)
class StepWindow:
    """`step` is the one the address points at, None where it points at none."""

    first: int
    count: int
    total: int
    step: int | None

    @property
    def last(self) -> int:
        return min(self.first + self.count - 1, self.total)

    def of(self, drawn: Sequence[Numbered]) -> StepWindow:
        """The window onto what one answer brings of its steps."""
        return replace(self, first=drawn[0].number, count=len(drawn)) if drawn else self

    @property
    def previous(self) -> int | None:
        return max(1, self.first - PAGE_STEPS) if self.first > 1 else None

    @property
    def next(self) -> int | None:
        return self.last + 1 if self.last < self.total else None

    @property
    def above(self) -> int | None:
        """The last step before this window."""
        return self.first - 1 if self.first > 1 else None


def parse_window(total: int, query: Mapping[str, str]) -> StepWindow:
    """?step=14 or ?step=last (?at= as well) opens the page that holds it; ?first=26 begins a page there."""
    step = _parse_place(query.get("at") or query.get("step", ""), total)
    first = _parse_place(query.get("first", ""), total)
    if first is None:
        first = ((step or 1) - 1) // PAGE_STEPS * PAGE_STEPS + 1
    elif step is not None and not first <= step < first + PAGE_STEPS:
        first = (step - 1) // PAGE_STEPS * PAGE_STEPS + 1
    return StepWindow(first, PAGE_STEPS, total, step)


def parse_chunk(total: int, query: Mapping[str, str]) -> StepWindow:
    """?at=14 or ?at=last (?step= as well) brings the steps around it, ?first=51 those from there on, ?to=50 those up to
    there."""
    step = _parse_place(query.get("at") or query.get("step", ""), total)
    first = _parse_place(query.get("first", ""), total)
    if (last := _parse_place(query.get("to", ""), total)) is not None:
        start = max(1, last - CHUNK_STEPS + 1)
        return StepWindow(start, last - start + 1, total, None)
    if first is None or (step is not None and not first <= step < first + CHUNK_STEPS):
        first = max(1, min((step or 1) - BEFORE, total - FIRST_STEPS + 1))
        return StepWindow(first, FIRST_STEPS, total, step)
    return StepWindow(first, CHUNK_STEPS, total, step)


def _parse_place(text: str, total: int) -> int | None:
    if not total:
        return None
    if text == "last":
        return total
    return min(max(int(text), 1), total) if text.isdecimal() and len(text) < 12 else None
