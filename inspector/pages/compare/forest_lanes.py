"""The one large chart of a comparison: a table with a row per group, its interval drawn on one axis of points."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from math import ceil, floor, log10

from django.utils.html import escape
from django.utils.safestring import SafeString

from benchapp.models import Run
from benchapp.record.visible import visible
from benchapp.stats.comparing.answer import Answer, JudgedGroup, arrange
from benchapp.stats.comparing.comparison import GroupComparison
from benchapp.stats.comparing.condition_names import SEPARATOR, ConditionName, Origin, name_condition
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.shares import half_up
from benchapp.stats.metrics.amounts import render_metric, render_signed
from benchapp.stats.metrics.metric import TrialMetric
from inspector.charts.drawing.arms import arms_of
from inspector.charts.drawing.forest_rows import list_published_rows
from inspector.charts.sheet import ChartSheet
from inspector.pages.compare.bar_lanes import draw_share

MAX_LANES = 40  # more are no picture: the chart's own page and its table have all
TICKS = 5  # about so many on an axis
ROOM_OF_WORD = 0.2  # of the axis, between the middles of the baseline's word and of a number
ROOM = 0.06  # of the axis, free on either side
HEADS = {  # who wrote the first skill
    Origin.HUMAN: "A human wrote the first skill",
    Origin.MODEL: "The model wrote its own",
}


@dataclass(frozen=True, slots=True)
class PointAxis:
    """From `low` to `high` in the unit of the difference: points for shares."""

    low: float
    high: float
    ticks: tuple[float, ...] = ()

    @classmethod
    def around(cls, values: Iterable[float]) -> PointAxis:
        """Wide enough for every value and for 0, with some five round ticks."""
        found = [0.0, *values]
        low, high = min(found), max(found)
        step = _round_step((high - low) / TICKS)
        room = ROOM * (high - low) or 1.0
        low, high = low - room, high + room
        return cls(low, high, tuple(step * place for place in range(ceil(low / step), floor(high / step) + 1)))

    def place(self, value: float) -> str:
        """As a share of the width, for an attribute of an SVG."""
        return f"{100 * (value - self.low) / (self.high - self.low):.2f}%"


def _round_step(about: float) -> float:
    """1, 2 or 5 times a power of ten, at least about as large; 1 for nothing."""
    if about <= 0:
        return 1.0
    power = 10.0 ** floor(log10(about))
    return next(power * part for part in (1, 2, 5, 10) if power * part >= about * 0.999)


@dataclass(frozen=True, slots=True)
class AxisTick:
    """`at` in percent of the width; `words` beneath."""

    at: str
    words: str


@dataclass(frozen=True, slots=True)
class LaneDot:
    """A small mark with what it says on hover."""

    at: str
    says: str


@dataclass(frozen=True, slots=True)
class RunCell:
    """One run with its own value of the metric, "?" where none of its trials was scored; `count` is of its whole group."""

    run: Run
    text: str
    count: str


@dataclass(frozen=True, slots=True)
class ForestLane:
    """One group. Places are in percent of the width; empty where there is nothing to draw. `solved` and `count`: its value
    and k of n; `beside`: what tells it from others of its condition. `rank`: those left open. `dots`: replicates; `printed`: differences of papers."""

    group: Group
    name: ConditionName
    url: str
    solved: str
    count: str
    runs: tuple[RunCell, ...] = ()
    is_baseline: bool = False
    beside: str = ""
    judged: JudgedGroup | None = None
    delta: str = ""
    around: str = ""
    point: str = ""
    low: str = ""
    high: str = ""
    dots: tuple[LaneDot, ...] = ()
    printed: tuple[LaneDot, ...] = ()
    grid: str = ""
    rank: str = ""
    alone: SafeString = SafeString("")

    @property
    def drawn(self) -> SafeString:
        """The row as a drawing as wide as its cell: grid, printed differences, interval, replicates, mark. A bar where
        there is nothing to compare with."""
        if self.alone:
            return self.alone
        colour, said = f"c-{self.name.colour or 'ink'}", f"{self.solved}, {self.delta}, {self.around}".strip(", ")
        parts = [self.grid, *(_draw_printed(mark) for mark in self.printed)]
        if self.low:
            parts.append(f'<line class="range {colour}" x1="{self.low}" x2="{self.high}" y1="14" y2="14"/>')
        parts += [
            f'<circle class="replicate {colour}" r="2.2" cx="{dot.at}" cy="27"><title>{escape(dot.says)}</title></circle>'
            for dot in self.dots
        ]
        if self.point:
            hollow = " open" if self.is_open else ""
            parts.append(
                f'<use href="#shape-{self.name.shape}" class="point {colour}{hollow}" x="{self.point}" y="14"/>'
            )
        height = 36 if self.dots else 28
        return SafeString(
            f'<svg class="lane" width="100%" height="{height}" role="img" aria-label="{escape(said)}">{"".join(parts)}</svg>'
        )

    @property
    def is_open(self) -> bool:
        """A hollow mark: not clear, or without a verdict."""
        return self.judged is not None and not self.judged.effect.is_clear

    @property
    def settle(self) -> str:
        """What would settle an open difference."""
        judged = self.judged
        return f"{judged.more} more {judged.more_of} to detect 10 points" if judged and judged.more else ""


@dataclass(frozen=True, slots=True)
class LaneSection:
    """Lanes under a head: who wrote the first skill, and the model where there are several."""

    title: str
    lanes: tuple[ForestLane, ...]


@dataclass(frozen=True, slots=True)
class Forest:
    """`left_out`: groups that the metric asked for does not cover; `alone`: those without a difference, where others have
    one; `hidden`: lanes beyond what fits."""

    sections: tuple[LaneSection, ...]
    ticks: tuple[AxisTick, ...]
    unit: str
    left_out: tuple[Group, ...] = ()
    hidden: int = 0
    papers: tuple[str, ...] = field(default=())
    alone: tuple[ForestLane, ...] = ()

    @property
    def has_dots(self) -> bool:
        return any(lane.dots for section in self.sections for lane in section.lanes)


def build_forest(sheet: ChartSheet, answer: Answer) -> Forest:
    comparison, metric = sheet.comparison, answer.metric
    groups = arrange(comparison.groups.all)
    covered = [group for group in groups if comparison.cell(group, metric).rate.planned]
    judged = {each.group.identity: each for each in answer.judged}
    if not judged:
        return _build_alone(sheet, answer, groups, covered)
    held = {group.identity for each in answer.judged for group in (each.group, each.baseline)}
    covered, bare = _part(covered, held)
    printed = _list_printed(sheet, metric)
    scale = 100 if metric.is_share else 1
    axis = PointAxis.around(_list_ends(covered, judged.values(), printed, scale))
    shown, grid = covered[:MAX_LANES], _draw_grid(axis)
    lanes = {
        group.identity: replace(
            _build_lane(sheet, metric, group, judged.get(group.identity), axis, printed),
            grid=grid,
            rank=_write_rank(answer, group),
        )
        for group in shown
    }
    return Forest(
        tuple(_split_sections(shown, lanes)),
        tuple(_write_ticks(comparison, axis)),
        "points" if metric.is_share else metric.unit.value,
        tuple(group for group in groups if group not in covered),
        len(covered) - len(shown),
        tuple(dict.fromkeys(row.paper for row in sheet.published)) if printed else (),
        tuple(replace(_build_lane(sheet, metric, group, None, axis, {}), beside=_tell_all(group)) for group in bare),
    )


def _part(groups: Iterable[Group], held: Collection[object]) -> tuple[list[Group], list[Group]]:
    """Those that are compared with one another, and the others."""
    found = list(groups)
    return [each for each in found if each.identity in held], [each for each in found if each.identity not in held]


def _write_rank(answer: Answer, group: Group) -> str:
    """Empty where it is one of fewer than three, and where pairs are too many."""
    found = answer.ranks.by_group.get(group.identity) if answer.ranks else None
    return found.says if found else ""


def _build_alone(sheet: ChartSheet, answer: Answer, groups: Sequence[Group], covered: Sequence[Group]) -> Forest:
    """Without any difference: the values themselves, shares as bars from nothing to all."""
    axis, shown, metric = PointAxis.around(()), covered[:MAX_LANES], answer.metric
    lanes = {}
    for group in shown:
        lane, cell = (
            replace(_build_lane(sheet, metric, group, None, axis, {}), point="", rank=_write_rank(answer, group)),
            sheet.comparison.cell(group, metric),
        )
        if metric.is_share and cell.value is not None:
            lane = replace(
                lane, alone=draw_share(group.condition, cell.value, cell.spread, f"{lane.solved} {lane.count}")
            )
        lanes[group.identity] = lane
    return Forest(
        tuple(_split_sections(shown, lanes)),
        tuple(AxisTick(f"{tick}%", f"{tick} %") for tick in (0, 25, 50, 75, 100)) if metric.is_share else (),
        "",
        tuple(group for group in groups if group not in covered),
        len(covered) - len(shown),
    )


def _draw_printed(mark: LaneDot) -> str:
    said = escape(visible(mark.says))
    return f'<line class="printed-mark" x1="{mark.at}" x2="{mark.at}" y1="5" y2="24"><title>{said}</title></line>'


def _draw_grid(axis: PointAxis) -> str:
    ticks = "".join(
        f'<line class="grid-line" x1="{at}" x2="{at}" y1="0" y2="36"/>' for at in map(axis.place, axis.ticks)
    )
    zero = axis.place(0)
    return f'{ticks}<line class="zero-line" x1="{zero}" x2="{zero}" y1="0" y2="36"/>'


def _list_ends(
    groups: Sequence[Group],
    judged: Iterable[JudgedGroup],
    printed: dict[str, list[tuple[float, str]]],
    scale: float,
) -> Iterable[float]:
    """Every value that must be in sight; of papers only what stands in a row of one's own."""
    for each in judged:
        interval = each.difference.interval
        yield from (
            scale * value for value in (each.difference.delta, *((interval.low, interval.high) if interval else ()))
        )
    conditions = {group.condition for group in groups}
    yield from (delta for condition, found in printed.items() if condition in conditions for delta, _ in found)


def _list_printed(sheet: ChartSheet, metric: TrialMetric) -> dict[str, list[tuple[float, str]]]:
    """Condition -> differences that papers print, with what they say."""
    found: dict[str, list[tuple[float, str]]] = {}
    for row in list_published_rows(sheet.published, metric.key, sheet.comparison.groups.baseline):
        found.setdefault(row.condition, []).append((row.delta, f"{row.label}: {row.says}"))
    return found


def _write_ticks(comparison: GroupComparison, axis: PointAxis) -> Iterator[AxisTick]:
    """The baseline's word at 0, and the numbers that have room next to it."""
    baseline = name_condition(comparison.choices.baseline).short.lower()
    digits = 0 if all(float(each).is_integer() for each in axis.ticks) else 2
    for tick in axis.ticks:
        if tick == 0:
            yield AxisTick(axis.place(0), baseline if comparison.groups.compares_with_no_skill else "baseline")
        elif abs(tick) >= ROOM_OF_WORD * (axis.high - axis.low):
            yield AxisTick(axis.place(tick), render_signed(tick, digits))


def _build_lane(
    sheet: ChartSheet,
    metric: TrialMetric,
    group: Group,
    judged: JudgedGroup | None,
    axis: PointAxis,
    printed: dict[str, list[tuple[float, str]]],
) -> ForestLane:
    comparison = sheet.comparison
    cell = comparison.cell(group, metric)
    rate = cell.rate
    solved = "unknown" if cell.value is None else render_metric(cell.value, metric.unit)
    if metric.is_share and cell.value is not None:
        solved = f"{half_up(100 * cell.value)} %"
    whole = ForestLane(
        group,
        name_condition(group.condition),
        sheet.trials_url(group, metric=metric),
        solved,
        f"{rate.passed}/{rate.scored}" if metric.is_share and rate.scored else "",
        tuple(
            RunCell(run, _write_mean(mean, metric), f"{rate.passed} of {rate.planned}")
            for run, mean in zip(group.runs, cell.replicates, strict=True)
        ),
        comparison.groups.is_baseline(group),
        _tell_beside(group),
        judged,
    )
    return _draw_lane(whole, sheet, axis, printed) if judged or whole.is_baseline else whole


def _write_mean(mean: float | None, metric: TrialMetric) -> str:
    if mean is None:
        return "?"
    return str(half_up(100 * mean)) if metric.is_share else render_metric(mean, metric.unit)


def _tell_all(group: Group) -> str:
    """What its label says beyond the condition, where no head says it."""
    return group.label.partition(SEPARATOR)[2]


def _tell_beside(group: Group) -> str:
    """What a label says beyond its condition is the head of its section, but for these."""
    return "unfinished" if group.is_unfinished else ""


def _draw_lane(
    lane: ForestLane, sheet: ChartSheet, axis: PointAxis, printed: dict[str, list[tuple[float, str]]]
) -> ForestLane:
    judged, metric = lane.judged, sheet.metric
    assert metric is not None
    scale = 100 if metric.is_share else 1
    cell = sheet.comparison.cell(lane.group, metric)
    base = judged.difference.other if judged else cell.value
    means = (
        [mean for mean in cell.replicates if mean is not None and base is not None] if lane.group.replicates > 1 else []
    )
    dots = tuple(
        LaneDot(
            axis.place(_within(axis, scale * (mean - (base or 0.0)))),
            f"one replicate: {render_metric(mean, metric.unit)}",
        )
        for mean in means
    )
    marks = tuple(LaneDot(axis.place(delta), said) for delta, said in printed.get(lane.group.condition, ()))
    if judged is None:
        return replace(lane, point=axis.place(0), dots=dots, printed=marks)
    interval = judged.difference.interval
    ends = (scale * interval.low, scale * interval.high) if interval else None
    return replace(
        lane,
        delta=_write_change(scale * judged.difference.delta, metric),
        around=f"{_write_change(ends[0], metric)} to {_write_change(ends[1], metric)}" if ends else "no interval",
        point=axis.place(scale * judged.difference.delta),
        low=axis.place(ends[0]) if ends else "",
        high=axis.place(ends[1]) if ends else "",
        dots=dots,
        printed=marks,
    )


def _within(axis: PointAxis, value: float) -> float:
    return min(axis.high, max(axis.low, value))


def _write_change(value: float, metric: TrialMetric) -> str:
    """Whole points for shares; other units keep the digits they need."""
    if metric.is_share:
        return render_signed(value, 0)
    return render_signed(value, 0 if abs(value) >= 100 else 1 if abs(value) >= 1 else 4)


def _split_sections(groups: Sequence[Group], lanes: dict[tuple[object, ...], ForestLane]) -> Iterable[LaneSection]:
    """One head per model where there are several; else one per author of the first skill where both wrote some."""
    arms = arms_of(groups)
    if len(arms) > 1:
        for arm in arms:
            yield LaneSection(arm.title, tuple(lanes[group.identity] for group in arm.groups))
        return
    origins = [lanes[group.identity].name.origin for group in groups]
    heads = [HEADS.get(origin, "") if origin else "" for origin in origins]
    times = Counter(filter(None, heads))
    for head in dict.fromkeys(heads):
        of_head = tuple(lanes[group.identity] for group, own in zip(groups, heads, strict=True) if own == head)
        yield LaneSection(head if len(times) > 1 else "", of_head)
