"""What kind of learner each group is: a dot per measure, its place among the groups, its raw number beside it.

Source: SkillLearnBench, figure 3, there a radar over six normalised dimensions with a table of raw values. A radar's area
depends on the order of its axes; dots on a common row do not.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from plotly import graph_objects as go

from benchapp.metrics.metric import Unit
from inspector.charts.bars import MAX_BARS, crowded
from inspector.charts.drawing import Chart, Column, Drawing, Row, Table
from inspector.charts.measures import Measure, Measured, own_measures, printed_measures
from inspector.charts.palette import Style, series
from inspector.charts.panels import lines, panels, plain, short
from inspector.charts.quantities import plural, shown
from inspector.charts.sheet import Sheet

ROW = 24  # px
ACROSS = 3
SOURCES = {"own": series(0), "published": series(1).open}
COLUMNS = (
    Column("group", "group"),
    Column("measure", "measure"),
    Column("value", "value"),
    Column("unit", "unit"),
    Column("place", "place between lowest (0) and highest (1)"),
    Column("over", "rests on"),
    Column("source", "source"),
)


@dataclass(frozen=True, slots=True)
class Dot:
    """`place`: 0 for the lowest and 1 for the highest of the groups of its source; 0.5 where all are equal."""

    label: str
    measured: Measured
    place: float | None


def placed(labels: Sequence[str], values: Sequence[Measured]) -> list[Dot]:
    """Min-max over the groups that have a value; None stays without a place."""
    known = [each.value for each in values if each.value is not None]
    low, high = (min(known), max(known)) if known else (0.0, 0.0)
    reach = high - low

    def place(value: float | None) -> float | None:
        if value is None:
            return None
        return (value - low) / reach if reach else 0.5

    return [Dot(label, each, place(each.value)) for label, each in zip(labels, values, strict=True)]


def draw(sheet: Sheet) -> Drawing:
    sets = [("own", *own_measures(sheet)), ("published", *printed_measures(sheet))]
    sets = [(source, labels, measures) for source, labels, measures in sets if labels and measures]
    if not sets:
        return Drawing(None, Table(COLUMNS), absent="No trial of these runs has a number to draw a profile from.")
    rows = tuple(row for source, labels, measures in sets for row in _rows(source, labels, measures))
    drawn = [
        (source, labels[:MAX_BARS], [each.first(MAX_BARS) for each in measures]) for source, labels, measures in sets
    ]
    return Drawing(_figure(drawn), Table(COLUMNS, rows), _notes(sets))


Sets = Sequence[tuple[str, Sequence[str], Sequence[Measure]]]


def _figure(sets: Sets) -> go.Figure:
    places: list[tuple[str, Sequence[str], Measure | None]] = []
    for source, labels, measures in sets:
        places += [(source, labels, measure) for measure in measures]
        places += [(source, labels, None)] * (-len(places) % ACROSS)
    most = max(len(labels) for _, labels, _ in sets)
    titles = [_title(source, measure) if measure else "" for source, _, measure in places]
    figure, place_of = panels(titles, across=ACROSS, height=max(3, most) * ROW, share_x=False, share_y=False)
    for number, (source, labels, measure) in enumerate(places):
        where = place_of(number)
        if measure is None:
            figure.update_xaxes(visible=False, **where).update_yaxes(visible=False, **where)
            continue
        figure.add_trace(_trace(source, measure, placed(labels, measure.values), SOURCES[source]), **where)
        figure.update_yaxes(
            tickvals=list(range(len(labels))),
            ticktext=[short(label, 34) for label in labels],
            range=[max(3, most) - 0.5, -0.5],
            showticklabels=where["col"] == 1,
            zeroline=False,
            **where,
        )
    # room for the numbers right of the dots
    figure.update_xaxes(range=[-0.12, 1.55], tickvals=[0, 1], ticktext=["lowest", "highest"], zeroline=False)
    return figure.update_layout(showlegend=False, meta={"min_width": 960})


def _title(source: str, measure: Measure) -> str:
    unit = "" if measure.unit_name in measure.name else f", {measure.unit_name}"
    return f"{measure.name}{unit}" + (" (published)" if source == "published" else "")


def _trace(source: str, measure: Measure, dots: Sequence[Dot], style: Style) -> go.Scatter:
    """A group without a value stands at the left edge as the word, without a dot."""
    texts = [_text(measure, dot) for dot in dots]
    return go.Scatter(
        x=[0 if dot.place is None else dot.place for dot in dots],
        y=list(range(len(dots))),
        mode="markers+text",
        marker={
            "color": style.colour,
            "symbol": style.symbol,
            "size": 10,
            "opacity": [0 if dot.place is None else 1 for dot in dots],
        },
        text=[f" {plain(text)}" for text in texts],
        textposition="middle right",
        textfont={"size": 11},
        name=plain(measure.name),
        hovertext=[
            lines(plain(dot.label), f"{plain(measure.name)}: {plain(text)}", plain(dot.measured.over), source)
            for dot, text in zip(dots, texts, strict=True)
        ],
        hoverinfo="text",
        customdata=[dot.measured.url for dot in dots],
        cliponaxis=False,
    )


def _text(measure: Measure, dot: Dot) -> str:
    if dot.measured.printed:
        return dot.measured.printed
    if dot.measured.value is None:
        return "blank" if measure.unit is None else "unknown"
    return shown(dot.measured.value, measure.unit or Unit.COUNT)


def _rows(source: str, labels: Sequence[str], measures: Sequence[Measure]) -> Iterable[Row]:
    for measure in measures:
        for dot in placed(labels, measure.values):
            value = dot.measured.value
            if value is not None and measure.unit is Unit.SHARE:
                value *= 100
            cells = (dot.label, measure.name, value, measure.unit_name, dot.place, dot.measured.over)
            yield Row((*cells, source), dot.measured.url)


def _notes(sets: Sets) -> tuple[str, ...]:
    counts = {source: len(labels) for source, labels, _ in sets}
    notes = [
        "A dot's place runs from the lowest to the highest of the groups of its source; the number is the raw value."
    ]
    notes.append(
        "Places say nothing of how much a difference matters, and none of what is better: see the forest plot."
    )
    if "published" in counts:
        notes.append(
            "Published: SkillLearnBench, Table 2 (averages) and the numbers inside Figure 3; placed among themselves, since "
            f"tasks and agents differ. {plural(counts['published'], 'method')}."
        )
    return (*notes, *crowded(counts.get("own", 0), "groups"))


CHART = Chart(
    key="profiles",
    title="Profiles",
    question="How does each condition learn: often used or ignored, long or short, cheap or dear?",
    draw=draw,
    after="SkillLearnBench, Figure 3",
    uses_metric=True,
    published=("skilllearnbench",),
)
