"""Distribute groups over panels, and draw them as lines of one style per name."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

from plotly import graph_objects as go

from benchapp.stats.comparing.groups import Group
from inspector.charts.drawing.arms import arms_of
from inspector.charts.drawing.palette import by_name, veil
from inspector.charts.drawing.panels import MAX_PANELS, note_left_out, panels
from inspector.charts.drawing.traces import ChartPoint, Legend, line_mode, scatter, spread_bars

MAX_LINES = 8  # in one panel; more cannot be distinguished
HEIGHT = 240  # px of a panel's inside
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class LinePanel(Generic[T]):
    """One panel: its title and, by the name of the line, what it draws: a group, where the chart needs no more."""

    title: str
    lines: tuple[tuple[str, T], ...]


def split_panels(groups: Iterable[Group], *, apart: bool = False) -> list[LinePanel[Group]]:
    """A panel per model with a line for each condition, which is the only thing that styles show. `apart`: a panel per
    group while these are few, for lines that would cover one another."""
    found = list(groups)
    if apart and len(found) <= MAX_PANELS:
        return [LinePanel(group.label, ((group.label, group),)) for group in found]
    arms = arms_of(found)
    titles = [arm.title for arm in arms] if len(arms) > 1 else [""]
    return [
        LinePanel(title, tuple(zip(arm.rows, arm.groups, strict=True))) for title, arm in zip(titles, arms, strict=True)
    ]


def curves(
    facets: Sequence[LinePanel[T]],
    points_of: Callable[[T], Sequence[ChartPoint]],
    *,
    corners: bool = False,
    across: int = 2,
) -> go.Figure:
    """Lines with markers on shared axes, one style per name in every panel; the first panels that fit are drawn.

    A point without `y` breaks its line. `corners`: a value holds until the next one.
    """
    shown = facets[:MAX_PANELS]
    styles = by_name(list(dict.fromkeys(name for facet in shown for name, _ in facet.lines)))
    legend = any(len(facet.lines) > 1 for facet in shown)
    figure, place_of = panels(
        [facet.title for facet in shown], across=across, height=HEIGHT, legend=styles if legend else ()
    )
    named = Legend()
    for place, facet in enumerate(shown):
        for name, line in facet.lines:
            points = points_of(line)
            if not points:
                continue
            style = styles[name]
            trace = scatter(
                points,
                mode=line_mode(points),
                **named.enter(name),
                line={"color": style.colour, "dash": style.dash, "width": 2, "shape": "hv" if corners else "linear"},
                marker=style.mark(8),
                error_y=spread_bars(points, veil(style.colour, 0.5)),
            )
            figure.add_trace(trace, **place_of(place))
    figure.update_layout(showlegend=legend, meta={"min_width": 320 if len(shown) == 1 else 520})
    return figure


def crowd_notes(facets: Sequence[LinePanel[T]]) -> tuple[str, ...]:
    """The notes where groups are spread over panels, or where there are too many of those."""
    notes = note_left_out(len(facets), "agent models")
    if max((len(facet.lines) for facet in facets), default=0) > MAX_LINES:
        notes += ("Styles repeat where a panel has many lines; choose conditions to see fewer.",)
    return notes
