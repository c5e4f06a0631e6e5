"""Build plotly's traces from points: what all charts share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plotly import graph_objects as go

from inspector.charts.drawing.panels import LONGEST, plain, short

LEAST_ROWS = 3  # rows below each other fill at least the height of so many


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
    """The names that stand in the legend already: a series that comes in several panels stands there once."""

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


def reach(value: float | None, around: tuple[float, float] | None, colour: str) -> dict[str, object]:
    """One mark's interval as plotly's error bar; none where there is none."""
    if value is None or around is None:
        return {"visible": False}
    return {
        "array": [around[1] - value],
        "arrayminus": [value - around[0]],
        "color": colour,
        "thickness": 1.3,
        "width": 3,
    }


def spread_bars(points: Sequence[ChartPoint], colour: str) -> dict[str, object]:
    """The lines through all marks of a trace; nothing is seen where none has one."""
    above = [point.spread[1] - point.y if point.spread and point.y is not None else 0 for point in points]
    below = [point.y - point.spread[0] if point.spread and point.y is not None else 0 for point in points]
    visible = any(above) or any(below)
    return {"array": above, "arrayminus": below, "color": colour, "thickness": 1.3, "width": 3, "visible": visible}


def line_mode(points: Sequence[object]) -> str:
    """Two points are no trend: a line joins three or more."""
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


def lay_rows(labels: Sequence[str], *, least: int = 0, longest: int = LONGEST) -> dict[str, object]:
    """The y axis of rows below each other, the first at the top, each with its label."""
    return {
        "tickvals": list(range(len(labels))),
        "ticktext": [short(label, longest) for label in labels],
        "range": [max(least, len(labels)) - 0.5, -0.5],
    }
