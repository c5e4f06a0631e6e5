"""What kind of learner each group is: a dot per measure, on an axis of its own from zero.

Source: SkillLearnBench, figure 3, there a radar over six normalised dimensions with a table of raw values. A radar's area
depends on the order of its axes; dots on a common row do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from plotly import graph_objects as go

from benchapp.stats.metrics.metric import MetricUnit
from benchapp.stats.metrics.metric_names import KNOWN as METRIC_NAMES
from inspector.charts.chart import Chart, ChartDrawing, ChartTable, TableColumn
from inspector.charts.drawing.bars import MAX_BARS, note_crowd
from inspector.charts.drawing.measures import ProfileMeasure, ProfileValue, list_printed_measures, own_measures
from inspector.charts.drawing.palette import Style, of_label, series
from inspector.charts.drawing.panels import lines, panels, plain
from inspector.charts.drawing.quantities import plural, write_value
from inspector.charts.drawing.traces import LEAST_ROWS, ChartPoint, lay_rows, scatter
from inspector.charts.lacking import lacks_rivals
from inspector.charts.sheet import ChartSheet

ROW = 24  # px
ACROSS = 3  # panels in a row: the usual five or six measures make a figure no taller than its neighbours
SOURCES = {"own": series(0), "published": series(1).open}
COLUMNS = (
    TableColumn("group", "group"),
    TableColumn("measure", "measure", read=lambda row: row.measure.name),
    TableColumn("value", "value", read=lambda row: row.value),
    TableColumn("unit", "unit", read=lambda row: row.measure.unit_name),
    TableColumn("place", "place between zero (0) and the highest (1)"),
    TableColumn("over", "rests on", read=lambda row: row.measured.over),
    TableColumn("source", "source"),
)


@dataclass(frozen=True, slots=True)
class Dot:
    """A group in one measure. `place`: 0 for zero and 1 for the highest of the groups of its source; None where it has no value."""

    source: str
    group: str
    measure: ProfileMeasure
    measured: ProfileValue
    place: float | None

    @property
    def url(self) -> str:
        return self.measured.url

    @property
    def value(self) -> float | None:
        """In the unit shown."""
        value = self.measured.value
        return 100 * value if value is not None and self.measure.unit is MetricUnit.SHARE else value

    @property
    def text(self) -> str:
        if self.measured.printed:
            return self.measured.printed
        if self.measured.value is None:
            return "blank" if self.measure.unit is None else "unknown"
        return write_value(self.measured.value, self.measure.unit or MetricUnit.COUNT)


def dots_of(source: str, groups: Sequence[str], measure: ProfileMeasure) -> list[Dot]:
    """In the order of the groups."""
    places = places_of([each.value for each in measure.values])
    return [
        Dot(source, group, measure, measured, place)
        for group, measured, place in zip(groups, measure.values, places, strict=True)
    ]


def places_of(values: Sequence[float | None]) -> list[float | None]:
    """0 for zero, 1 for the highest, so that 1.9 does not look far from 2; below zero for what is; [n] -> [n]."""
    most = max((abs(value) for value in values if value is not None), default=0.0)
    return [None if value is None else value / most if most else 0.0 for value in values]


def draw(sheet: ChartSheet) -> ChartDrawing:
    sets = [("own", *own_measures(sheet)), ("published", *list_printed_measures(sheet))]
    sets = [(source, labels, measures) for source, labels, measures in sets if labels and measures]
    if not sets:
        return ChartDrawing(
            None, ChartTable(COLUMNS), absent="No trial of these runs has a number to draw a profile from."
        )
    dots = (dot for source, labels, measures in sets for each in measures for dot in dots_of(source, labels, each))
    drawn = [
        (source, labels[:MAX_BARS], [each.first(MAX_BARS) for each in measures]) for source, labels, measures in sets
    ]
    judged = sheet.comparison.judged_by
    notes = (*_notes(sets), judged) if judged else _notes(sets)
    return ChartDrawing(lambda: _figure(drawn), ChartTable.of(COLUMNS, dots), notes)


Sets = Sequence[tuple[str, Sequence[str], Sequence[ProfileMeasure]]]


def _figure(sets: Sets) -> go.Figure:
    places: list[tuple[str, Sequence[str], ProfileMeasure | None]] = []
    for source, labels, measures in sets:
        places += [(source, labels, measure) for measure in measures]
        places += [(source, labels, None)] * (-len(places) % ACROSS)
    most = max(len(labels) for _, labels, _ in sets)
    titles = [_title(source, measure) if measure else "" for source, _, measure in places]
    figure, place_of = panels(titles, across=ACROSS, height=max(LEAST_ROWS, most) * ROW, share_x=False, share_y=False)
    for number, (source, labels, measure) in enumerate(places):
        where = place_of(number)
        if measure is None:
            figure.update_xaxes(visible=False, **where).update_yaxes(visible=False, **where)
            continue
        dots = dots_of(source, labels, measure)
        longest = max(abs(dot.value or 0) for dot in dots) or 1  # and room for the numbers right of the dots
        figure.add_trace(_trace(measure, dots, SOURCES[source]), **where)
        figure.update_xaxes(range=[-0.12 * longest, 1.55 * longest], nticks=3, tickformat="~s", zeroline=False, **where)
        figure.update_yaxes(
            **lay_rows(labels, least=max(LEAST_ROWS, most), longest=34),
            showticklabels=where["col"] == 1,
            zeroline=False,
            **where,
        )
    return figure.update_layout(showlegend=False, meta={"min_width": 660})


def _title(source: str, measure: ProfileMeasure) -> str:
    named = METRIC_NAMES.get(measure.name.partition(", ")[0])
    name = named.title if named else measure.name[:1].upper() + measure.name[1:]
    unit = "" if measure.unit_name in measure.name else f", {measure.unit_name}"
    return f"{name}{unit}" + (" (published)" if source == "published" else "")


def _trace(measure: ProfileMeasure, dots: Sequence[Dot], style: Style) -> go.Scatter:
    """A group without a value stands at the left edge as the word, without a dot."""
    looks = [(of_label(dot.group) if dot.source == "own" else None) or style for dot in dots]
    points = []
    for row, dot in enumerate(dots):
        value = f"{plain(measure.name)}: {plain(dot.text)}"
        hover = lines(plain(dot.group), value, plain(dot.measured.over), dot.source)
        points.append(ChartPoint(dot.value or 0, row, hover, dot.url))
    return scatter(
        points,
        mode="markers+text",
        marker={
            "color": [look.colour for look in looks],
            "symbol": [look.symbol for look in looks],
            "size": 10,
            "opacity": [0 if dot.value is None else 1 for dot in dots],
        },
        text=[f" {plain(dot.text)}" for dot in dots],
        textposition="middle right",
        textfont={"size": 11},
        name=plain(measure.name),
    )


def _notes(sets: Sets) -> tuple[str, ...]:
    counts = {source: len(labels) for source, labels, _ in sets}
    notes = ["Every panel has its own axis from zero. What is better, and how sure that is, the forest plot shows."]
    if "published" in counts:
        notes.append(
            "Published: SkillLearnBench, Table 2 (averages) and the numbers inside Figure 3; placed among themselves, since "
            f"tasks and agents differ. {plural(counts['published'], 'method')}."
        )
    return (*notes, *note_crowd(counts.get("own", 0), "groups"))


CHART = Chart(
    key="profiles",
    title="Profiles",
    question="How do the conditions differ at a glance?",
    draw=draw,
    lacks=lacks_rivals,
    after="SkillLearnBench, Figure 3",
    repeats="Unlike measures in one picture; the tables of Answer, Cost and Libraries have them with their intervals.",
    uses_metric=True,
    published=("skilllearnbench",),
)
