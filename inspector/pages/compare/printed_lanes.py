"""A printed table as one line a model, its conditions as dots on one axis."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from benchapp.papers.printing import Layout, Number
from benchapp.stats.comparing.condition_names import ConditionName, name_condition
from benchapp.stats.metrics.catalogue import METRIC_NAMES
from inspector.pages.compare.forest_lanes import PointAxis

BARE = "no-skill"
MAIN = ("ESR", "completion", "accuracy", "pass@3")  # what a paper reports first
NEAR = 1.6  # percent of the width: dots so near are drawn above each other
ROW, FIRST = 10, 12  # pixels between such dots, and to the first one


class PrintedDot(NamedTuple):
    """`line`: its place among the lines of the table as printed, where the number and its note are."""

    number: Number
    name: ConditionName
    line: int
    x: float
    y: int


@dataclass(frozen=True, slots=True)
class PrintedLane:
    """`bare`: its value without a skill; `is_own`: printed in this lane, and not once for all of them."""

    who: str
    about: str
    dots: tuple[PrintedDot, ...]
    bare: Number | None
    is_own: bool
    highest: PrintedDot

    @property
    def height(self) -> int:
        return max(dot.y for dot in self.dots) + FIRST


@dataclass(frozen=True, slots=True)
class PrintedChart:
    """`answer`: what the values say, in one sentence. `ticks`: place in percent, and words."""

    answer: str
    head: str
    title: str
    unit: str
    lanes: tuple[PrintedLane, ...]
    ticks: tuple[tuple[float, str], ...]
    names: tuple[ConditionName, ...]

    @property
    def has_bare(self) -> bool:
        return any(lane.is_own for lane in self.lanes)


def list_metrics(layout: Layout) -> dict[str, int]:
    """Code of a metric -> its column; one that is printed in a second unit carries that unit."""
    found: dict[str, int] = {}
    for place, (metric, unit) in enumerate(layout.columns):
        found[f"{metric}, {unit}" if metric in found else metric] = place
    return found


def choose_metric(layout: Layout, asked: str) -> str:
    metrics = list_metrics(layout)
    return next((each for each in (asked, *MAIN) if each in metrics), next(iter(metrics)))


def title_metric(metric: str) -> str:
    """As every page names it; of one that only a paper has, its code as words."""
    return METRIC_NAMES[metric].title if metric in METRIC_NAMES else metric.replace("_", " ").capitalize()


def draw_printed(layout: Layout, metric: str) -> PrintedChart:
    column = list_metrics(layout)[metric]
    found = [(line, row.cells[column]) for line, row in enumerate(layout.lines)]
    numbers = [(line, number) for line, number in found if number and number["value"] is not None]
    fields = _choose_fields([number for _, number in numbers])
    rows: dict[tuple[str, ...], list[tuple[int, Number]]] = {}
    for line, number in numbers:
        rows.setdefault(tuple(number[name] for name in fields), []).append((line, number))
    axis = PointAxis.spanning([number["value"] for _, number in numbers])
    shared = _find_bare(number for key, row in rows.items() if not any(key) for _, number in row)
    unnamed = "All models" if fields[:1] == ["model"] else "All"
    lanes = tuple(_build_lane([*filter(None, key), unnamed], row, axis, shared) for key, row in rows.items())
    names = {number["condition"]: name_condition(number["condition"]) for _, number in numbers if number["condition"]}
    title, unit = title_metric(metric), layout.columns[column][1]
    return PrintedChart(
        answer=_write_answer(title, lanes),
        head=fields[0].capitalize() if fields else "Model",
        title=title,
        unit=unit,
        lanes=lanes,
        ticks=tuple((axis.share(tick), f"{tick:g}") for tick in axis.ticks),
        names=tuple(sorted(names.values(), key=lambda name: (name.order, name.code))),
    )


def _choose_fields(numbers: Sequence[Number]) -> list[str]:
    """What distinguishes lanes: model, harness and group, each only where it has several values; in running text also the place."""
    fields = [
        name
        for name in ("model", "harness", "group")
        if len({number[name] for number in numbers} - {""}) > 1 or all(not number["condition"] for number in numbers)
    ]
    is_text = any(number["table"] == "Text" for number in numbers)
    conditions = any(number["condition"] for number in numbers)
    return [*fields, "row"] if is_text or not conditions else fields


def _find_bare(numbers: Iterable[Number]) -> Number | None:
    return next((number for number in numbers if number["condition"] == BARE), None)


def _build_lane(
    named: Sequence[str], row: Sequence[tuple[int, Number]], axis: PointAxis, shared: Number | None
) -> PrintedLane:
    dots = tuple(_place_dots(row, axis))
    own = _find_bare(number for _, number in row)
    highest = max(dots, key=lambda dot: float(dot.number["value"]))
    about = " · ".join(name for name in dict.fromkeys(named[1:-1]) if name != named[0])
    return PrintedLane(named[0], about, dots, own or shared, own is not None, highest)


def _place_dots(row: Sequence[tuple[int, Number]], axis: PointAxis) -> Iterator[PrintedDot]:
    """From low to high; one that would cover the last of a level goes to the next level."""
    last: list[float] = []
    for line, number in sorted(row, key=lambda each: float(each[1]["value"])):
        x = axis.share(number["value"])
        level = next((level for level, end in enumerate(last) if x - end >= NEAR), len(last))
        last[level : level + 1] = [x]
        yield PrintedDot(number, name_condition(number["condition"]), line, x, FIRST + ROW * level)


def _write_answer(title: str, lanes: Sequence[PrintedLane]) -> str:
    """How many values are above the same paper's no skill; without one, their range."""
    pairs = [
        (dot.number["value"], lane.bare["value"])
        for lane in lanes
        if lane.bare
        for dot in lane.dots
        if dot.number["condition"] not in ("", BARE)
    ]
    if pairs:
        above = sum(value > bare for value, bare in pairs)
        return f"{title}: {above} of {len(pairs)} printed values are above no skill."
    every: Mapping[float, str] = {dot.number["value"]: dot.number["printed"] for lane in lanes for dot in lane.dots}
    if len(every) < 2:
        return f"{title}: {next(iter(every.values()), 'nothing')} is printed."
    return f"{title}: from {every[min(every)]} to {every[max(every)]}."
