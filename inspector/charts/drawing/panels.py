"""Small multiples on equal axes, and heatmaps that carry their numbers inside the cells."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from html import escape, unescape
from math import ceil

from plotly import graph_objects as go
from plotly.subplots import make_subplots

from benchapp.stats.comparing.condition_names import say_label
from benchapp.stats.metrics.amounts import render_signed
from benchapp.stats.metrics.catalogue import METRIC_NAMES
from inspector.charts.chart import HtmlPicture
from inspector.charts.drawing.palette import DIVERGING, INK, SEQUENTIAL, layout

MAX_PANELS = 12  # more are too small to read side by side
ROW = 27  # px of a heatmap's row
HEAD = 34  # px above a panel, for its title
FOOT = 46  # px below it, for its ticks
TICKS = 28  # px below it, where the axis has no title
BARE_HEAD = 10  # px above panels that have no title
TITLES = {1: 60, 2: 40, 3: 34}  # characters of a panel's title, by the panels in a row; fewer where there are more
LEGEND = 26  # px below all panels, for a line of names
LEGEND_WIDTH = 1000  # px of such a line, about
LONGEST = 52  # characters of a label on an axis
TILTED = 30  # characters of one that is tilted
LETTER = 6.5  # px of a character, about
SHADES = 5  # of a cell in HTML, on either side of nothing
TALL_BAR = 120  # px of a colour bar that has room for five values
BESIDE = 260  # px next to the cells, for names and the colour bar; more where names are long
COLOURS = 110  # px of the colour bar with its values
NARROWEST = 46  # px of a cell that still holds its number
WIDTH = 760  # px next to the names of the rows, about
BARE = {"showgrid": False, "zeroline": False, "ticks": ""}


@dataclass(frozen=True, slots=True)
class HeatCell:
    """`value` None: blank. `text` is written inside, `hover` says all there is to say, `url` leads to the trials."""

    value: float | None = None
    text: str = ""
    hover: str = ""
    url: str = ""


@dataclass(frozen=True, slots=True)
class Heat:
    """One panel: cells by (row, column), by their names. A place without a cell is blank."""

    title: str
    cells: Mapping[tuple[str, str], HeatCell]


@dataclass(frozen=True, slots=True)
class Scale:
    """What the colours of all panels mean: from `low` to `high`, diverging around 0 or rising."""

    low: float
    high: float
    diverging: bool
    unit: str

    @classmethod
    def around_zero(cls, values: Iterable[float | None], unit: str, at_least: float = 0.0) -> Scale:
        """As far to one side as to the other, so that equal differences get equal strength."""
        reach = max([at_least, *(abs(value) for value in values if value is not None)]) or 1.0
        return cls(-reach, reach, True, unit)

    @property
    def axis(self) -> dict[str, object]:
        colours = DIVERGING if self.diverging else SEQUENTIAL
        return {"cmin": self.low, "cmax": self.high, "colorscale": colours}

    def shade(self, value: float | None) -> str:
        """The class of a cell in static/css/charts.css: five steps from nothing to the end of the scale,
        on either side of 0."""
        if value is None:
            return ""
        nothing = 0 if self.diverging else self.low
        step = round(SHADES * (value - nothing) / ((self.high - nothing) or 1))
        return f"heat-{'low' if step < 0 else 'high'}-{min(SHADES, abs(step))}" if step else ""

    def bar(self, height: float) -> dict[str, object]:
        """The bar next to panels that are `height` px tall: at their top, each of its values with the unit."""
        steps = 4 if height >= TALL_BAR else 2
        values = [self.low + (self.high - self.low) * step / steps for step in range(steps + 1)]
        return {
            "thickness": 10,
            "outlinewidth": 0,
            "ticks": "",
            "lenmode": "pixels",
            "len": min(height, 2 * TALL_BAR),
            "y": 1,
            "yanchor": "top",
            "ypad": 0,
            "tickvals": values,
            "ticktext": [self._write_value(value) for value in values],
        }

    def _write_value(self, value: float) -> str:
        digits = 0 if max(abs(self.low), abs(self.high)) >= 20 else 1
        number = render_signed(value, digits) if self.diverging else f"{value:,.{digits}f}"
        return f"{number} {self.unit}"


def plain(text: object) -> str:
    """For plotly, which reads a few HTML tags and entities in its texts: here they mean nothing."""
    return escape(str(text), quote=False)


def read_plain(hover: str) -> str:
    """A hover text as one line for HTML, which escapes it again."""
    return unescape(re.sub(r"</?b>", "", hover.replace(" <br>", " ").replace("<br>", "; ")))


def short(text: str, longest: int = LONGEST) -> str:
    """A label that fits an axis, its middle left out where it is too long; a condition by its short name."""
    text = METRIC_NAMES[text].short if text in METRIC_NAMES else say_label(text)
    if len(text) <= longest:
        return plain(text)
    half = (longest - 1) // 2
    return plain(f"{text[:half]}…{text[-half:]}")


def lines(*texts: str) -> str:
    """A hover text, one line each; empty ones are left out. The texts are taken as they are: clean them first."""
    return "<br>".join(text for text in texts if text)


def panels(
    titles: Sequence[str],
    *,
    across: int,
    height: float,
    share_x: bool = True,
    share_y: bool = True,
    legend: Iterable[str] = (),
    head: float = HEAD,
    foot: float = FOOT,
) -> tuple[go.Figure, Callable[[int], dict[str, int]]]:
    """An empty figure of panels, each `height` px tall, and a function from a panel's number to its `row` and `col`.

    `legend`: the names it will have. Without room for them plotly takes it from the panels.
    """
    across = max(1, min(across, len(titles)))
    down = ceil(len(titles) / across)
    head = head if any(titles) else min(head, BARE_HEAD)
    names = sum(56 + LETTER * len(name) for name in legend)  # each has its mark before it and some air
    gap, bottom = head + foot, foot + LEGEND * ceil(names / LEGEND_WIDTH)
    inner = down * height + (down - 1) * gap
    column_gap, between = min(0.06, 0.12 / across), gap / inner if down > 1 else 0
    # The layout comes first and in one piece: plotly takes a tenth of a second to check it again when it is changed.
    whole = layout(height=inner + head + bottom, margin={"t": head, "b": bottom, "l": 8, "r": 12, "pad": 4})
    whole["annotations"] = [
        _title(
            short(title, TITLES.get(across, 28)),
            place % across * (1 + column_gap) / across,
            1 - place // across * (height + gap) / inner,
        )
        for place, title in enumerate(titles)
        if title
    ]
    figure = make_subplots(
        rows=down,
        cols=across,
        shared_xaxes="all" if share_x else False,
        shared_yaxes="all" if share_y else False,
        horizontal_spacing=column_gap,
        vertical_spacing=between,
        figure=go.Figure(layout=whole),
    )
    if share_x and down > 1:
        figure.update_xaxes(showticklabels=True)
    return figure, lambda place: {"row": place // across + 1, "col": place % across + 1}


def _title(title: str, x: float, y: float) -> dict[str, object]:
    """Starts where its panel starts."""
    return {
        "text": title,
        "x": x,
        "y": y,
        "xref": "paper",
        "yref": "paper",
        "xanchor": "left",
        "yanchor": "bottom",
        "align": "left",
        "showarrow": False,
        "font": {"size": 13, "color": INK},
    }


@dataclass(frozen=True)
class Heats(HtmlPicture):
    """Panels of cells, all with the same rows, columns and colours; the first `MAX_PANELS` are drawn."""

    heats: Sequence[Heat]
    rows: Sequence[str]
    columns: Sequence[str]
    scale: Scale
    across: int = 2

    template = "compare/_heats.html"

    def build_figure(self) -> go.Figure:
        return heatmaps(self.heats, self.rows, self.columns, self.scale, across=self.across)

    def tables(self) -> Iterator[tuple[str, list[tuple[str, list[tuple[HeatCell, str, str]]]]]]:
        """For the template: of each panel its title and rows, of each cell its shade and what it says on hover."""
        for heat in self.heats[:MAX_PANELS]:
            rows = []
            for row in self.rows:
                cells = [heat.cells.get((row, column), HeatCell()) for column in self.columns]
                rows.append((row, [(cell, self.scale.shade(cell.value), read_plain(cell.hover)) for cell in cells]))
            yield heat.title, rows


def heatmaps(
    heats: Sequence[Heat],
    rows: Sequence[str],
    columns: Sequence[str],
    scale: Scale,
    *,
    across: int = 2,
) -> go.Figure:
    """The first `MAX_PANELS`, all with the same rows from the top, the same columns and the same colours."""
    shown = heats[:MAX_PANELS]
    names, tilt = _column_names(columns, min(across, len(shown)))
    head, foot = (tilt or HEAD, TICKS) if len(shown) == 1 else (HEAD, tilt or TICKS)
    height = max(2, len(rows)) * ROW
    figure, place_of = panels([heat.title for heat in shown], across=across, height=height, head=head, foot=foot)
    for place, heat in enumerate(shown):
        figure.add_trace(_heatmap(heat, rows, columns), **place_of(place))
    below = {"tickangle": -45, "side": "top" if len(shown) == 1 else "bottom"} if tilt else {}
    figure.update_xaxes(tickvals=list(range(len(columns))), ticktext=names, **BARE, **below)
    labels = [short(row) for row in rows]
    figure.update_yaxes(tickvals=list(range(len(rows))), ticktext=labels, range=[len(rows) - 0.5, -0.5], **BARE)
    down = ceil(len(shown) / across)
    inner = down * height + (down - 1) * (head + foot)
    figure.layout.coloraxis = {**scale.axis, "colorbar": scale.bar(inner)}
    label_width = max(BESIDE, COLOURS + LETTER * min(LONGEST, max(map(len, rows), default=0)))
    figure.layout.meta = {"min_width": label_width + min(across, len(shown)) * len(columns) * NARROWEST}
    return figure


def _column_names(columns: Sequence[str], across: int) -> tuple[list[str], float]:
    """The names under the columns, and the px it needs where it must be tilted; 0 where it fits."""
    longest = max(map(len, columns), default=0)
    if longest * LETTER <= WIDTH / across / max(1, len(columns)):
        return [short(column) for column in columns], 0
    names = [short(column, TILTED) for column in columns]
    return names, min(longest, TILTED) * LETTER * 0.71 + 24


def _heatmap(heat: Heat, rows: Sequence[str], columns: Sequence[str]) -> go.Heatmap:
    cells = [[heat.cells.get((row, column), HeatCell()) for column in columns] for row in rows]
    return go.Heatmap(
        z=[[cell.value for cell in of_row] for of_row in cells],
        text=[[cell.text for cell in of_row] for of_row in cells],
        hovertext=[[cell.hover for cell in of_row] for of_row in cells],
        customdata=[[cell.url for cell in of_row] for of_row in cells],
        texttemplate="%{text}",
        textfont={"color": INK, "size": 12},
        hoverinfo="text",
        xgap=2,
        ygap=2,
        coloraxis="coloraxis",
        name=plain(heat.title),
    )


def note_left_out(panels_total: int, narrow_by: str) -> tuple[str, ...]:
    """The note of a figure that has more panels than it can draw; none where all are drawn."""
    if panels_total <= MAX_PANELS:
        return ()
    return (f"{MAX_PANELS} of {panels_total} panels are drawn; the table has all. Choose {narrow_by} to see others.",)
