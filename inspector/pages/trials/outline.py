"""The outline of a trajectory and the ways through it, without reading its steps.

For any length, a page reads one small summary per chunk and the outline rows of its window, no more.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from benchapp.models import Trajectory
from benchapp.record.trajectory_store import read_outline
from inspector.web.text.visible import one_line

WINDOW = 80  # outline rows on one page
MARKS = 160  # marks drawn on the strip
STRIP_WIDTH = 1_000
ROW_CHARS = 56
MAX_TOOLS = 12

# Harnesses wrap every command in a shell; in a column of commands only what differs is worth its room.
_SHELL = re.compile(r"""^(?:/bin/|/usr/bin/)?(?:ba|z)?sh -l?c +['"]?""")


@dataclass(frozen=True, slots=True)
class OutlineRow:
    """One step in a line."""

    number: int
    source: str
    tool: str
    text: str
    is_error: bool
    has_skill: bool


@dataclass(frozen=True, slots=True)
class StripMark:
    """A place on the strip: x from 0 to STRIP_WIDTH."""

    x: float
    kind: str  # error, skill


@dataclass(frozen=True, slots=True)
class Outline:
    """The strip, the rows around the shown page, and the ways to errors."""

    rows: tuple[OutlineRow, ...]
    total: int
    errors_total: int
    tools: tuple[tuple[str, int], ...]
    tools_left_out: int
    marks: tuple[StripMark, ...]
    here: tuple[float, float]  # x and width of the page on the strip
    first_error: int | None
    next_error: int | None


@dataclass(frozen=True, slots=True)
class ChunkSummary:
    """What the summary of one chunk of steps holds."""

    first: int
    last: int
    tools: Mapping[str, int]
    errors: Sequence[int]  # steps, the first few
    errors_total: int


def read_outline_around(trajectory: Trajectory, first: int, count: int, skill_steps: Iterable[int]) -> Outline:
    """The outline around a page of steps. Three queries: summaries, chunks of the window, their outlines.

    `skill_steps` are the recorded uses, which know what was mounted; the outline's own marks only guess.
    """
    skills = set(skill_steps)
    total = trajectory.steps_total
    chunks = read_chunk_summaries(trajectory)
    start = max(1, min(first - (WINDOW - count) // 2, total - WINDOW + 1))
    rows = read_outline(trajectory, start, WINDOW) if total else []
    tools: Counter[str] = Counter()
    for chunk in chunks:
        tools.update(chunk.tools)
    last = first + count - 1
    return Outline(
        rows=tuple(_draw_row(row, skills) for row in rows),
        total=total,
        errors_total=sum(chunk.errors_total for chunk in chunks),
        tools=tuple((one_line(name, 40), times) for name, times in tools.most_common(MAX_TOOLS)),
        tools_left_out=max(0, len(tools) - MAX_TOOLS),
        marks=tuple(_place_marks(chunks, skills, total)),
        here=(_x(first, total), max(4.0, STRIP_WIDTH * count / max(total, 1))),
        first_error=next((step for chunk in chunks for step in chunk.errors), None),
        next_error=find_next_error(trajectory, chunks, last),
    )


def read_chunk_summaries(trajectory: Trajectory) -> list[ChunkSummary]:
    """One query."""
    rows = trajectory.chunks.values_list("first_step", "steps_total", "summary")
    return [
        ChunkSummary(
            own, own + steps - 1, summary.get("tools", {}), summary.get("errors", ()), summary.get("errors_total", 0)
        )
        for own, steps, summary in rows
    ]


def _draw_row(row: dict[str, Any], skills: set[int]) -> OutlineRow:
    tools = row.get("tools", [])
    more = row.get("calls", 0) - 1
    return OutlineRow(
        number=row["n"],
        source=row["source"],
        tool=(one_line(tools[0], 24) + (f" +{more}" if more > 0 else "")) if tools else "",
        text=one_line(_unwrap(row.get("text", "")), ROW_CHARS),
        is_error=bool(row.get("error")),
        has_skill=row["n"] in skills,
    )


def _unwrap(text: str) -> str:
    bare = _SHELL.sub("", text)
    return bare if bare == text else bare.rstrip("'\"")


def _place_marks(chunks: Sequence[ChunkSummary], skills: set[int], total: int) -> Iterable[StripMark]:
    """At most MARKS places; where there are more, errors that would fall on the same place are one mark."""
    places = {("error", round(_x(step, total))) for chunk in chunks for step in chunk.errors}
    drawn = sorted(places)[:: max(1, -(-len(places) // MARKS))]
    drawn += sorted(("skill", round(_x(step, total))) for step in skills)[:MARKS]
    return (StripMark(x, kind) for kind, x in drawn)


def _x(step: int, total: int) -> float:
    return STRIP_WIDTH * (step - 1) / max(total, 1)


def find_next_error(trajectory: Trajectory, chunks: Sequence[ChunkSummary], after: int) -> int | None:
    """The first step with an error after `after`. A chunk that names only its first errors is read once more."""
    for chunk in chunks:
        if chunk.last <= after or not chunk.errors:
            continue
        steps = (step for step in chunk.errors if step > after)
        if (named := next(steps, None)) is not None:
            return named
        if chunk.errors_total > len(chunk.errors):
            start = max(after + 1, chunk.first)
            rows = read_outline(trajectory, start, chunk.last - start + 1)
            steps = (int(row["n"]) for row in rows if row.get("error"))
            if (read := next(steps, None)) is not None:
                return read
    return None
