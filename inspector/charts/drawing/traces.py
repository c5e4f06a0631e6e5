"""Build plotly's traces from points: what all charts share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from plotly import graph_objects as go

from inspector.charts.drawing.palette import GRID, Style
from inspector.charts.drawing.panels import LONGEST, panels, plain, short

END_ROW = 38  # px of a row with two ends
LEAST_ROWS = 3  # the least height of rows below each other, in rows


@dataclass(frozen=True, slots=True)
class ChartPoint:
    """`hover` is clean text with `<br>` between its lines; `url` leads to the trials behind it. `spread`: the ends
    of the line through it, an interval or the lowest and highest; the chart's notes say which."""

    x: float | None
    y: float | None
    hover: str
    url: str = ""
    spread: tuple[float, float] | None = None


class Legend:
    """The names that the legend already has: a series that comes in several panels is listed once."""

    def __init__(self) -> None:
        self._names: set[str] = set()

    def enter(self, name: str) -> dict[str, object]:
        """What plotly needs to list a trace of this name once, however many panels it comes in."""
        return {"name": short(name), "legendgroup": plain(name), "showlegend": self.is_first(name)}

    def is_first(self, name: str) -> bool:
        """Whether this is the name's first trace; it is not from then on."""
        first = name not in self._names
        self._names.add(name)
        return first


def scatter(points: Sequence[ChartPoint], **more: object) -> go.Scatter:
    """Marks or a line through them, with their hover texts and their addresses. `more`: plotly's own words."""
    return plain_scatter(points, customdata=[point.url for point in points], cliponaxis=False, **more)


def error_bar(above: Sequence[float], below: Sequence[float], colour: str) -> dict[str, object]:
    return {"array": above, "arrayminus": below, "color": colour, "thickness": 1.3, "width": 3}


def reach(value: float | None, around: tuple[float, float] | None, colour: str) -> dict[str, object]:
    """One mark's interval as plotly's error bar; none where there is none."""
    if value is None or around is None:
        return {"visible": False}
    return error_bar([around[1] - value], [value - around[0]], colour)


def spread_bars(points: Sequence[ChartPoint], colour: str) -> dict[str, object]:
    """The lines through all marks of a trace; nothing is seen where none has one."""
    above = [point.spread[1] - point.y if point.spread and point.y is not None else 0 for point in points]
    below = [point.y - point.spread[0] if point.spread and point.y is not None else 0 for point in points]
    return {**error_bar(above, below, colour), "visible": any(above) or any(below)}


def line_mode(points: Sequence[object]) -> str:
    """A line joins three points or more: two do not make a trend."""
    return "lines+markers" if len(points) > 2 else "markers"


def plain_scatter(points: Sequence[ChartPoint], **more: object) -> go.Scatter:
    """The same for points that lead nowhere, such as published ones."""
    return go.Scatter(
        x=[point.x for point in points],
        y=[point.y for point in points],
        hovertext=[point.hover for point in points],
        hoverinfo="text",
        **more,
    )


def connect(pairs: Sequence[tuple[ChartPoint, ChartPoint]], **line: object) -> go.Scatter:
    """A line of its own for each pair of points, without a hover text."""
    return go.Scatter(
        x=[x for one, other in pairs for x in (one.x, other.x, None)],
        y=[y for one, other in pairs for y in (one.y, other.y, None)],
        mode="lines",
        line=line,
        hoverinfo="skip",
        showlegend=False,
    )


def draw_two_ends(
    rows: Sequence[tuple[str, Style]],
    sides: Sequence[Sequence[ChartPoint]],
    names: Sequence[str],
    write: Callable[[float], str],
) -> go.Figure:
    """Rows of two marks with a line between them: filled with its number above, and hollow with its number below. A
    row has its label and its style; `names`: what the legend calls the sides."""
    figure, _ = panels([""], across=1, height=max(LEAST_ROWS, len(rows)) * END_ROW, legend=names)
    figure.add_trace(connect(list(zip(*sides, strict=True)), color=GRID, width=4))
    for side, (points, name) in enumerate(zip(sides, names, strict=True)):
        looks = [style.open if side else style for _, style in rows]
        colours, symbols = [look.colour for look in looks], [look.symbol for look in looks]
        trace = scatter(
            points,
            mode="markers+text",
            name=name,
            marker={"color": colours, "symbol": symbols, "size": 10, "line": {"width": 2}},
            text=[write(point.x or 0) for point in points],
            textposition="bottom center" if side else "top center",
            textfont={"size": 10},
        )
        figure.add_trace(trace)
    labels = [label for label, _ in rows]
    figure.update_yaxes(**lay_rows(labels, least=LEAST_ROWS, longest=44), zeroline=False, showgrid=False)
    return figure.update_layout(showlegend=True)


def lay_rows(labels: Sequence[str], *, least: int = 0, longest: int = LONGEST) -> dict[str, object]:
    """The y axis of rows below each other, the first at the top, each with its label."""
    return {
        "tickvals": list(range(len(labels))),
        "ticktext": [short(label, longest) for label in labels],
        "range": [max(least, len(labels)) - 0.5, -0.5],
    }
