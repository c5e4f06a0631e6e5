"""The outline of a trajectory, the marks next to it, and the ways to errors and skills, without reading its steps.

A short trajectory has every step as a row. A longer one has a heading for each stored chunk, whose rows come when it is
opened: no page reads more than one chunk of them. 337,351 steps are some 930 chunks, more than a browser should hold
open, so neighbours are drawn as one heading, and their own headings come when it is opened.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from benchapp.analysis.deciding.step_glances import StepGlance, StepKind
from benchapp.models import Trajectory
from benchapp.record.trajectory_store import StoredJson, read_outline, read_steps
from benchapp.record.visible import visible
from inspector.reader.compactions import Cuts

MAX_HEADINGS = 50  # in one list; of more, neighbours are joined
BINS = 600  # of the map; where there are more steps, the worst of a bin is drawn
WIDEST = 36  # of the bars in a row
STRIP_MARKS, STRIP_WIDTH = 160, 1_000
_WORST = {"deciding": 3, "error": 2, "skill": 1}

Clock = tuple[float | None, float | None]  # seconds it took, seconds since the start


class OutlineLine(NamedTuple):
    """One step in a line. `note`: why it matters, in words. `bars`: widths for time and tokens."""

    number: int
    kind: StepKind
    label: str
    note: str
    is_error: bool
    has_skill: bool
    is_deciding: bool
    missed: str
    bars: tuple[float, float] | None


@dataclass(frozen=True, slots=True)
class ChunkHeading:
    first: int
    last: int
    errors: int
    skills: int
    is_here: bool


class MapMark(NamedTuple):
    """A band of the map from `top` on, in steps from 0."""

    top: int
    height: int
    kind: str  # deciding, error, skill
    step: int


class ChunkSummary:
    """What the summary of one chunk of steps holds. `errors`: the first few steps with one."""

    def __init__(self, first: int, steps: int, summary: StoredJson) -> None:
        self.first, self.last = first, first + steps - 1
        self.tools: Mapping[str, int] = summary.get("tools", {})
        self.errors: Sequence[int] = summary.get("errors", ())
        self.errors_total: int = summary.get("errors_total", 0)


def read_chunk_summaries(trajectory: Trajectory) -> list[ChunkSummary]:
    """One query."""
    return [ChunkSummary(*row) for row in trajectory.chunks.values_list("first_step", "steps_total", "summary")]


# --- rows and headings ------------------------------------------------------------------------------------------


def read_lines(trajectory: Trajectory, first: int, count: int, skills: Collection[int]) -> list[OutlineLine]:
    """The rows below one heading, from the steps themselves. One query."""
    glances = [StepGlance(stored.step) for stored in read_steps(trajectory, first, count)]
    return list(draw_lines(glances, time_steps(glances), skills=skills, flags={}, cuts=Cuts()))


def draw_lines(
    glances: Sequence[StepGlance],
    clocks: Mapping[int, Clock],
    *,
    skills: Collection[int],
    flags: Mapping[int, Sequence[str]],
    cuts: Cuts,
) -> Iterator[OutlineLine]:
    """`flags`: words of deciding steps by number."""
    longest = max((took for took, _ in clocks.values() if took), default=0.0)
    most = max((one.output_tokens or 0 for one in glances), default=0)
    folded, is_followed = set(), False  # empty messages before what the agent did next: one row for both
    for one in reversed(glances):
        if not one.says_nothing:
            is_followed = one.is_by_agent
        elif is_followed:
            folded.add(one.number)
    for one in glances:
        if one.number in folded:
            continue
        words = flags.get(one.number, ())
        ended = f"exit {one.exit_code}" if one.exit_code else "error"
        took, tokens = clocks.get(one.number, (None, None))[0], one.output_tokens
        time_bar = max(1.5, WIDEST * took / longest) if took and longest else 0.0
        token_bar = max(1.5, WIDEST * tokens / most) if tokens and most else 0.0
        yield OutlineLine(
            number=one.number,
            kind=one.kind,
            label=visible(one.label),
            note=visible(words[0]) if words else ended if one.is_error else "",
            is_error=one.is_error,
            has_skill=one.number in skills,
            is_deciding=bool(words),
            missed=cuts.list_missed(one.number),
            bars=None if took is None and not tokens else (time_bar, token_bar),
        )


def time_steps(glances: Iterable[StepGlance]) -> dict[int, Clock]:
    """number -> (seconds since the step before, seconds since the first), where the record has both times."""
    found: dict[int, Clock] = {}
    start: datetime | None = None
    before: datetime | None = None
    for one in glances:
        try:
            at = datetime.fromisoformat(one.at) if one.at else None
        except ValueError:
            at = None
        if at is None or (start is not None and (at.tzinfo is None) != (start.tzinfo is None)):
            before = None
            continue
        start = start or at
        took = (at - before).total_seconds() if before else None
        found[one.number] = (took if took is None or took >= 0 else None, (at - start).total_seconds())
        before = at
    return found


def draw_heading(chunk: ChunkSummary, skills: Collection[int], here: int) -> ChunkHeading:
    used = sum(chunk.first <= step <= chunk.last for step in skills)
    return ChunkHeading(chunk.first, chunk.last, chunk.errors_total, used, chunk.first <= here <= chunk.last)


def read_headings(trajectory: Trajectory, first: int, last: int, skills: Collection[int]) -> list[ChunkHeading]:
    """Of the chunks between two steps, which one heading joins; none where they are one chunk. One query."""
    chunks = [one for one in read_chunk_summaries(trajectory) if first <= one.first and one.last <= last]
    return [draw_heading(chunk, skills, here=0) for chunk in chunks] if len(chunks) > 1 else []


def join_headings(headings: Sequence[ChunkHeading]) -> list[ChunkHeading]:
    """At most MAX_HEADINGS, each over as many neighbours as it takes."""
    size = max(1, -(-len(headings) // MAX_HEADINGS))
    parts = (headings[start : start + size] for start in range(0, len(headings), size))
    return [
        ChunkHeading(
            first=part[0].first,
            last=part[-1].last,
            errors=sum(one.errors for one in part),
            skills=sum(one.skills for one in part),
            is_here=any(one.is_here for one in part),
        )
        for part in parts
    ]


# --- marks and ways ---------------------------------------------------------------------------------------------


def place_marks(total: int, errors: Iterable[int], skills: Iterable[int], deciding: Iterable[int]) -> Iterator[MapMark]:
    """At most BINS bands; the worst step of each gives it its colour and its address."""
    size = max(1, -(-total // BINS))
    worst: dict[int, tuple[str, int]] = {}
    for kind, steps in (("skill", skills), ("error", errors), ("deciding", deciding)):
        for step in sorted(steps):
            if 1 <= step <= total:
                place = (step - 1) // size
                if _WORST[kind] > _WORST.get(worst.get(place, ("", 0))[0], 0):
                    worst[place] = kind, step
    for place, (kind, step) in sorted(worst.items()):
        yield MapMark(place * size, size, kind, step)


def find_next(
    trajectory: Trajectory, chunks: Sequence[ChunkSummary], skills: Collection[int], kind: str, after: int
) -> int | None:
    """The next step with an error or a skill use: for trajectories whose rows are not all on the page."""
    if kind == "skill":
        return min((step for step in skills if step > after), default=None)
    return find_next_error(trajectory, chunks, after) if kind == "error" else None


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


def draw_strip(trajectory: Trajectory, first: int, count: int, skills: Collection[int]) -> dict[str, object]:
    """All steps as one strip, for the template: marks (kind, x) where errors and skills are, `here` (x, width) of the
    page shown, and the ways to errors. Errors that would fall on the same place are one mark. One query for the
    summaries, at most one for the next error."""
    total = trajectory.steps_total
    chunks = read_chunk_summaries(trajectory)

    def x(step: int) -> float:
        return STRIP_WIDTH * (step - 1) / max(total, 1)

    errors = sorted({round(x(step)) for chunk in chunks for step in chunk.errors})
    marks = [("error", place) for place in errors[:: max(1, -(-len(errors) // STRIP_MARKS))]]
    return {
        "total": total,
        "errors_total": sum(chunk.errors_total for chunk in chunks),
        "marks": marks + [("skill", round(x(step))) for step in sorted(skills)[:STRIP_MARKS]],
        "here": (x(first), max(4.0, STRIP_WIDTH * count / max(total, 1))),
        "first_error": next((step for chunk in chunks for step in chunk.errors), None),
        "next_error": find_next_error(trajectory, chunks, first + count - 1),
    }
