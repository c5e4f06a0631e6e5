"""Horizontal bars in small multiples: stacked parts with their numbers inside, or one bar each."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import cycle

from plotly import graph_objects as go

from inspector.charts.chart import HtmlPicture
from inspector.charts.drawing.palette import BACKGROUND, INK, MUTED, PARTS
from inspector.charts.drawing.panels import MAX_PANELS, panels, plain, read_plain, short
from inspector.charts.drawing.traces import error_bar

BAR = 28  # px of one bar with the room around it
MAX_BARS = 30  # one below the other; a page shows about as many at once
HATCHING = {"fillmode": "overlay", "fgcolor": BACKGROUND, "fgopacity": 0.3, "size": 8, "solidity": 0.1}
LABEL = 44  # characters of a bar's label
NARROWEST = 300  # px of panels below each other
WIDTH = 1150  # px of a wide page's panels together
ROOM = 1.3  # the axis continues behind the bars, for the words at their ends
WIDE_ROOM = 1.8  # the same behind intervals
WRITTEN = 0.08  # of the width that a part has at least to carry its number in HTML
LETTER = 8  # px of a digit in a bar, with some room


@dataclass(frozen=True, slots=True)
class Look:
    """Of a part: its colour, its hatching, and the colour of the number inside, which keeps 3.9:1 in both themes."""

    fill: str
    pattern: str
    text: str
    css: str  # its class in static/css/charts.css


LOOKS = (
    Look(PARTS[0][0], "", BACKGROUND, "part-0"),
    Look(PARTS[1][0], "", INK, "part-1"),
    Look(PARTS[2][0], "", BACKGROUND, "part-2"),
    Look(PARTS[3][0], "", INK, "part-3"),
    Look(PARTS[0][0], "/", BACKGROUND, "part-4"),
    Look(PARTS[1][0], "\\", INK, "part-5"),
)


@dataclass(frozen=True, slots=True)
class BarPart:
    """A piece of a bar. An unknown `value` (None) takes no room; `text` is written inside, `hover` says it all."""

    name: str
    value: float | None
    text: str
    hover: str
    url: str = ""


class Bar:
    """`after` is written behind the bar's end: its total, or why it has no total. `around`: the interval of its length.
    `end`: where the words begin, behind the bar and its interval."""

    def __init__(
        self, label: str, parts: Sequence[BarPart], after: str = "", around: tuple[float, float] | None = None
    ) -> None:
        self.label, self.parts, self.after, self.around = label, parts, after, around
        self.length = sum(part.value or 0.0 for part in parts)
        self.end = max(self.length, around[1] if around else 0.0)


class BarPanel:
    """One panel: `axis` says what its bars measure, with the unit. `whole`: where the axis ends, such as 100 %."""

    def __init__(self, title: str, axis: str, bars: Sequence[Bar], whole: float | None = None) -> None:
        self.title, self.axis, self.bars, self.whole = title, axis, bars, whole
        self.parts = [part for bar in bars for part in bar.parts]
        self.reach = whole or max((bar.length for bar in bars), default=0.0) or 1.0


@dataclass(frozen=True)
class Bars(HtmlPicture):
    """Panels of stacked bars."""

    blocks: Sequence[BarPanel]
    kinds: Mapping[str, Look]  # the names of the parts in their order, with their looks
    across: int = 2
    # one axis for all panels; without a `legend` the labels of the bars say what the looks mean
    share_x: bool = False
    legend: bool = True
    laid_over: Sequence[BarPanel] = ()  # of papers, which begin a new row of panels

    template = "compare/_bars.html"

    def build_figure(self) -> go.Figure:
        """The first panels that fit.
        Labels are left of the first panel of a row: panels in one row must have the same bars."""
        blocks = [*self.blocks, *[None] * (-len(self.blocks) % self.across), *self.laid_over]
        shown = blocks[:MAX_PANELS]
        across = min(self.across, len(shown))
        rows = max(2, *(len(block.bars) for block in shown if block))
        titles = [block.title if block else "" for block in shown]
        drawn = {part.name for block in shown if block for part in block.parts}
        names = [name for name in self.kinds if name in drawn] if self.legend and len(drawn) > 1 else []
        figure, place_of = panels(titles, across=across, height=rows * BAR, share_x=False, share_y=False, legend=names)
        longest = max(block.reach for block in shown if block)
        named: set[str] = set()
        for place, block in enumerate(shown):
            where = place_of(place)
            if block is None:
                figure.update_xaxes(visible=False, **where)
                figure.update_yaxes(visible=False, **where)
                continue
            reach = longest if self.share_x else block.reach
            for name, look in self.kinds.items():
                trace = _trace(block, name, look, WIDTH / across / ROOM / reach)
                if trace is not None:
                    figure.add_trace(trace.update(showlegend=name not in named), **where)
                    named.add(name)
            _add_intervals(figure, block, where)
            _add_ends(figure, block, where)
            _lay_axes(figure, block, rows, reach, where)
        showlegend = self.legend and len(named) > 1
        return figure.update_layout(barmode="stack", bargap=0.2, showlegend=showlegend, meta=_fit(figure, across))

    def lanes(self) -> Iterator[tuple[BarPanel, list[dict[str, object]]]]:
        """For the template: the panels, each with a row per bar. Lengths are in percent of the width."""
        shown = [*self.blocks, *self.laid_over][:MAX_PANELS]
        longest = max((block.reach for block in shown), default=1.0)
        for block in shown:
            whole = longest if self.share_x else max(block.reach, *(bar.end for bar in block.bars), 0.0)
            yield block, [self._lane(bar, whole) for bar in block.bars]

    def _lane(self, bar: Bar, whole: float) -> dict[str, object]:
        parts, start = [], 0.0
        for part in bar.parts:
            size = part.value or 0.0
            parts.append(
                {
                    "css": self.kinds[part.name].css,
                    "start": _percent(start, whole),
                    "size": _percent(size, whole),
                    "middle": _percent(start + size / 2, whole),
                    "text": part.text if size >= WRITTEN * whole else "",
                    "says": read_plain(part.hover),
                }
            )
            start += size
        return {
            "bar": bar,
            "parts": parts,
            "ends": tuple(_percent(end, whole) for end in bar.around) if bar.around else (),
            "url": next((part.url for part in bar.parts if part.url), ""),
            "says": "; ".join(str(part["says"]) for part in parts) or bar.after,
        }

    def used(self) -> list[tuple[str, str]]:
        """The legend: each kind that is drawn with its class, where there are several."""
        drawn = {part.name for block in (*self.blocks, *self.laid_over) for part in block.parts if part.value}
        found = [(name, look.css) for name, look in self.kinds.items() if name in drawn]
        return found if self.legend and len(found) > 1 else []


def _percent(value: float, whole: float) -> str:
    return f"{100 * value / whole:.2f}%"


def _fit(figure: go.Figure, across: int) -> dict[str, object]:
    """The least width. Panels below each other fit a phone, where their titles end at the right:
    labels take the left."""
    least: dict[str, object] = {"min_width": 240 + 260 * across}
    if across > 1:
        return least
    titles = [{**each.to_plotly_json(), "x": 1, "xanchor": "right"} for each in figure.layout.annotations]
    return {**least, "narrow": {"annotations": titles, "meta": {"min_width": NARROWEST}}}


def kinds_of_part(*names: str) -> dict[str, Look]:
    """Each with the next of the looks."""
    return dict(zip(names, cycle(LOOKS), strict=False))


def _lay_axes(figure: go.Figure, block: BarPanel, rows: int, reach: float, place: dict[str, int]) -> None:
    figure.update_yaxes(
        tickvals=list(range(len(block.bars))),
        ticktext=[short(bar.label, LABEL) for bar in block.bars],
        range=[rows - 0.5, -0.5],
        showticklabels=place["col"] == 1,
        showgrid=False,
        zeroline=False,
        **place,
    )
    title = {"text": plain(block.axis), "font": {"size": 12}}
    room = WIDE_ROOM if any(bar.around for bar in block.bars) else ROOM
    figure.update_xaxes(range=[0, reach * room], title=title, **place)
    if block.whole:
        figure.update_xaxes(tickvals=[block.whole * part / 4 for part in range(5)], **place)


def _trace(block: BarPanel, name: str, look: Look, room: float) -> go.Bar | None:
    """The parts of one kind. `room`: px of one unit of value on a wide page; a number that would not fit is left to the
    hover text and the table."""
    rows = [(row, part) for row, bar in enumerate(block.bars) for part in bar.parts if part.name == name]
    if not rows:
        return None
    fits = [(part.value or 0) * room > LETTER * len(part.text) for _, part in rows]
    return go.Bar(
        x=[part.value for _, part in rows],
        y=[row for row, _ in rows],
        orientation="h",
        name=plain(name),
        legendgroup=plain(name),
        marker={"color": look.fill, "pattern": {"shape": look.pattern, **HATCHING}, "line": {"width": 0}},
        text=[plain(part.text) if fit else "" for (_, part), fit in zip(rows, fits, strict=True)],
        textposition="inside",
        insidetextanchor="middle",
        insidetextfont={"size": 11, "color": look.text},
        textangle=0,
        constraintext="none",
        hovertext=[part.hover for _, part in rows],
        hoverinfo="text",
        customdata=[part.url for _, part in rows],
    )


def _add_intervals(figure: go.Figure, block: BarPanel, place: dict[str, int]) -> None:
    """Thin lines over the bars, from end to end."""
    found = [(row, bar.length, bar.around) for row, bar in enumerate(block.bars) if bar.around]
    if not found:
        return
    above, below = [ends[1] - length for _, length, ends in found], [length - ends[0] for _, length, ends in found]
    figure.add_trace(
        go.Scatter(
            x=[length for _, length, _ in found],
            y=[row for row, _, _ in found],
            mode="markers",
            marker={"color": INK, "size": 1},
            error_x=error_bar(above, below, INK),
            hoverinfo="skip",
            showlegend=False,
        ),
        **place,
    )


def _add_ends(figure: go.Figure, block: BarPanel, place: dict[str, int]) -> None:
    """The words behind the bars, and at zero where there is no bar."""
    ends = [(row, bar) for row, bar in enumerate(block.bars) if bar.after]
    if ends:
        figure.add_trace(
            go.Scatter(
                x=[bar.end for _, bar in ends],
                y=[row for row, _ in ends],
                mode="text",
                text=[f" {plain(bar.after)}" for _, bar in ends],
                textposition="middle right",
                textfont={"size": 12, "color": [INK if bar.length else MUTED for _, bar in ends]},
                hoverinfo="skip",
                showlegend=False,
                cliponaxis=False,
            ),
            **place,
        )


def note_crowd(total: int, what: str, drawn: int = MAX_BARS) -> tuple[str, ...]:
    """The note of a chart that has more bars than it draws; none where all are drawn."""
    if total <= drawn:
        return ()
    return (f"{drawn} of {total} {what} are drawn; the table has all. Narrow the choice to see others.",)
