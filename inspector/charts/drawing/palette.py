"""The one set of colours, symbols and dashes of every chart, and the layout they share.

Figures are built in the light colours; `twins()` sends the page what each becomes in the dark. Every colour of a series
keeps 3:1 against the page in its theme, and any two stay apart for readers with any of the three colour blindnesses;
symbols and dashes change with the colour, so that nothing depends on colour alone. The scales stay on the page's own
side of the middle grey: a number written in INK inside any cell keeps 4.5:1. No colour means better or worse.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchapp.stats.comparing.choices import NO_SKILL
from benchapp.stats.comparing.condition_names import SEPARATOR, Origin, name_condition

BACKGROUND = "#ffffff"
INK = "#1f2328"
MUTED = "#57606a"
GRID = "#e3e8ed"  # lines between values
ZERO = "#8b949e"  # the line a value is read against
NEUTRAL = "#f1f3f5"  # the middle of a scale that has two sides, the low end of one that has one
SURFACES = {  # light -> dark; also in static/css/tokens.css
    BACKGROUND: "#0d1117",
    INK: "#e6edf3",
    MUTED: "#9aa4ae",
    GRID: "#232a33",
    ZERO: "#6b7580",
    NEUTRAL: "#1b222c",
}

SERIES = (  # light, dark
    ("#1c308d", "#99b2f5"),  # blue
    ("#d8741a", "#bb4f0c"),  # orange
    ("#219ba1", "#79e5eb"),  # teal
    ("#72101f", "#ed9a9a"),  # wine
    ("#a976dd", "#7d5dc4"),  # violet
    ("#507a59", "#458554"),  # green
    ("#7e5403", "#e5d183"),  # brown
    ("#4d3054", "#9b5c87"),  # plum
)
PARTS = (  # parts of a whole: no condition and no verdict; light, dark
    ("#3d4a5c", "#b9c4d0"),
    ("#b4bfca", "#556270"),
    ("#6b7989", "#8797a6"),
    ("#dde3e9", "#333d49"),
)
SYMBOLS = (
    "circle", "square", "diamond", "triangle-up", "cross", "x", "star", "triangle-down", "pentagon", "hexagram", "bowtie",  # noqa: E501
)  # fmt: skip
DASHES = ("solid", "dash", "dot", "dashdot", "longdash")

Scale = list[tuple[float, str]]  # plotly's: place from 0 to 1, colour
DIVERGING: Scale = [(0.0, "#e8963c"), (0.25, "#f3c795"), (0.5, NEUTRAL), (0.75, "#a9ccf0"), (1.0, "#5e9fe0")]
SEQUENTIAL: Scale = [(0.0, NEUTRAL), (0.34, "#bcd9ef"), (0.67, "#6fafdd"), (1.0, "#4f9bd3")]
DARK_SCALES = {
    "#e8963c": "#a0550f",
    "#f3c795": "#5f3c1d",
    "#a9ccf0": "#1f4370",
    "#5e9fe0": "#2663b4",
    "#bcd9ef": "#1d4464",
    "#6fafdd": "#22659a",
    "#4f9bd3": "#1f6cab",
}
CONDITIONS = {  # ConditionName.colour -> light, dark; `--c-<colour>` in static/css/tokens.css says the same
    "none": ("#7b848e", "#8b949e"),
    "raw": ("#24292f", "#f0f6fc"),
    "hum-1": ("#c48a00", "#ffd76e"),
    "hum-2": ("#a87200", "#eab53c"),
    "hum-3": ("#8a5a00", "#cf931c"),
    "hum-4": ("#653f00", "#a67112"),
    "own-1": ("#cf6be0", "#f0a6fb"),
    "own-2": ("#b23fc8", "#dd7fee"),
    "own-3": ("#8f1fa8", "#c75bdc"),
    "own-4": ("#640c7a", "#a440bc"),
}


@dataclass(frozen=True, slots=True)
class Style:
    """How one series looks. `dash` is plotly's name; eleven symbols meet eight colours:
    88 differ in one or the other."""

    colour: str
    symbol: str
    dash: str

    def mark(self, size: int, **more: object) -> dict[str, object]:
        """As plotly's marker, `size` px wide."""
        return {"color": self.colour, "symbol": self.symbol, "size": size, **more}

    @property
    def open(self) -> Style:
        """The same with a hollow symbol: for what may be chance, or was not ours to measure."""
        return Style(self.colour, f"{self.symbol}-open", self.dash)


AXIS: dict[str, object] = {  # titles are small, lines are drawn for values only
    "gridcolor": GRID,
    "linecolor": GRID,
    "zerolinecolor": ZERO,
    "zerolinewidth": 1,
    "tickfont": {"color": MUTED, "size": 11},
    "title": {"font": {"color": MUTED, "size": 12}, "standoff": 8},
    "automargin": True,
}


def series(place: int) -> Style:
    return Style(SERIES[place % len(SERIES)][0], SYMBOLS[place % len(SYMBOLS)], DASHES[place % len(DASHES)])


def of_condition(code: str) -> Style | None:
    """The style of a condition that a protocol here knows, everywhere the same; None for another's."""
    name = name_condition(code)
    if name.origin is None:
        return None
    dash = "dot" if name.origin is Origin.NOBODY else "solid"
    return Style(CONDITIONS[name.colour][0], name.shape, dash)


def of_label(label: str) -> Style | None:
    """The style of the condition that a group's label begins with."""
    return of_condition(label.partition(SEPARATOR)[0])


def of_group(code: str) -> Style:
    """The style of a group by its condition; one that no protocol here knows is drawn in the ink of the page."""
    return of_condition(code) or Style(PARTS[0][0], "circle", "solid")


def by_name(names: Iterable[str]) -> dict[str, Style]:
    """A style per name: that of its condition where it names one, else one of the series in the order they first come.
    Give the names of all charts of a page in the same order, and each looks the same in all of them."""
    given = list(dict.fromkeys(names))
    known = {name: style for name in dict.fromkeys([NO_SKILL, *given]) if (style := of_label(name))}
    others = [name for name in given if name not in known]
    return {**known, **{name: series(place) for place, name in enumerate(others)}}


def veil(colour: str, opacity: float) -> str:
    """A colour of this palette, partly see-through: for bands and areas."""
    red, green, blue = (int(colour[place : place + 2], 16) for place in (1, 3, 5))
    return f"rgba({red},{green},{blue},{opacity})"


def twins() -> dict[str, str]:
    """Every light colour with its dark twin: sent with each figure."""
    return {**SURFACES, **dict(SERIES), **dict(PARTS), **DARK_SCALES, **dict(CONDITIONS.values())}


def layout(**more: object) -> dict[str, object]:
    """The layout all figures start from. No title: the page has it. The page adds its own font families."""
    return {
        "template": {
            "layout": {"xaxis": AXIS, "yaxis": AXIS},
            "data": {"heatmap": [{"type": "heatmap", "textfont": {"color": INK}}]},
        },
        "paper_bgcolor": "rgba(0,0,0,0)",
        "plot_bgcolor": "rgba(0,0,0,0)",
        "font": {"color": INK, "size": 12},
        "colorway": [light for light, _ in SERIES],
        "margin": {"l": 8, "r": 12, "t": 12, "b": 8, "pad": 4},
        "hovermode": "closest",
        "hoverlabel": {
            "bgcolor": BACKGROUND,
            "bordercolor": MUTED,
            "font": {"color": INK, "size": 12},
            "align": "left",
        },
        "legend": {"orientation": "h", "x": 0, "xanchor": "left", "y": 0, "yref": "container", "yanchor": "bottom"},
        "modebar": {"remove": ["lasso2d", "select2d"]},
        "dragmode": False,
        "height": 420,
        **more,
    }
