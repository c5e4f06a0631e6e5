"""Candidates of an optimizer: their scores on its validation tasks, what the gate decided, and the best so far.

Source: none of the papers; SkillOpt and GEPA keep these numbers in their logs and draw no such figure.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from django.urls import reverse
from plotly import graph_objects as go

from benchapp.stats.comparing.choices import OLD_SKILL
from benchapp.stats.learning.validation import GIVEN, Candidate, Validation, read_validations
from inspector.charts.chart import Chart, ChartDrawing, ChartTable, TableColumn, name_columns
from inspector.charts.drawing.palette import MUTED, ZERO, series
from inspector.charts.drawing.panels import MAX_PANELS, lines, note_left_out, panels
from inspector.charts.drawing.traces import ChartPoint, Legend, connect, scatter
from inspector.charts.sheet import ChartSheet
from runner.base.types import DecisionStatus

HEIGHT = 280  # px of a panel's inside
GATES = {  # by status: what the gate did, and the symbol
    GIVEN: ("given skill", "diamond"),
    DecisionStatus.APPLIED: ("accepted", "circle"),
    DecisionStatus.REJECTED: ("rejected", "x"),
    DecisionStatus.FAILED: ("failed", "x"),
    DecisionStatus.NO_OP: ("no change", "circle-open"),
}
BEST, NOT_SCORED = "best accepted so far", "not scored"
FOOT = 0.16  # of the axis: how far below it marks without a score are
COLUMNS = (
    *name_columns("run", "decision"),
    TableColumn("parent", "began with"),
    *name_columns("gate"),
    *name_columns("score", "best"),
    TableColumn("passed", "passed", "trials", lambda row: row.of.passed if row.of.scored else None),
    TableColumn("scored", "scored", "trials", lambda row: row.of.scored if row.of.trials else None),
    TableColumn("reward", "mean score of the tool", read=lambda row: row.of.reward),
)


class Scored:
    """A candidate with its score, and the best score that the gate had accepted by then. What the gate wrote is on
    the library's page: a reviewer may have to code it unseen."""

    def __init__(self, run: str, of: Candidate, score: float | None, best: float | None, url: str) -> None:
        self.run, self.of, self.score, self.best, self.url = run, of, score, best, url
        self.decision, self.parent, self.gate = of.number, of.parent, GATES[of.status][0]

    @property
    def hover(self) -> str:
        who = f"decision {self.decision}" if self.decision else "the given skill"
        began = (
            ""
            if self.parent is None
            else f"began with {f'that of {self.parent}' if self.parent else 'the given skill'}"
        )
        counts = f" ({self.of.passed} of {self.of.scored} trials passed)" if self.of.scored else ""
        score = "not scored on validation" if self.score is None else f"{self.score:.3g} on validation{counts}"
        return lines(f"<b>{who}</b>, {self.gate}", score, began)


def draw(sheet: ChartSheet) -> ChartDrawing:
    comparison = sheet.comparison
    names = {run.pk: group.label for group in sheet.groups for run in group.runs}
    codes = {run.pk: str(run.public_id) for run in comparison.runs}
    found = [
        list(_score(each, names[each.run], codes[each.run], sheet.options.get("score", "")))
        for each in read_validations(comparison.runs, comparison.choices.as_of)
        if each.run in names
    ]
    table = ChartTable.of(COLUMNS, (row for rows in found for row in rows))
    if not found:
        return ChartDrawing(None, table, absent="No candidate of these runs was scored on the tasks of the old skill.")
    return ChartDrawing(lambda: _draw(found), table, (*NOTES, *note_left_out(len(found), "histories")))


def _score(each: Validation, label: str, run: str, wanted: str) -> Iterator[Scored]:
    best: float | None = None
    page = f"{reverse('library', args=[run])}?episode={each.episode}"
    for of in each.candidates:
        both = (of.reward, of.share) if wanted == "reward" else (of.share, of.reward)
        score = next((value for value in both if value is not None), None)
        if of.is_kept and score is not None:
            best = score if best is None else max(best, score)
        yield Scored(f"{label} · {each.title}", of, score, best, f"{page}&decision={of.number}" if of.number else page)


def _draw(found: Sequence[Sequence[Scored]]) -> go.Figure:
    shown = found[:MAX_PANELS]
    titles = [rows[0].run for rows in shown] if len(shown) > 1 else [""]
    figure, place_of = panels(titles, across=2, height=HEIGHT, legend=(BEST, *(word for word, _ in GATES.values())))
    scores = [row.score for rows in shown for row in rows if row.score is not None]
    low, high = min(0.0, *scores), max(1.0, *scores)
    floor = low - FOOT * (high - low)
    named = Legend()
    for place, rows in enumerate(shown):
        for trace in _traces(rows, floor, named):
            figure.add_trace(trace, **place_of(place))
    last = max(row.decision for rows in shown for row in rows)
    figure.update_xaxes(title={"text": "decision"}, range=[-0.6, last + 0.6], dtick=1 + last // 12, zeroline=False)
    ticks = [low + part * (high - low) for part in (0, 0.25, 0.5, 0.75, 1)]
    figure.update_yaxes(tickvals=[floor, *ticks], ticktext=[NOT_SCORED, *(f"{tick:.3g}" for tick in ticks)])
    figure.update_yaxes(range=[floor - 0.05 * (high - low), high + 0.06 * (high - low)])
    figure.update_yaxes(title={"text": "score on validation"}, col=1)
    return figure.update_layout(showlegend=True, meta={"min_width": 420 * min(2, len(shown))})


def _traces(rows: Sequence[Scored], floor: float, named: Legend) -> Iterator[go.Scatter]:
    style = series(0)
    points = {
        row.decision: ChartPoint(row.decision, floor if row.score is None else row.score, row.hover, row.url)
        for row in rows
    }
    drawn = {row.decision for row in rows if row.score is not None}
    pairs = [
        (points[row.parent], points[row.decision])
        for row in rows
        if row.parent is not None and {row.parent, row.decision} <= drawn
    ]
    yield connect(pairs, color=ZERO, width=1, dash="dot")  # each candidate and what it began with: a tree
    bests = [
        ChartPoint(row.decision, row.best, f"best accepted so far: {row.best:.3g}")
        for row in rows
        if row.best is not None
    ]
    line = {"color": style.colour, "width": 2, "shape": "hv"}
    yield scatter(bests, mode="lines", **named.enter(BEST), line=line)
    for status, (word, symbol) in GATES.items():
        is_kept = status in (GIVEN, DecisionStatus.APPLIED)
        marker = {"color": style.colour if is_kept else MUTED, "symbol": symbol, "size": 10}
        if of_status := [points[row.decision] for row in rows if row.of.status == status]:
            yield scatter(of_status, mode="markers", **named.enter(word), marker=marker)


def lacks_gate(sheet: ChartSheet) -> str:
    conditions = {group.condition for group in sheet.comparison.groups.all}
    if OLD_SKILL in conditions and len(conditions) > 1:
        return ""
    return "Needs an imported run of an optimizer, with the old skill on the same tasks."


NOTES = (
    "A candidate is what one decision was about; 0 is the skill that was given. Dotted lines lead from what a "
    "candidate began with. The score is the part of the validation tasks that it passed, or the mean score of the "
    "tool where it has no rule for passing. Marks at the foot have no score on validation.",
    "Validation chose the candidates, so its best score promises too much: the test shows what is left of it.",
)
CHART = Chart(
    key="validation",
    title="Candidates on validation",
    question="Which candidates did the gate accept, and did the score on validation rise?",
    draw=draw,
    options={"score": ("passed", "reward")},
    lacks=lacks_gate,
)
