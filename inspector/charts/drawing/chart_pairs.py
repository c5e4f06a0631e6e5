"""Panels of pairs: from what a baseline used and reached to what a condition used and reached, with the frontier."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from math import log10

from plotly import graph_objects as go

from benchapp.stats.comparing.choices import NO_SKILL
from inspector.charts.drawing.labels import MarkLabel, labels_of, spread
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


@dataclass(frozen=True, slots=True)
class Axis:
    """What stands below: `column` of the outcomes, in `unit`; on a logarithmic axis only what is above zero can stand."""

    key: str
    column: str
    title: str
    unit: str
    is_log: bool


@dataclass(frozen=True, slots=True)
class PairEnd(ChartPoint):
    """One end of a pair; x and y as shown, None where not known."""

    @property
    def stands(self) -> bool:
        """Whether it can be drawn. Nothing used is no effort to weigh; SkillFlow's code drops it too."""
        return self.x is not None and self.y is not None and self.x > 0


@dataclass(frozen=True, slots=True)
class ConditionPair:
    """What a model reached under the baseline, where that is known, and under a condition."""

    model: str
    harness: str
    base: PairEnd | None
    own: PairEnd
    condition: str = ""

    @property
    def ends(self) -> list[PairEnd]:
        return [end for end in (self.base, self.own) if end is not None and end.stands]


@dataclass(frozen=True, slots=True)
class PairPanel:
    """`base`: what the hollow ends are called; `own`: the filled ones."""

    title: str
    base: str
    own: str
    pairs: tuple[ConditionPair, ...]

    @property
    def ends(self) -> list[PairEnd]:
        return [end for pair in self.pairs for end in pair.ends]


def frontier(ends: Iterable[PairEnd]) -> list[PairEnd]:
    """Those that nothing else beats by reaching as much with less: by rising x, each higher than all before."""
    found: list[PairEnd] = []
    for end in sorted((end for end in ends if end.stands), key=lambda end: (end.x or 0, -(end.y or 0))):
        if not found or (end.y or 0) > (found[-1].y or 0) + 1e-12:
            found.append(end)
    return found


def draw_pairs(groups: Sequence[PairPanel], axis: Axis, y_title: str, *, share_x: bool) -> go.Figure:
    shown = groups[:MAX_PANELS]
    alone = len(shown) == 1
    height = HEIGHT * (1.5 if alone else 1)
    used = [end.x for panel in shown for end in panel.ends if end.x]
    axis = replace(axis, is_log=axis.is_log and max(used) >= LOG_FROM * min(used))
    figure, place_of = panels(
        [panel.title for panel in shown],
        across=ACROSS,
        height=height,
        share_x=share_x,
        legend=[name for panel in shown for harness in _harnesses(panel) for name in _names(panel, harness)],
    )
    styles = by_name(pair.harness for panel in shown for pair in panel.pairs)
    width = WIDTH / min(ACROSS, len(shown))
    named = Legend()
    for place, panel in enumerate(shown):
        seen = [end for each in (shown if share_x else [panel]) for end in each.ends]
        labels = _labels(panel, seen, axis, (width, height)) if alone or len(panel.pairs) <= NAMED else {}
        segments = [] if panel.own == ALL else [_segments(panel)]
        for trace in (*segments, _frontier(panel, named), *_marks(panel, styles, named, labels)):
            figure.add_trace(trace, **place_of(place))
    figure.update_xaxes(
        title_text=f"{axis.title}, {axis.unit}", **_ticks(axis, max(used, default=1) if share_x else None)
    )
    figure.update_yaxes(title_text=plain(y_title), col=1)
    return figure


def _ticks(axis: Axis, most: float | None) -> dict[str, object]:
    """A logarithmic axis names 1, 2 and 5 of every power of ten; any other begins at zero, or a few percent would look like a gulf. It
    ends at 1.25 times the most of all panels, with room for names; in each panel at its own without it."""
    if not axis.is_log:
        whole = {"range": [0, ROOM * most]} if most else {"rangemode": "tozero"}
        return {**whole, "nticks": 6, "tickformat": "~s" if axis.unit == "tokens" else "~g"}
    return {
        "type": "log",
        "dtick": "D2",
        "tickformat": "~s" if axis.unit == "tokens" else "~g",
        "minor": {"dtick": "D1"},
    }


def _segments(panel: PairPanel) -> go.Scatter:
    whole = [(pair.ends[0], pair.ends[1]) for pair in panel.pairs if len(pair.ends) == 2]
    return connect(whole, color=MUTED, width=1, dash="dash")


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
    for harness, condition in dict.fromkeys((pair.harness, pair.condition) for pair in panel.pairs):
        names = _names(panel, harness)
        pairs = [pair for pair in panel.pairs if (pair.harness, pair.condition) == (harness, condition)]
        bases = [(pair.model, pair.base) for pair in pairs if pair.base is not None and pair.base.stands]
        owns = [(pair.model, pair.own) for pair in pairs if pair.own.stands]
        for ends, is_base in ((bases, True), (owns, False)):
            if ends:
                look = _look(panel.base if is_base else condition, styles[harness], several=several)
                name = names[0] if is_base else condition if panel.own == ALL else names[1]
                traces.append(_trace(ends, name, look, is_base, {} if is_base else labels, named))
    return traces


def _look(condition: str, of_harness: Style, *, several: bool) -> Style:
    known = of_condition(condition)
    if known is None:
        return of_harness
    return Style(known.colour, of_harness.symbol if several else known.symbol, known.dash)


def _harnesses(panel: PairPanel) -> list[str]:
    return list(dict.fromkeys(pair.harness for pair in panel.pairs))


def _names(panel: PairPanel, harness: str) -> tuple[str, str]:
    """What the legend calls the hollow and the filled ends."""
    if panel.own == ALL:
        return panel.base, panel.own
    return f"{harness}: {panel.base}", f"{harness}: condition"


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
    owns = {id(pair.own): pair.condition if panel.own == ALL else pair.model for pair in panel.pairs if pair.own.stands}
    texts = [short(owns.get(id(end), ""), 24) for end in ends]
    return {id(end): label for end, label in zip(ends, labels_of(spots, texts, width), strict=True)}


def _trace(
    ends: Sequence[tuple[str, PairEnd]],
    name: str,
    style: Style,
    is_base: bool,
    labels: dict[int, MarkLabel],
    named: Legend,
) -> go.Scatter:
    beside = [labels.get(id(end), MarkLabel()) for _, end in ends]
    return scatter(
        [end for _, end in ends],
        mode="markers+text" if labels else "markers",
        text=[f"  {label.text}" if end.spread else label.text for (_, end), label in zip(ends, beside, strict=True)]
        if labels
        else None,
        textposition=[
            "middle right" if end.spread else label.place for (_, end), label in zip(ends, beside, strict=True)
        ],
        textfont={"color": MUTED, "size": 10},
        marker=(style.open if is_base else style).mark(9, line={"width": 2 if is_base else 0}),
        error_y=spread_bars([end for _, end in ends], veil(style.colour, 0.5)),
        **named.enter(name),
    )
