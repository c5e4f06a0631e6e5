"""The map of a trajectory: its outline, the marks next to it, and the ways to errors, skills and deciding steps.

Up to `MAX_STEPS` steps every one is a row. Of a longer trajectory there is a heading for each stored chunk, whose rows
come when it is opened: no page reads more than one chunk of them. 337,351 steps are some 930 chunks, more than a
browser should hold open, so neighbours are drawn as one heading, and their own headings come when it is opened.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import NamedTuple

from benchapp.analysis.deciding.deciding_steps import StepIndex
from benchapp.analysis.deciding.step_glances import StepGlance, StepKind, glance_at
from benchapp.models import Trajectory
from benchapp.record.trajectory_store import read_steps
from inspector.pages.trials.cut_texts import Cuts
from inspector.pages.trials.outline import MAX_TOOLS, ChunkSummary, find_next_error, read_chunk_summaries
from inspector.web.text.visible import one_line, visible

MAX_HEADINGS = 50  # in one list; of more, neighbours are joined
BINS = 600  # of the map; where there are more steps, the worst of a bin is drawn
WIDEST = 36  # of the bars in a row
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


@dataclass(frozen=True, slots=True)
class MapMark:
    """A band of the map from `top` on, in steps from 0."""

    top: int
    height: int
    kind: str  # deciding, error, skill
    step: int


@dataclass(frozen=True, slots=True)
class StepMap:
    """`lines` or `headings`: one of them is empty."""

    total: int
    lines: tuple[OutlineLine, ...]
    headings: tuple[ChunkHeading, ...]
    marks: tuple[MapMark, ...]
    errors_total: int
    first_error: int | None
    skill_steps: int
    deciding_steps: int
    writes: int
    tools: tuple[tuple[str, int], ...]
    tools_left_out: int

    @property
    def has_bars(self) -> bool:
        return any(line.bars for line in self.lines)


def build_step_map(
    trajectory: Trajectory,
    chunks: Sequence[ChunkSummary],
    index: StepIndex | None,
    *,
    clocks: Mapping[int, Clock],
    skills: Collection[int],
    flags: Mapping[int, Sequence[str]],
    cuts: Cuts,
    here: int,
) -> StepMap:
    """No query. `clocks`: of `time_steps`. `flags`: words of deciding steps by number. `here`: the first step on the page."""
    glances = index.glances if index else ()
    named = (step for chunk in chunks for step in chunk.errors)
    errors = [one.number for one in glances if one.is_error] if index else list(named)
    tools: Counter[str] = Counter()
    for chunk in chunks:
        tools.update(chunk.tools)
    return StepMap(
        total=trajectory.steps_total,
        lines=tuple(draw_lines(glances, clocks, skills=skills, flags=flags, cuts=cuts)),
        headings=() if index else tuple(_head(chunk, skills, here) for chunk in chunks),
        marks=tuple(_place_marks(trajectory.steps_total, errors, skills, flags)),
        errors_total=sum(chunk.errors_total for chunk in chunks),
        first_error=errors[0] if errors else None,
        skill_steps=len(skills),
        deciding_steps=len(flags),
        writes=sum(one.kind is StepKind.WRITE for one in glances),
        tools=tuple((one_line(name, 40), times) for name, times in tools.most_common(MAX_TOOLS)),
        tools_left_out=max(0, len(tools) - MAX_TOOLS),
    )


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


def read_headings(trajectory: Trajectory, first: int, last: int, skills: Collection[int]) -> list[ChunkHeading]:
    """Of the chunks between two steps, which one heading joins; none where they are one chunk. One query."""
    chunks = [one for one in read_chunk_summaries(trajectory) if first <= one.first and one.last <= last]
    return [_head(chunk, skills, here=0) for chunk in chunks] if len(chunks) > 1 else []


def read_lines(trajectory: Trajectory, first: int, count: int, skills: Collection[int]) -> list[OutlineLine]:
    """The rows below one heading, from the steps themselves. One query."""
    glances = [glance_at(stored.step) for stored in read_steps(trajectory, first, count)]
    return list(draw_lines(glances, time_steps(glances), skills=skills, flags={}, cuts=Cuts()))


def draw_lines(
    glances: Sequence[StepGlance],
    clocks: Mapping[int, Clock],
    *,
    skills: Collection[int],
    flags: Mapping[int, Sequence[str]],
    cuts: Cuts,
) -> Iterator[OutlineLine]:
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
        took = clocks.get(one.number, (None, None))[0]
        yield OutlineLine(
            number=one.number,
            kind=one.kind,
            label=visible(one.label),
            note=visible(words[0]) if words else ended if one.is_error else "",
            is_error=one.is_error,
            has_skill=one.number in skills,
            is_deciding=bool(words),
            missed=cuts.list_missed(one.number),
            bars=_draw_bars(took, longest, one.output_tokens, most),
        )


def _draw_bars(took: float | None, longest: float, tokens: int | None, most: int) -> tuple[float, float] | None:
    if took is None and not tokens:
        return None
    return (
        max(1.5, WIDEST * took / longest) if took and longest else 0.0,
        max(1.5, WIDEST * tokens / most) if tokens and most else 0.0,
    )


def time_steps(glances: Iterable[StepGlance]) -> dict[int, Clock]:
    """number -> (seconds since the step before, seconds since the first), where the record has both times."""
    found: dict[int, Clock] = {}
    start: datetime | None = None
    before: datetime | None = None
    for one in glances:
        at = _read_time(one.at)
        if at is None or (start is not None and (at.tzinfo is None) != (start.tzinfo is None)):
            before = None
            continue
        start = start or at
        took = (at - before).total_seconds() if before else None
        found[one.number] = (took if took is None or took >= 0 else None, (at - start).total_seconds())
        before = at
    return found


def _read_time(text: str) -> datetime | None:
    try:
        return datetime.fromisoformat(text) if text else None
    except ValueError:
        return None


def _head(chunk: ChunkSummary, skills: Collection[int], here: int) -> ChunkHeading:
    used = sum(chunk.first <= step <= chunk.last for step in skills)
    return ChunkHeading(chunk.first, chunk.last, chunk.errors_total, used, chunk.first <= here <= chunk.last)


def _place_marks(
    total: int, errors: Iterable[int], skills: Iterable[int], deciding: Iterable[int]
) -> Iterator[MapMark]:
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
