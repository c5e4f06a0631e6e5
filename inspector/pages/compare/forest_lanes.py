"""The answer of a comparison as a table that is its chart: a row per group, its interval on one axis, other metrics as columns."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from math import ceil, floor, log10

from django.utils.html import escape
from django.utils.safestring import SafeString

from benchapp.analysis.failures.run_endings import read_endings
from benchapp.record.visible import visible
from benchapp.stats.comparing.answer import Answer, JudgedGroup, can_have_verdict, judge_groups
from benchapp.stats.comparing.comparison import GroupComparison
from benchapp.stats.comparing.condition_names import ConditionName, name_condition
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.shares import half_up
from benchapp.stats.metrics.amounts import render_metric, render_relative, render_signed
from benchapp.stats.metrics.metric import RunMetric, TrialMetric
from benchapp.stats.metrics.metric_names import MetricName, name_metric
from inspector.charts.drawing.arms import arms_of
from inspector.charts.drawing.forest_rows import list_published_rows
from inspector.charts.sheet import ChartSheet
from inspector.pages.compare.bar_lanes import draw_share
from inspector.pages.compare.comparison_table import NOT_JUDGED, UNKNOWN, describe_group, run_metrics, value_text

TICKS = 5  # about so many on an axis
ROOM_OF_WORD = 0.2  # of the axis, between the middles of the baseline's word and of a number
ROOM = 0.06  # of the axis, free on either side


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
    """A small mark with what it says on hover, and where it leads."""

    at: str
    says: str
    url: str = ""


@dataclass(frozen=True, slots=True)
class LaneCell:
    """Another metric of the group. `change`: to the baseline; `relative`: that of an amount as a part of the baseline's."""

    name: str
    text: str
    change: str = ""
    relative: str = ""
    says: str = ""
    url: str = ""
    tone: str = ""
    mark: str = ""  # of a clear effect: its colour alone would not do


@dataclass(frozen=True, slots=True)
class LaneHead:
    """The head of such a column. `query`: the address that moves it into the chart; empty for numbers of whole runs."""

    name: MetricName
    key: str
    meaning: str
    query: str = ""
    judge: bool = False


@dataclass(frozen=True, slots=True)
class ForestLane:
    """One group. Places are in percent of the width; empty where there is nothing to draw. `solved` and `count`: its value
    and k of n; `lines`: what distinguishes it from others of its condition. `dots`: replicates; `printed`: differences of papers."""

    group: Group
    name: ConditionName
    url: str
    solved: str
    count: str
    is_baseline: bool = False
    lines: tuple[str, ...] = ()
    cells: tuple[LaneCell, ...] = ()
    judged: JudgedGroup | None = None
    delta: str = ""
    around: str = ""
    point: str = ""
    low: str = ""
    high: str = ""
    dots: tuple[LaneDot, ...] = ()
    printed: tuple[LaneDot, ...] = ()
    grid: str = ""
    alone: SafeString = SafeString("")
    settle: str = ""  # what would settle an open difference
    drawn: SafeString = SafeString("")

    def draw(self) -> SafeString:
        """The row as a drawing as wide as its cell: grid, printed differences, interval, replicates, mark. A bar where
        there is nothing to compare with."""
        if self.alone:
            return self.alone
        colour, said = f"c-{self.name.colour or 'ink'}", f"{self.solved}, {self.delta}, {self.around}".strip(", ")
        parts = [self.grid, *(_draw_printed(mark) for mark in self.printed)]
        if self.low:
            parts.append(f'<line class="range {colour}" x1="{self.low}" x2="{self.high}" y1="14" y2="14"/>')
        parts += [
            f'<a href="{dot.url}" aria-label="{escape(dot.says)}"><circle class="replicate {colour}" r="2.6" cx="{dot.at}" cy="27">'
            f"<title>{escape(dot.says)}</title></circle></a>"
            for dot in self.dots
        ]
        if self.point:
            hollow = " open" if self.is_open else ""
            parts.append(
                f'<use href="#shape-{self.name.shape}" class="point {colour}{hollow}" x="{self.point}" y="14"/>'
            )
        height, role = (36, "group") if self.dots else (28, "img")
        return SafeString(
            f'<svg class="lane" width="100%" height="{height}" role="{role}" aria-label="{escape(said)}">{"".join(parts)}</svg>'
        )

    @property
    def is_open(self) -> bool:
        """A hollow mark: not clear, or without a verdict."""
        return self.judged is not None and not self.judged.effect.is_clear


@dataclass(frozen=True, slots=True)
class LaneSection:
    """Lanes under a head: the model where there are several."""

    title: str
    lanes: tuple[ForestLane, ...]


@dataclass(frozen=True, slots=True)
class Forest:
    """`left_out`: groups that the metric asked for does not cover."""

    sections: tuple[LaneSection, ...]
    ticks: tuple[AxisTick, ...]
    unit: str
    heads: tuple[LaneHead, ...] = ()
    left_out: tuple[Group, ...] = ()
    papers: tuple[str, ...] = ()

    @property
    def has_dots(self) -> bool:
        return any(lane.dots for section in self.sections for lane in section.lanes)


def build_forest(sheet: ChartSheet, answer: Answer, groups: Sequence[Group]) -> Forest:
    """Of these groups, in this order; the axis is that of all, so that every page of a list has the same."""
    comparison, metric = sheet.comparison, answer.metric
    covered = [group for group in groups if comparison.cell(group, metric).rate.planned]
    judged = {each.group.identity: each for each in answer.judged}
    printed = _list_printed(sheet, metric) if judged else {}
    axis = PointAxis.around(_list_ends(covered, judged.values(), printed, 100 if metric.is_share else 1))
    grid, endings = _draw_grid(axis), read_endings(run for group in covered for run in group.runs)
    others = {
        each.key: {one.group.identity: one for one in judge_groups(comparison, each)}
        if can_have_verdict(comparison, each)
        else {}
        for each in _list_others(sheet)
    }
    lanes = {}
    for group in covered:
        lane = _build_lane(sheet, metric, group, judged.get(group.identity), axis, printed)
        if (shared := comparison.shared_value(group, metric)) is not None:
            text = f"{half_up(100 * shared)} %" if metric.is_share else render_metric(shared, metric.unit)
            lane = replace(lane, solved=text, count=f"{lane.count} of all trials" if lane.count else "")
        if not judged:
            lane = replace(lane, point="", alone=_draw_alone(sheet, lane, group))
        lane, more = replace(lane, grid=grid), lane.judged.more if lane.judged else None
        lanes[group.identity] = replace(
            lane,
            drawn=lane.draw(),
            settle=f"{more} more {lane.judged.more_of} to detect 10 points" if more and lane.judged else "",
            lines=tuple(describe_group(sheet, group, endings)),
            cells=(
                *(
                    _write_cell(sheet, group, each, others[each.key].get(group.identity))
                    for each in _list_others(sheet)
                ),
                *(_write_run_cell(sheet, group, each) for each in run_metrics(sheet)),
            ),
        )
    ticks = tuple(_write_ticks(comparison, axis))
    if not judged:
        ticks = tuple(AxisTick(f"{tick}%", f"{tick} %") for tick in (0, 25, 50, 75, 100)) if metric.is_share else ()
    sections: tuple[LaneSection, ...] = (LaneSection("", tuple(lanes.values())),)
    if len(arms := arms_of(covered)) > 1:
        sections = tuple(
            LaneSection(arm.title, tuple(_drop_head(lanes[group.identity]) for group in arm.groups)) for arm in arms
        )
    return Forest(
        sections=sections,
        ticks=ticks,
        unit="points" if metric.is_share else metric.unit.value,
        heads=tuple(_list_heads(sheet)),
        left_out=tuple(group for group in groups if group not in covered),
        papers=tuple(dict.fromkeys(row.paper for row in sheet.published)) if printed else (),
    )


def _list_others(sheet: ChartSheet) -> list[TrialMetric]:
    """What the table has as columns: every metric of it but the one in the chart."""
    return [metric for metric in sheet.metrics if metric != sheet.metric]


def _list_heads(sheet: ChartSheet) -> Iterator[LaneHead]:
    for metric in _list_others(sheet):
        query = sheet.comparison.choices.query(metric=metric.key)
        yield LaneHead(name_metric(metric), metric.key, metric.meaning, query, metric.is_judged)
    for of_runs in run_metrics(sheet):
        yield LaneHead(name_metric(of_runs), of_runs.key, of_runs.meaning)


def _write_cell(sheet: ChartSheet, group: Group, metric: TrialMetric, judged: JudgedGroup | None) -> LaneCell:
    """Whole percent, since the difference to the baseline is next to it; of few trials how many passed."""
    cell, name = sheet.comparison.cell(group, metric), name_metric(metric).short
    if cell.value is None:
        return LaneCell(name, NOT_JUDGED if metric.is_judged else UNKNOWN if cell.rate.planned else "–")
    text, _ = value_text(cell)
    value = sheet.comparison.shared_value(group, metric)
    if value is not None:
        text = str(half_up(100 * value)) if metric.is_share else render_metric(value, metric.unit)
    elif metric.is_share and "/" not in text:
        text = str(half_up(100 * cell.value))
    url = sheet.trials_url(group, metric=metric)
    baseline = sheet.comparison.groups.baseline_of(group)
    plain = sheet.comparison.between(group, baseline, metric) if baseline else None
    found = judged.difference if judged else plain
    if found is None:
        return LaneCell(name, text, url=url)
    change = _write_change((100 if metric.is_share else 1) * found.delta, metric)
    part = None if metric.is_share else metric.relate(found.own, found.other)
    tone = judged.effect.tone if judged and judged.words else ""
    return LaneCell(
        name=name,
        text=text,
        change=change,
        relative=render_relative(part) if part else "",
        says=judged.sentence if judged else "",
        url=url,
        tone=tone,
        mark=judged.effect.glyph if judged and tone else "",
    )


def _write_run_cell(sheet: ChartSheet, group: Group, metric: RunMetric) -> LaneCell:
    """A number of whole runs is no mean over tasks: nothing pairs it with the baseline's, so it is shown as it is."""
    found, name = sheet.comparison.run_value(group, metric), name_metric(metric).short
    if found.value is None:
        return LaneCell(name, UNKNOWN, says=found.note)
    return LaneCell(name, render_metric(found.value, metric.unit), says=found.note)


def _draw_alone(sheet: ChartSheet, lane: ForestLane, group: Group) -> SafeString:
    """The value itself as a bar from nothing to all, where nothing here has a difference."""
    cell = sheet.comparison.cell(group, sheet.metric) if sheet.metric else None
    if cell is None or not cell.metric.is_share or cell.value is None:
        return SafeString("")
    return draw_share(group.condition, cell.value, cell.spread, f"{lane.solved} {lane.count}")


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
    baseline = name_condition(comparison.groups.baseline).short.lower()
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
    missing = f" of {rate.planned}" if rate.missing else ""
    solved = "unknown" if cell.value is None else render_metric(cell.value, metric.unit)
    if metric.is_share and cell.value is not None:
        solved = f"{half_up(100 * cell.value)} %"
    whole = ForestLane(
        group,
        name_condition(group.condition),
        sheet.trials_url(group, metric=metric),
        solved,
        f"{rate.passed}/{rate.scored}{missing}" if metric.is_share and rate.scored else "",
        is_baseline=comparison.groups.is_baseline(group),
        judged=judged,
    )
    return _draw_lane(whole, sheet, axis, printed) if judged or whole.is_baseline else whole


def _draw_lane(
    lane: ForestLane, sheet: ChartSheet, axis: PointAxis, printed: dict[str, list[tuple[float, str]]]
) -> ForestLane:
    judged, metric = lane.judged, sheet.metric
    assert metric is not None
    scale = 100 if metric.is_share else 1
    cell = sheet.comparison.cell(lane.group, metric)
    base = judged.difference.other if judged else cell.value
    means = zip(lane.group.runs, cell.replicates, strict=True) if lane.group.replicates > 1 else ()
    dots = tuple(
        LaneDot(
            axis.place(_within(axis, scale * (mean - (base or 0.0)))),
            f"replicate {run.replicate}: {render_metric(mean, metric.unit)}",
            run.get_absolute_url(),
        )
        for run, mean in means
        if mean is not None and base is not None
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


def _drop_head(lane: ForestLane) -> ForestLane:
    """Without what the head over it says."""
    said = (lane.group.agent_model, lane.group.harness, lane.group.first.experiment.name)
    return replace(lane, lines=tuple(line for line in lane.lines if line not in said))
