"""What kind of learner each group is: a dot per measure, on an axis of its own from zero.

Source: SkillLearnBench, figure 3, there a radar over six normalised dimensions with a table of raw values. A radar's
area depends on the order of its axes; dots on a common row do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np
from plotly import graph_objects as go

from benchapp.stats.learning.libraries import read_library_numbers
from benchapp.stats.metrics.catalogue import JUDGED_LEVELS, METRIC_NAMES, name_metric
from benchapp.stats.metrics.metric import FIRST_TRIES, MetricUnit, TrialMetric
from inspector.charts.chart import Chart, ChartDrawing, ChartTable, TableColumn, name_columns
from inspector.charts.drawing.bars import MAX_BARS, note_crowd
from inspector.charts.drawing.palette import of_label, series
from inspector.charts.drawing.panels import lines, panels, plain
from inspector.charts.drawing.quantities import unit_of, write_value
from inspector.charts.drawing.traces import LEAST_ROWS, ChartPoint, lay_rows, scatter
from inspector.charts.sheet import WITHOUT_LIBRARY, ChartSheet, lacks_rivals
from runner.base.text import plural

ROW = 24  # px
ACROSS = 3  # panels in a row: the usual five or six measures make a figure no taller than its neighbours
PAPER = "skilllearnbench"
AVERAGES = ("", "average of six models")  # rows without a model of their own, and the mean over those that have one
PRINTED = (  # table, metric, name
    ("Table 2", "accuracy", "task accuracy"),
    ("Table 2", "coverage", "coverage"),
    ("Table 2", "use", "skill usage rate"),
    ("Table 2", "alignment", "alignment"),
    ("Table 2", "tokens", "solving tokens"),
    ("Figure 3", "skills", "skills"),
)
SOURCES = {"own": series(0), "published": series(1).open}
COLUMNS = (
    *name_columns("group", "measure", "value"),
    TableColumn("unit", "unit", read=lambda dot: dot.unit_name),
    TableColumn("place", "place between zero (0) and the highest (1)"),
    TableColumn("over", "rests on"),
    TableColumn("source", "source"),
)


@dataclass(frozen=True, slots=True)
class Dot:
    """A group in one measure. `unit` None: printed, in the unit `unit_name`."""

    group: str
    measure: str
    unit: MetricUnit | None
    unit_name: str
    raw: float | None  # in the measure's own unit; `over` says what it rests on
    over: str = ""
    url: str = ""
    printed: str = ""  # what is written instead of our own way to write it
    source: str = "own"
    # 0 for zero and 1 for the highest of the groups of its source; None where it has no value
    place: float | None = None

    @property
    def value(self) -> float | None:
        """In the unit shown."""
        return 100 * self.raw if self.raw is not None and self.unit is MetricUnit.SHARE else self.raw

    @property
    def text(self) -> str:
        if self.printed:
            return self.printed
        if self.raw is None:
            return "blank" if self.unit is None else "unknown"
        return write_value(self.raw, self.unit or MetricUnit.COUNT)


Measure = Sequence[Dot]  # one per group, in their order


def places_of(values: Sequence[float | None]) -> list[float | None]:
    """0 for zero, 1 for the highest, so that 1.9 does not look far from 2; below zero for what is; [n] -> [n]."""
    most = max((abs(value) for value in values if value is not None), default=0.0)
    return [None if value is None else value / most if most else 0.0 for value in values]


def draw(sheet: ChartSheet) -> ChartDrawing:
    sets = [measures for measures in (own_measures(sheet), list_printed_measures(sheet)) if measures]
    if not sets:
        absent = "No trial of these runs has a number to draw a profile from."
        return ChartDrawing(None, ChartTable(COLUMNS), absent=absent)
    rows = [
        replace(dot, place=place)
        for measures in sets
        for measure in measures
        for dot, place in zip(measure, places_of([dot.raw for dot in measure]), strict=True)
    ]
    notes = [*_notes({measures[0][0].source: len(measures[0]) for measures in sets})]
    if sheet.comparison.judged_by:
        notes.append(sheet.comparison.judged_by)
    return ChartDrawing(lambda: _figure(sets), ChartTable.of(COLUMNS, rows), tuple(notes))


def _figure(sets: Sequence[Sequence[Measure]]) -> go.Figure:
    places: list[Measure] = []
    for measures in sets:
        places += [measure[:MAX_BARS] for measure in measures]
        places += [()] * (-len(places) % ACROSS)
    least = max(LEAST_ROWS, *map(len, places))
    titles = [_title(dots[0]) if dots else "" for dots in places]
    figure, place_of = panels(titles, across=ACROSS, height=least * ROW, share_x=False, share_y=False)
    for number, dots in enumerate(places):
        where = place_of(number)
        if not dots:
            figure.update_xaxes(visible=False, **where).update_yaxes(visible=False, **where)
            continue
        longest = max(abs(dot.value or 0) for dot in dots) or 1  # and room for the numbers right of the dots
        figure.add_trace(_trace(dots), **where)
        figure.update_xaxes(range=[-0.12 * longest, 1.55 * longest], nticks=3, tickformat="~s", zeroline=False, **where)
        rows, first = lay_rows([dot.group for dot in dots], least=least, longest=34), where["col"] == 1
        figure.update_yaxes(**rows, showticklabels=first, zeroline=False, **where)
    return figure.update_layout(showlegend=False, meta={"min_width": 660})


def _title(dot: Dot) -> str:
    named = METRIC_NAMES.get(dot.measure.partition(", ")[0])
    name = named.title if named else dot.measure[:1].upper() + dot.measure[1:]
    unit = "" if dot.unit_name in dot.measure else f", {dot.unit_name}"
    return f"{name}{unit}" + (" (published)" if dot.source == "published" else "")


def _trace(dots: Measure) -> go.Scatter:
    """A group without a value has the word at the left edge, without a dot."""
    looks = [(of_label(dot.group) if dot.source == "own" else None) or SOURCES[dot.source] for dot in dots]
    points = []
    for row, dot in enumerate(dots):
        value = f"{plain(dot.measure)}: {plain(dot.text)}"
        hover = lines(plain(dot.group), value, plain(dot.over), dot.source)
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
        name=plain(dots[0].measure),
    )


def _notes(counts: Mapping[str, int]) -> Iterator[str]:
    """`counts`: of the groups, by source."""
    yield "Every panel has its own axis from zero. What is better, and how sure that is, the forest plot shows."
    if "published" in counts:
        yield (
            "Published: SkillLearnBench, Table 2 (averages) and the numbers inside Figure 3; placed among themselves, "
            f"since tasks and agents differ. {plural(counts['published'], 'method')}."
        )
    yield from note_crowd(counts.get("own", 0), "groups")


# --- measures: of own groups, and those that SkillLearnBench prints ---


def own_measures(sheet: ChartSheet) -> list[Measure]:
    """Those that at least one of the groups has."""
    judged = [metric for metric in JUDGED_LEVELS if metric != sheet.metric and sheet.comparison.has(metric)]
    found: list[Measure] = [_measure(sheet, each) for each in ([sheet.metric] if sheet.metric else []) + judged]
    found += [
        _over_trials(sheet, "trials that read a skill", MetricUnit.SHARE, "used"),
        _over_trials(sheet, "turns per trial", MetricUnit.TURNS, "turns"),
        _over_trials(sheet, "output tokens per trial", MetricUnit.TOKENS, "output_tokens"),
        _over_trials(sheet, "cost per trial", MetricUnit.USD, "cost_usd"),
        _count_skills(sheet),
    ]
    return [measure for measure in found if any(dot.raw is not None for dot in measure)]


def _measure(sheet: ChartSheet, metric: TrialMetric) -> Measure:
    name, dots = name_metric(metric).title, []
    for group in sheet.groups:
        cell, url = sheet.comparison.cell(group, metric), sheet.trials_url(group, metric=metric)
        rate = cell.rate
        over = f"{rate.passed}/{rate.scored} trials" if metric.is_share else plural(rate.scored, "trial")
        dots.append(Dot(group.label, name, metric.unit, unit_of(metric.unit), cell.value, over, url))
    return dots


def _over_trials(sheet: ChartSheet, name: str, unit: MetricUnit, column: str) -> Measure:
    """The mean over first tries, per replicate and then over replicates; tainted episodes left out."""
    dots = []
    for group in sheet.groups:
        means, count = [], 0
        for outcomes in sheet.comparison.of_group(group):
            found = outcomes.column(column)[outcomes.covering(FIRST_TRIES) & ~outcomes.tainted]
            known = found[~np.isnan(found)]
            count += len(known)
            if len(known):
                means.append(float(known.mean()))
        mean, url = fmean(means) if means else None, sheet.trials_url(group)
        dots.append(Dot(group.label, name, unit, unit_of(unit), mean, plural(count, "trial"), url))
    return dots


def _count_skills(sheet: ChartSheet) -> Measure:
    libraries, dots = read_library_numbers(sheet.comparison.runs, sheet.comparison.choices.as_of), []
    for group in sheet.groups:
        held = [each.skills for run in group.runs for each in libraries[run.pk].sizes if not each.tainted]
        mean, over, printed = None, "no library", "no library"
        if held and group.condition not in WITHOUT_LIBRARY:
            mean, over, printed = fmean(held), plural(len(held), "library", "libraries"), ""
        place = group.label, "skills per library", MetricUnit.SKILLS, unit_of(MetricUnit.SKILLS)
        dots.append(Dot(*place, mean, over, sheet.trials_url(group), printed))
    return dots


def list_printed_measures(sheet: ChartSheet) -> list[Measure]:
    """Those that the paper prints of at least one of the methods, which are called as in Table 2."""
    rows = [row for row in sheet.printed if row.paper == PAPER and row.model in AVERAGES and not row.group]
    labels = {row.condition: row.row for row in rows if row.table == "Table 2"}
    found: list[Measure] = []
    for table, metric, name in PRINTED:
        cells = {row.condition: row for row in rows if (row.table, row.metric) == (table, metric)}
        unit, dots = next((row.unit for row in cells.values()), ""), []
        for condition, label in labels.items():
            row = cells.get(condition)
            value, over = (row.value, f"{row.table}, {row.row}") if row else (None, "")
            printed = row.printed if row and value is not None else ""
            dots.append(Dot(label, name, None, unit, value, over, "", printed, "published"))
        if any(dot.raw is not None for dot in dots):
            found.append(dots)
    return found


CHART = Chart(
    key="profiles",
    title="Profiles",
    question="How do the conditions differ at a glance?",
    draw=draw,
    lacks=lacks_rivals,
    after="SkillLearnBench, Figure 3",
    repeats="Unlike measures in one picture; the tables of Answer, Cost and Libraries have them with their intervals.",
    uses_metric=True,
    papers=(PAPER,),
)
