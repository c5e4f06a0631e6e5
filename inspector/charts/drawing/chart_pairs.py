"""Panels of pairs: from what a baseline used and reached to what a condition used and reached, with the frontier."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import log10

from plotly import graph_objects as go

from benchapp.stats.comparing.choices import NO_SKILL
from benchapp.stats.metrics.run_metrics import RunValue
from inspector.charts.drawing.palette import INK, MUTED, Style, by_name, of_condition, veil
from inspector.charts.drawing.panels import MAX_PANELS, panels, plain, short
from inspector.charts.drawing.traces import ChartPoint, Legend, connect, scatter, spread_bars

HEIGHT = 270  # px of a panel's inside; half as much more where there is one panel
WIDTH = 760  # px of all panels of a row together, on a wide page
ACROSS = 2
LOG_FROM = 5  # times the least that the most must be; below it a logarithmic axis has hardly a tick
ROOM = 1.25  # of the most used: a linear axis leaves room for names behind it
ALL = "all conditions"  # what a panel is called that has every condition of the only model
NAMED = 6  # pairs in a small panel that still carry their model's name
LETTER = 5.6  # px of a character of 10 px, about
HIGH = 13  # px of a line of it
AWAY = 8  # px from the middle of a mark to its name
MARK = 5  # px from the middle of a mark to its edge
FREE = 0.06  # of the span that plotly leaves free on either side of the values, about

Spot = tuple[float, float]  # px to the right and upwards
Box = tuple[float, float, float, float]  # left, low, right, high


@dataclass(frozen=True, slots=True)
class Axis:
    """The x axis: `column` of the outcomes, in `unit`; a logarithmic axis has only values above zero."""

    key: str
    column: str
    title: str
    unit: str
    is_log: bool


@dataclass(frozen=True, slots=True)
class PairEnd(ChartPoint):
    """One end of a pair with its row of the table; x and y as shown, None where unknown."""

    panel: str = ""
    source: str = ""
    model: str = ""
    harness: str = ""
    condition: str = ""
    used: RunValue | None = None  # what it rests on across
    counted: tuple[int | None, int | None, int | None] = (None, None, None)  # passed, scored and planned trials

    @property
    def is_drawn(self) -> bool:
        """Can it be drawn? Where nothing was used there is no effort to weigh; SkillFlow's code drops it too."""
        return self.x is not None and self.y is not None and self.x > 0


class ConditionPair:
    """What a model reached under the baseline, where that is known, and under a condition. `ends`: those of `both` that
    can be drawn."""

    def __init__(self, base: PairEnd | None, own: PairEnd) -> None:
        self.base, self.own = base, own
        self.both = [end for end in (base, own) if end is not None]
        self.ends = [end for end in self.both if end.is_drawn]


class PairPanel:
    """`base`: what the hollow ends are called; the filled ones as the title."""

    def __init__(self, title: str, base: str, pairs: Sequence[ConditionPair]) -> None:
        self.title, self.base, self.pairs = title, base, pairs
        self.ends = [end for pair in pairs for end in pair.ends]
        self.harnesses = list(dict.fromkeys(pair.own.harness for pair in pairs))

    def names(self, harness: str) -> tuple[str, str]:
        """What the legend calls the hollow and the filled ends."""
        return (self.base, ALL) if self.title == ALL else (f"{harness}: {self.base}", f"{harness}: condition")


def frontier(ends: Iterable[PairEnd]) -> list[PairEnd]:
    """Those that nothing else beats by reaching as much with less: by rising x, each higher than all before."""
    found: list[PairEnd] = []
    for end in sorted((end for end in ends if end.is_drawn), key=lambda end: (end.x or 0, -(end.y or 0))):
        if not found or (end.y or 0) > (found[-1].y or 0) + 1e-12:
            found.append(end)
    return found


def draw_pairs(groups: Sequence[PairPanel], axis: Axis, y_title: str, *, share_x: bool) -> go.Figure:
    shown = groups[:MAX_PANELS]
    alone = len(shown) == 1
    height = HEIGHT * (1.5 if alone else 1)
    used = [end.x for panel in shown for end in panel.ends if end.x]
    axis = replace(axis, is_log=axis.is_log and max(used) >= LOG_FROM * min(used))
    legend = [name for panel in shown for harness in panel.harnesses for name in panel.names(harness)]
    titles = [panel.title for panel in shown]
    figure, place_of = panels(titles, across=ACROSS, height=height, share_x=share_x, legend=legend)
    styles = by_name(pair.own.harness for panel in shown for pair in panel.pairs)
    width = WIDTH / min(ACROSS, len(shown))
    named = Legend()
    for place, panel in enumerate(shown):
        seen = [end for each in (shown if share_x else [panel]) for end in each.ends]
        labels = _labels(panel, seen, axis, (width, height)) if alone or len(panel.pairs) <= NAMED else {}
        joined = [(pair.ends[0], pair.ends[1]) for pair in panel.pairs if len(pair.ends) == 2]
        segments = [] if panel.title == ALL else [connect(joined, color=MUTED, width=1, dash="dash")]
        for trace in (*segments, _frontier(panel, named), *_marks(panel, styles, named, labels)):
            figure.add_trace(trace, **place_of(place))
    figure.update_xaxes(
        title_text=f"{axis.title}, {axis.unit}", **_ticks(axis, max(used, default=1) if share_x else None)
    )
    figure.update_yaxes(title_text=plain(y_title), col=1)
    return figure


def _ticks(axis: Axis, most: float | None) -> dict[str, object]:
    """A logarithmic axis names 1, 2 and 5 of every power of ten; any other begins at zero, or a few percent would
    look like a gulf. It ends at 1.25 times the most of all panels, with room for names; in each panel at its own
    without it."""
    ticks: dict[str, object] = {"tickformat": "~s" if axis.unit == "tokens" else "~g"}
    if axis.is_log:
        return {"type": "log", "dtick": "D2", **ticks, "minor": {"dtick": "D1"}}
    return {**({"range": [0, ROOM * most]} if most else {"rangemode": "tozero"}), "nticks": 6, **ticks}


def _frontier(panel: PairPanel, named: Legend) -> go.Scatter:
    """Steps: for every amount the most that anything reached with no more than it."""
    ends = frontier(panel.ends)
    return go.Scatter(
        x=[end.x for end in ends],
        y=[end.y for end in ends],
        mode="lines",
        line={"color": INK, "width": 1.5, "shape": "hv"},
        name="Pareto frontier",
        legendgroup="frontier",
        showlegend=named.is_first("frontier"),
        hoverinfo="skip",
    )


def _marks(panel: PairPanel, styles: dict[str, Style], named: Legend, labels: dict[int, MarkLabel]) -> list[go.Scatter]:
    """Two traces per harness and condition: hollow baselines, filled conditions with their names. The colour is the
    condition's; where there are several harnesses the symbol is theirs."""
    traces = []
    several = len(set(styles) - {NO_SKILL}) > 1
    for harness, condition in dict.fromkeys((pair.own.harness, pair.own.condition) for pair in panel.pairs):
        names = panel.names(harness)
        pairs = [pair for pair in panel.pairs if (pair.own.harness, pair.own.condition) == (harness, condition)]
        bases = [pair.base for pair in pairs if pair.base is not None and pair.base.is_drawn]
        owns = [pair.own for pair in pairs if pair.own.is_drawn]
        if bases:
            look = _look(panel.base, styles[harness], several=several)
            traces.append(_trace(bases, names[0], look.open, named, {}, line={"width": 2}))
        if owns:
            look = _look(condition, styles[harness], several=several)
            name = condition if panel.title == ALL else names[1]
            traces.append(_trace(owns, name, look, named, labels, line={"width": 0}))
    return traces


def _look(condition: str, of_harness: Style, *, several: bool) -> Style:
    known = of_condition(condition)
    if known is None:
        return of_harness
    return Style(known.colour, of_harness.symbol if several else known.symbol, known.dash)


def _labels(panel: PairPanel, seen: Sequence[PairEnd], axis: Axis, size: tuple[float, float]) -> dict[int, MarkLabel]:
    """By the identity of the filled ends, the names of their models where they cover nothing else.

    `seen`: what the axes of the panel have to show; `size`: of its inside in px.
    """
    ends = panel.ends
    if not ends:
        return {}
    width, height = size
    xs, all_x = ([log10(end.x or 1) if axis.is_log else end.x or 0 for end in each] for each in (ends, seen))
    all_x = all_x if axis.is_log else [0, ROOM * max(all_x)]
    ys, all_y = ([end.y or 0 for end in each] for each in (ends, seen))
    spots = list(zip(spread(xs, width, all_x), spread(ys, height, all_y), strict=True))
    drawn = [pair.own for pair in panel.pairs if pair.own.is_drawn]
    owns = {id(own): own.condition if panel.title == ALL else own.model for own in drawn}
    texts = [short(owns.get(id(end), ""), 24) for end in ends]
    return {id(end): label for end, label in zip(ends, labels_of(spots, texts, width), strict=True)}


def _trace(
    ends: Sequence[PairEnd], name: str, style: Style, named: Legend, labels: dict[int, MarkLabel], **mark: object
) -> go.Scatter:
    found = [(end, labels.get(id(end), MarkLabel())) for end in ends]
    return scatter(
        ends,
        mode="markers+text" if labels else "markers",
        text=[f"  {label.text}" if end.spread else label.text for end, label in found] if labels else None,
        textposition=["middle right" if end.spread else label.place for end, label in found],
        textfont={"color": MUTED, "size": 10},
        marker=style.mark(9, **mark),
        error_y=spread_bars(ends, veil(style.colour, 0.5)),
        **named.enter(name),
    )


# --- names next to marks, put where they cover neither a mark nor one another ---


@dataclass(frozen=True, slots=True)
class MarkLabel:
    """`text` is empty where there is no free place for it; `place` as plotly calls it."""

    text: str = ""
    place: str = "top center"


def spread(values: Sequence[float], size: float, on_axis: Sequence[float]) -> list[float]:
    """Values as px from one side of a panel of that size, where an axis without a range shows all those `on_axis`."""
    low, high = min(on_axis), max(on_axis)
    span = (high - low) or 1.0
    return [size * (FREE + (1 - 2 * FREE) * (value - low) / span) for value in values]


def labels_of(spots: Sequence[Spot], texts: Sequence[str], width: float) -> list[MarkLabel]:
    """One per spot, in their order: above its mark, else below, to the right, to the left, else none. A spot without a
    text is a mark that no name may cover; names keep inside a panel of that width."""
    taken = [(x - MARK, y - MARK, x + MARK, y + MARK) for x, y in spots]
    found = []
    for spot, text in zip(spots, texts, strict=True):
        inside = {place: box for place, box in _boxes(spot, text).items() if box[0] >= -AWAY and box[2] <= width + AWAY}
        free = (place for place, box in inside.items() if not any(_meet(box, each) for each in taken))
        place = next(free, None) if text else None
        if place is None:
            found.append(MarkLabel())
            continue
        taken.append(_boxes(spot, text)[place])
        found.append(MarkLabel(text, place))
    return found


def _boxes(spot: Spot, text: str) -> dict[str, Box]:
    """The places for the text, in the order of preference."""
    (x, y), wide, half = spot, LETTER * len(text), HIGH / 2
    return {
        "top center": (x - wide / 2, y + AWAY, x + wide / 2, y + AWAY + HIGH),
        "bottom center": (x - wide / 2, y - AWAY - HIGH, x + wide / 2, y - AWAY),
        "middle right": (x + AWAY, y - half, x + AWAY + wide, y + half),
        "middle left": (x - AWAY - wide, y - half, x - AWAY, y + half),
    }


def _meet(one: Box, other: Box) -> bool:
    return one[0] < other[2] and other[0] < one[2] and one[1] < other[3] and other[1] < one[3]
