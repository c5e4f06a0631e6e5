"""pass@k against the tokens an author may write a library with. After SkillGenBench, figure 8 (appendix A.2)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from plotly import graph_objects as go

from benchapp.stats.comparing.author_budgets import LibraryWriting, Sweep, read_library_writing, sweeps_of
from benchapp.stats.comparing.groups import Group, experiment_names
from benchapp.stats.inference.interval import Interval
from benchapp.stats.inference.shares import half_up
from benchapp.stats.metrics.passk import SOLVED, DrawnMean, draw_mean, name_of, samples_of
from benchapp.stats.metrics.rates import Rate
from inspector.charts.chart import Chart, ChartDrawing, ChartTable, TableColumn
from inspector.charts.contrast import Answer
from inspector.charts.drawing.arms import model_name
from inspector.charts.drawing.lineup import HEIGHT, MAX_LINES
from inspector.charts.drawing.palette import Style, by_name, veil
from inspector.charts.drawing.panels import MAX_PANELS, lines, note_left_out, panels, plain
from inspector.charts.drawing.quantities import tokens
from inspector.charts.drawing.traces import ChartPoint, Legend, line_mode, scatter
from inspector.charts.lacking import lacks_budgets
from inspector.charts.sheet import ChartSheet

COLUMNS = (
    TableColumn("method", "method", read=lambda row: row.sweep.method),
    TableColumn("author", "author", read=lambda row: row.sweep.author),
    TableColumn("group", "group", read=lambda row: row.group.label),
    TableColumn("budget", "budget for one library", "tokens"),
    TableColumn("name", "called"),
    TableColumn("value", "solved", "%", lambda row: row.percent),
    TableColumn("low", "95 % from, over tasks", "%", lambda row: row.interval and 100 * row.interval.low),
    TableColumn("high", "to", "%", lambda row: row.interval and 100 * row.interval.high),
    TableColumn("solved", "solved", "tasks, all replicates", lambda row: row.rate.passed),
    TableColumn("complete", "complete", "tasks, all replicates", lambda row: row.rate.scored),
    TableColumn("planned", "planned", "tasks, all replicates", lambda row: row.rate.planned),
    TableColumn("spent", "author's output per library", "tokens", lambda row: row.written.per_library),
    TableColumn("libraries", "libraries written", read=lambda row: row.written.libraries),
)


@dataclass(frozen=True, slots=True)
class BudgetStop:
    """One group at its budget. `written`: replicates added up."""

    sweep: Sweep
    budget: int
    group: Group
    name: str
    rate: Rate
    drawn: DrawnMean | None
    written: LibraryWriting
    url: str

    @property
    def percent(self) -> float | None:
        return None if self.drawn is None else 100 * self.drawn.value

    @property
    def interval(self) -> Interval | None:
        return self.drawn.by_task if self.drawn else None


@dataclass(frozen=True, slots=True)
class BudgetCurve:
    """One sweep: its name, the panel it stands in (its author), and its stops by rising budget."""

    name: str
    panel: str
    stops: tuple[BudgetStop, ...]


def draw(sheet: ChartSheet) -> ChartDrawing:
    found = _lines(sheet)
    if not any(stop.drawn for line in found for stop in line.stops):
        absent = "No run here had a budget to write its library with (a condition such as naive-prompt@8000)."
        return ChartDrawing(None, ChartTable(COLUMNS), absent=absent)
    titles = list(dict.fromkeys(line.panel for line in found))
    table = ChartTable.of(COLUMNS, (stop for line in found for stop in line.stops))
    answers = tuple(
        Answer(f"{stop.budget:,} tokens", stop.percent, f"{half_up(stop.percent)} %", f"{line.name}, {line.panel}")
        for line in found
        for stop in line.stops
        if stop.percent is not None
    )
    notes = tuple(_notes(found, titles))
    return ChartDrawing(lambda: _figure(found, titles[:MAX_PANELS]), table, notes, answers=answers)


def _lines(sheet: ChartSheet) -> list[BudgetCurve]:
    comparison = sheet.comparison
    sweeps = sweeps_of(sheet.groups)
    runs = [run for sweep in sweeps for _, group in sweep.stops for run in group.runs]
    written = read_library_writing(runs, comparison.choices.as_of) if runs else {}
    names = _names(sweeps)
    return [
        BudgetCurve(
            name,
            sweep.author or "no author",
            tuple(_stop(sheet, sweep, budget, group, written) for budget, group in sweep.stops),
        )
        for sweep, name in zip(sweeps, names, strict=True)
    ]


def _names(sweeps: Sequence[Sweep]) -> list[str]:
    """The method, and of agent model, harness and experiment those in which the sweeps differ."""
    experiments = experiment_names([sweep.first for sweep in sweeps])
    facts = [
        (model_name(sweep.first), sweep.first.harness, experiments[sweep.first.first.experiment_id]) for sweep in sweeps
    ]
    told = [place for place in range(3) if len({fact[place] for fact in facts}) > 1]
    return [
        " · ".join((sweep.method, *(fact[place] for place in told))) for sweep, fact in zip(sweeps, facts, strict=True)
    ]


def _stop(
    sheet: ChartSheet, sweep: Sweep, budget: int, group: Group, written: Mapping[int, LibraryWriting]
) -> BudgetStop:
    comparison = sheet.comparison
    runs = comparison.of_group(group)
    return BudgetStop(
        sweep,
        budget,
        group,
        name_of(samples_of(runs)),
        comparison.cell(group, SOLVED).rate,
        draw_mean(runs),
        _add_up([written.get(run.pk, LibraryWriting()) for run in group.runs]),
        sheet.trials_url(group, metric=SOLVED),
    )


def _add_up(found: Sequence[LibraryWriting]) -> LibraryWriting:
    known = [each.output_tokens for each in found if each.libraries]
    told = [each for each in known if each is not None]
    return LibraryWriting(
        sum(each.libraries for each in found), sum(told) if told and len(told) == len(known) else None
    )


def _figure(found: Sequence[BudgetCurve], titles: Sequence[str]) -> go.Figure:
    styles = by_name([line.name for line in found])
    figure, place_of = panels(titles, across=2, height=HEIGHT, legend=styles)
    named = Legend()
    for line in found:
        if line.panel not in titles:
            continue
        where, style = place_of(titles.index(line.panel)), styles[line.name]
        figure.add_trace(_band(line, style), **where)
        figure.add_trace(_curve(line, style, named), **where)
    budgets = sorted({stop.budget for line in found for stop in line.stops})
    figure.update_xaxes(type="log", tickvals=budgets, ticktext=_ticks(budgets))
    figure.update_xaxes(title={"text": "budget for one library, output tokens"})
    figure.update_yaxes(range=[-3, 103], tickvals=[0, 25, 50, 75, 100])
    figure.update_yaxes(title={"text": "solved, %"}, col=1)
    return figure.update_layout(showlegend=True, meta={"min_width": 360 if len(titles) == 1 else 720})


def _ticks(budgets: Sequence[int]) -> list[str]:
    return [tokens(budget).replace(".0", "") for budget in budgets]


def _curve(line: BudgetCurve, style: Style, named: Legend) -> go.Scatter:
    points = [ChartPoint(stop.budget, stop.percent, _hover(line, stop), stop.url) for stop in line.stops if stop.drawn]
    return scatter(
        points,
        mode=line_mode(points),
        **named.enter(line.name),
        line={"color": style.colour, "dash": style.dash, "width": 2},
        marker=style.mark(8),
    )


def _band(line: BudgetCurve, style: Style) -> go.Scatter:
    """There along the high ends and back along the low ones."""
    ends = [(stop.budget, stop.interval) for stop in line.stops if stop.interval]
    there = [(budget, 100 * interval.high) for budget, interval in ends]
    back = [(budget, 100 * interval.low) for budget, interval in reversed(ends)]
    return go.Scatter(
        x=[budget for budget, _ in (*there, *back)],
        y=[end for _, end in (*there, *back)],
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillcolor=veil(style.colour, 0.12),
        hoverinfo="skip",
        showlegend=False,
        legendgroup=plain(line.name),
        name=plain(f"{line.name}, 95 %"),
    )


def _hover(line: BudgetCurve, stop: BudgetStop) -> str:
    interval, spent = stop.interval, stop.written.per_library
    return lines(
        plain(f"{line.name} · author {line.panel}"),
        f"{stop.budget:,} tokens: {stop.name} {half_up(stop.percent or 0, 1)} %",
        f"95 % over tasks: {half_up(100 * interval.low)} to {half_up(100 * interval.high)}"
        if interval
        else "no spread",
        f"{stop.rate.passed} of {stop.rate.scored} complete tasks, {stop.rate.planned} planned",
        f"written with {spent:,.0f} tokens per library" if spent is not None else "tokens written with: unknown",
    )


def _notes(found: Sequence[BudgetCurve], titles: Sequence[str]) -> Iterable[str]:
    yield "Solved: tasks with a passing sample, among tasks with every sample scored (pass@k)."
    yield "The band draws tasks 2,000 times (percentile). It covers tasks, not corpora and not another generation."
    yield "The budget is a limit; the table has what authors spent. A method that never reaches it gains nothing from more."
    if any(stop.rate.missing for line in found for stop in line.stops):
        yield "Some tasks have an unscored sample and are left out: points may rest on different tasks, see the table."
    if len({stop.name for line in found for stop in line.stops}) > 1:
        yield "Tasks have different numbers of tries: compare only numbers with the same name."
    if max(sum(line.panel == title for line in found) for title in titles) > MAX_LINES:
        yield "Styles repeat where a panel has many lines; choose conditions to see fewer."
    yield from note_left_out(len(titles), "author models")


CHART = Chart(
    key="generation-budget",
    title="Generation budget",
    question="Do larger writing budgets make better libraries?",
    draw=draw,
    lacks=lacks_budgets,
    after="SkillGenBench, Figure 8",
    finding="{what}: {most} with {high}; {least} with {low}",
)
