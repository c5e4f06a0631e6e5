"""`/published/`: what the four papers print, table by table, and what in it does not add up.

A printed table is drawn as one line a model, its conditions as dots on one axis.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import cache
from typing import NamedTuple

from django.http import HttpRequest, HttpResponse

from benchapp.papers.published_rows import (
    PAPERS,
    Layout,
    Number,
    flatten_rows,
    lay_out,
    read_errata,
    read_published_rows,
)
from benchapp.stats.comparing.condition_names import ConditionName, name_condition
from benchapp.stats.metrics.catalogue import METRIC_NAMES
from inspector.pages.compare.lanes import PointAxis
from inspector.web.responses import render_page

BARE = "no-skill"
MAIN = ("ESR", "completion", "accuracy", "pass@3")  # what a paper reports first
NEAR = 1.6  # percent of the width: dots so near are drawn above each other
ROW, FIRST = 10, 12  # pixels between such dots, and to the first one
# Figures whose numbers appear nowhere in their paper's text or tables. They are not drawn here.
NOT_PRINTED: Mapping[str, tuple[str, ...]] = {
    "skillevolbench": ("Figure 5 (library size)", "Figure 6 (by environment)", "Figure 7 (cost)"),
    "skillflow": ("Figures 6 and 11 (gains by domain and family)", "Figures 7 and 8 (skill growth, kinds of files)"),
    "skilllearnbench": ("Figures 2, 4 and 5 (instances, rounds, methods), except numbers in tables",),
    "skillgenbench": ("Figures 4 to 8 (regimes, generators, pass@k, budgets), except numbers in the text",),
}


class PrintedDot(NamedTuple):
    """`line`: its place among the lines of the table as printed, where the number and its note are."""

    number: Number
    name: ConditionName
    line: int
    x: float
    y: int


class PrintedLane:
    """`bare`: its value without a skill; `is_own`: printed in this lane, and not once for all of them."""

    def __init__(self, who: str, about: str, dots: Sequence[PrintedDot], own: Number | None, shared: Number | None):
        self.who, self.about, self.dots = who, about, dots
        self.bare, self.is_own = own or shared, own is not None
        self.highest = max(dots, key=lambda dot: float(dot.number["value"]))
        self.height = max(dot.y for dot in dots) + FIRST


def published(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    paper = request.GET.get("paper", "")
    paper = paper if paper in PAPERS else next(iter(PAPERS))
    numbers = _read_numbers(paper)
    tables = sorted({number["table"] for number in numbers}, key=_order_table)
    main = next((number["table"] for number in numbers if number["metric"] in MAIN), tables[0])
    table = request.GET.get("table", "")
    table = table if table in tables else main
    shown = [number for number in numbers if number["table"] == table]
    layout = lay_out(shown)
    metrics = list_metrics(layout)
    asked = request.GET.get("metric", "")
    metric = next((each for each in (asked, *MAIN) if each in metrics), next(iter(metrics)))
    head, lanes, axis = draw_lanes(layout, metrics[metric])
    title = _name_metric(metric)
    names = {dot.name.code: dot.name for lane in lanes for dot in lane.dots if dot.number["condition"]}
    found = read_errata(paper)
    data = {
        "paper": paper,
        "table": table,
        "tables": tables,
        "metric": metric,
        "answer": _write_answer(title, lanes),
        "rows": shown,
        "findings": found,
        "not_published_as_numbers": NOT_PRINTED[paper],
    }
    wrong = [finding for finding in found if not finding.is_rounding]
    context = {
        "papers": PAPERS,
        "name": PAPERS[paper],
        "numbers": sum(number["value"] is not None for number in numbers),
        "numbers_here": sum(number["value"] is not None for number in shown),
        "head": head,
        "lanes": lanes,
        "ticks": [(axis.share(tick), f"{tick:g}") for tick in axis.ticks],
        "has_bare": any(lane.is_own for lane in lanes),
        "names": sorted(names.values(), key=lambda name: (name.order, name.code)),
        "title": title,
        "unit": layout.columns[metrics[metric]][1],
        "metrics": [(code, _name_metric(code)) for code in metrics],
        "layout": layout,
        "found": wrong,
        "found_here": sum(finding.table == table for finding in wrong),
        "rounded": [finding for finding in found if finding.is_rounding],
    }
    return render_page(request, "compare/published.html", data=data, context=context, as_json=as_json)


def _order_table(table: str) -> tuple[bool, str, int]:
    """Order tables by their numbers, then figures, then the running text."""
    kind, _, number = table.partition(" ")
    return kind != "Table", kind, int(number or 0)


@cache
def _read_numbers(paper: str) -> tuple[Number, ...]:
    return tuple(flatten_rows(read_published_rows(paper)))


def list_metrics(layout: Layout) -> dict[str, int]:
    """Return the column of each metric; one that is printed in a second unit carries that unit in its code."""
    found: dict[str, int] = {}
    for place, (metric, unit) in enumerate(layout.columns):
        found[f"{metric}, {unit}" if metric in found else metric] = place
    return found


def _name_metric(metric: str) -> str:
    """Return the name that every page uses; for a metric that only a paper has, its code as words."""
    return METRIC_NAMES[metric].title if metric in METRIC_NAMES else metric.replace("_", " ").capitalize()


def draw_lanes(layout: Layout, column: int) -> tuple[str, list[PrintedLane], PointAxis]:
    """Return what distinguishes the lanes, the lanes, and their axis.

    Model, harness and group distinguish lanes, each only where it has several values; in running text also the
    place."""
    found = [(line, row.cells[column]) for line, row in enumerate(layout.lines)]
    numbers = [(line, number) for line, number in found if number and number["value"] is not None]
    conditions = any(number["condition"] for _, number in numbers)
    fields = [
        name
        for name in ("model", "harness", "group")
        if not conditions or len({number[name] for _, number in numbers} - {""}) > 1
    ]
    if not conditions or any(number["table"] == "Text" for _, number in numbers):
        fields.append("row")
    rows: dict[tuple[str, ...], list[tuple[int, Number]]] = {}
    for line, number in numbers:
        rows.setdefault(tuple(number[name] for name in fields), []).append((line, number))
    axis = PointAxis([number["value"] for _, number in numbers])
    shared = _find_bare(number for key, row in rows.items() if not any(key) for _, number in row)
    unnamed = "All models" if fields[:1] == ["model"] else "All"
    lanes = []
    for key, row in rows.items():
        named = [*filter(None, key), unnamed]
        about = " · ".join(name for name in dict.fromkeys(named[1:-1]) if name != named[0])
        own = _find_bare(number for _, number in row)
        lanes.append(PrintedLane(named[0], about, list(_place_dots(row, axis)), own, shared))
    return fields[0].capitalize() if fields else "Model", lanes, axis


def _find_bare(numbers: Iterable[Number]) -> Number | None:
    return next((number for number in numbers if number["condition"] == BARE), None)


def _place_dots(row: Sequence[tuple[int, Number]], axis: PointAxis) -> Iterator[PrintedDot]:
    """Place the dots from low to high. One that would cover the last of a level goes to the next level."""
    last: list[float] = []
    for line, number in sorted(row, key=lambda each: float(each[1]["value"])):
        x = axis.share(number["value"])
        level = next((level for level, end in enumerate(last) if x - end >= NEAR), len(last))
        last[level : level + 1] = [x]
        yield PrintedDot(number, name_condition(number["condition"]), line, x, FIRST + ROW * level)


def _write_answer(title: str, lanes: Sequence[PrintedLane]) -> str:
    """Say how many values are above the same paper's no skill; without one, their range."""
    pairs = [
        (dot.number["value"], lane.bare["value"])
        for lane in lanes
        if lane.bare
        for dot in lane.dots
        if dot.number["condition"] not in ("", BARE)
    ]
    if pairs:
        above = sum(value > bare for value, bare in pairs)
        shared = {lane.bare["printed"] for lane in lanes if lane.bare and not lane.is_own}
        mean = f", for most the mean over all models, {shared.pop()}" if shared else ""
        return f"{title}: {above} of {len(pairs)} printed values are above no skill{mean}."
    every: Mapping[float, str] = {dot.number["value"]: dot.number["printed"] for lane in lanes for dot in lane.dots}
    if len(every) < 2:
        return f"{title}: {next(iter(every.values()), 'nothing')} is printed."
    return f"{title}: from {every[min(every)]} to {every[max(every)]}."
