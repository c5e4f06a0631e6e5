"""Success under a budget of tokens: what authors may write a library with, and what trials may use, read off finished
ones.

Source: SkillGenBench, figure 8 (appendix A.2).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil, floor

import numpy as np
from plotly import graph_objects as go

from benchapp.papers.published_rows import PrintedNumber
from benchapp.stats.comparing.author_budgets import LibraryWriting, Sweep, read_library_writing, sweeps_of
from benchapp.stats.comparing.groups import Group, experiment_names
from benchapp.stats.inference.shares import Rate, half_up, pooled_interval
from benchapp.stats.metrics.metric import TrialMetric
from benchapp.stats.metrics.outcomes import Mask, Outcomes
from benchapp.stats.metrics.passk import SOLVED, draw_mean, name_of, samples_of
from inspector.charts.chart import Answer, Chart, ChartDrawing, ChartTable, TableColumn, entry, interval_columns
from inspector.charts.drawing.arms import model_name, name_apart
from inspector.charts.drawing.lineup import HEIGHT, MAX_LINES, LinePanel, crowd_notes, curves, split_panels
from inspector.charts.drawing.palette import Style, by_name, series, veil
from inspector.charts.drawing.panels import MAX_PANELS, lines, note_left_out, panels, plain
from inspector.charts.drawing.quantities import Ends, in_percent, tokens, write_budget, write_interval
from inspector.charts.drawing.traces import ChartPoint, Legend, lay_rows, line_mode, plain_scatter, scatter
from inspector.charts.sheet import ChartSheet, lacks_budgets, lacks_tokens

WRITING_COLUMNS = (
    TableColumn("method", "method", read=lambda row: row.sweep.method),
    TableColumn("author", "author", read=lambda row: row.sweep.author),
    TableColumn("group", "group", read=lambda row: row.group.label),
    TableColumn("budget", "budget for one library", "tokens"),
    TableColumn("name", "called"),
    TableColumn("value", "solved", "%", lambda row: row.percent),
    TableColumn("low", "95 % from, over tasks", "%", entry("around", 0)),
    TableColumn("high", "to", "%", entry("around", 1)),
    TableColumn("solved", "solved", "tasks, all replicates", lambda row: row.rate.passed),
    TableColumn("complete", "complete", "tasks, all replicates", lambda row: row.rate.scored),
    TableColumn("planned", "planned", "tasks, all replicates", lambda row: row.rate.planned),
    TableColumn("spent", "author's output per library", "tokens", lambda row: row.written.per_library),
    TableColumn("libraries", "libraries written", read=lambda row: row.written.libraries),
)


class BudgetStop:
    """One group at its budget. `percent`: solved, with its interval `around`; `written`: replicates added up."""

    def __init__(
        self, sheet: ChartSheet, sweep: Sweep, budget: int, group: Group, written: Sequence[LibraryWriting]
    ) -> None:
        outcomes = sheet.comparison.of_group(group)
        self.sweep, self.budget, self.group, drawn = sweep, budget, group, draw_mean(outcomes)
        self.name, self.rate = name_of(samples_of(outcomes)), sheet.comparison.cell(group, SOLVED).rate
        self.percent = 100 * drawn.value if drawn else None
        interval = drawn.by_task if drawn else None
        self.around = in_percent((interval.low, interval.high)) if interval else None
        known = [each.output_tokens for each in written if each.libraries]
        present = [each for each in known if each is not None]
        tokens_known = sum(present) if present and len(present) == len(known) else None
        self.written = LibraryWriting(sum(each.libraries for each in written), tokens_known)
        self.url = sheet.trials_url(group, metric=SOLVED)


@dataclass(frozen=True, slots=True)
class BudgetCurve:
    """One sweep: its name, its panel (the author), and its stops by rising budget."""

    name: str
    panel: str
    stops: tuple[BudgetStop, ...]


def draw_generation(sheet: ChartSheet) -> ChartDrawing:
    found = _lines(sheet)
    if all(stop.percent is None for line in found for stop in line.stops):
        absent = "No run here had a budget to write its library with (a condition such as naive-prompt@8000)."
        return ChartDrawing(None, ChartTable(WRITING_COLUMNS), absent=absent)
    titles = list(dict.fromkeys(line.panel for line in found))
    table = ChartTable.of(WRITING_COLUMNS, (stop for line in found for stop in line.stops))
    answers = tuple(
        Answer(f"{stop.budget:,} tokens", stop.percent, f"{half_up(stop.percent)} %", f"{line.name}, {line.panel}")
        for line in found
        for stop in line.stops
        if stop.percent is not None
    )
    notes = tuple(_note_generation(found, titles))
    return ChartDrawing(lambda: _draw_curves(found, titles[:MAX_PANELS]), table, notes, answers=answers)


def _lines(sheet: ChartSheet) -> list[BudgetCurve]:
    sweeps = sweeps_of(sheet.groups)
    runs = [run for sweep in sweeps for _, group in sweep.stops for run in group.runs]
    written = read_library_writing(runs, sheet.comparison.choices.as_of) if runs else {}
    experiments = experiment_names([sweep.first for sweep in sweeps])
    of_sweeps = [(sweep, sweep.first, experiments[sweep.first.first.experiment_id]) for sweep in sweeps]
    names = name_apart([(sweep.method, model_name(first), first.harness, name) for sweep, first, name in of_sweeps])
    found = []
    for sweep, name in zip(sweeps, names, strict=True):
        stops = []
        for budget, group in sweep.stops:
            of_runs = [written.get(run.pk, LibraryWriting()) for run in group.runs]
            stops.append(BudgetStop(sheet, sweep, budget, group, of_runs))
        found.append(BudgetCurve(name, sweep.author or "no author", tuple(stops)))
    return found


def _draw_curves(found: Sequence[BudgetCurve], titles: Sequence[str]) -> go.Figure:
    styles = by_name([line.name for line in found])
    figure, place_of = panels(titles, across=2, height=HEIGHT, legend=styles)
    named = Legend()
    for line in found:
        if line.panel in titles:
            for trace in _traces(line, styles[line.name], named):
                figure.add_trace(trace, **place_of(titles.index(line.panel)))
    budgets = sorted({stop.budget for line in found for stop in line.stops})
    figure.update_xaxes(type="log", tickvals=budgets, ticktext=[write_budget(budget) for budget in budgets])
    figure.update_xaxes(title={"text": "budget for one library, output tokens"})
    figure.update_yaxes(range=[-3, 103], tickvals=[0, 25, 50, 75, 100])
    figure.update_yaxes(title={"text": "solved, %"}, col=1)
    return figure.update_layout(showlegend=True, meta={"min_width": 360 if len(titles) == 1 else 720})


def _traces(line: BudgetCurve, style: Style, named: Legend) -> tuple[go.Scatter, go.Scatter]:
    """The band, there along the high ends and back along the low ones, and the curve."""
    ends = [(stop.budget, stop.around) for stop in line.stops if stop.around]
    edge = [*((budget, around[1]) for budget, around in ends), *((budget, around[0]) for budget, around in ends[::-1])]
    band = go.Scatter(
        x=[budget for budget, _ in edge],
        y=[end for _, end in edge],
        mode="lines",
        line={"width": 0},
        fill="toself",
        fillcolor=veil(style.colour, 0.12),
        hoverinfo="skip",
        showlegend=False,
        legendgroup=plain(line.name),
        name=plain(f"{line.name}, 95 %"),
    )
    stops = [stop for stop in line.stops if stop.percent is not None]
    points = [ChartPoint(stop.budget, stop.percent, _hover(line, stop), stop.url) for stop in stops]
    curve = scatter(
        points,
        mode=line_mode(points),
        **named.enter(line.name),
        line={"color": style.colour, "dash": style.dash, "width": 2},
        marker=style.mark(8),
    )
    return band, curve


def _hover(line: BudgetCurve, stop: BudgetStop) -> str:
    around, spent = stop.around, stop.written.per_library
    return lines(
        plain(f"{line.name} · author {line.panel}"),
        f"{stop.budget:,} tokens: {stop.name} {half_up(stop.percent or 0, 1)} %",
        f"95 % over tasks: {half_up(around[0])} to {half_up(around[1])}" if around else "no spread",
        f"{stop.rate.passed} of {stop.rate.scored} complete tasks, {stop.rate.planned} planned",
        f"written with {spent:,.0f} tokens per library" if spent is not None else "tokens written with: unknown",
    )


def _note_generation(found: Sequence[BudgetCurve], titles: Sequence[str]) -> Iterable[str]:
    yield "Solved: tasks with a passing sample, among tasks with every sample scored (pass@k)."
    yield "The band draws tasks 2,000 times (percentile). It covers tasks, not corpora and not another generation."
    yield "The budget is a limit; the table has what authors spent. A method that never reaches it gains nothing from more."  # noqa: E501
    if any(stop.rate.missing for line in found for stop in line.stops):
        yield "Some tasks have an unscored sample and are left out: points may rest on different tasks, see the table."
    if len({stop.name for line in found for stop in line.stops}) > 1:
        yield "Tasks have different numbers of tries: compare only numbers with the same name."
    if max(sum(line.panel == title for line in found) for title in titles) > MAX_LINES:
        yield "Styles repeat where a panel has many lines; choose conditions to see fewer."
    yield from note_left_out(len(titles), "author models")


GENERATION_CHART = Chart(
    key="generation-budget",
    title="Generation budget",
    question="Do larger writing budgets make better libraries?",
    draw=draw_generation,
    lacks=lacks_budgets,
    after="SkillGenBench, Figure 8",
    finding="{what}: {most} with {high}; {least} with {low}",
)


# --- what trials may use ---


PAPER = "skillgenbench"
STEPS = 10
NOT_PUBLISHED = (
    "SkillGenBench sweeps the generator's budget instead and does not publish the numbers; its text prints the "
    "range of the plateau for four models."
)
SOLVING_COLUMNS = (
    TableColumn("group", "group"),
    TableColumn("budget", "budget", "tokens"),
    TableColumn("solved", "solved within it", "%"),
    *interval_columns("%"),
    TableColumn("passed", "solved", "trials"),
    TableColumn("trials", "trials with tokens", "trials"),
    TableColumn("unknown", "left out: tokens unknown", "trials"),
    TableColumn("source", "source"),
)


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """Of `trials` scored trials whose tokens are known, those that passed with at most `budget` tokens,
    or a printed number."""

    group: str
    source: str
    solved: float | None  # in percent, its interval `around` too
    budget: int | None = None
    passed: int | None = None
    trials: int | None = None
    unknown: int | None = None  # scored trials whose tokens are unknown
    url: str = ""
    around: Ends | None = None

    @property
    def point(self) -> ChartPoint:
        solved = f"{self.passed} of {self.trials} trials solved{write_interval(self.around)}"
        hover = lines(plain(self.group), f"within {self.budget:,} tokens", solved)
        return ChartPoint(self.budget, self.solved, hover, self.url, self.around)


class TokensSpent:
    """Scored trials of a group, its replicates put together: tokens, success (0 or 1), replicate and task of the n
    whose tokens are known, [n] each; and how many are not."""

    def __init__(self, runs: Sequence[Outcomes], metric: TrialMetric, which: str) -> None:
        """`which`: "output", or "all" for input and output together."""
        covered = [metric.select_covered(outcomes) for outcomes in runs]
        used = np.concatenate([each.output_tokens + (each.input_tokens if which == "all" else 0) for each in covered])
        success, task = (np.concatenate([getattr(each, name) for each in covered]) for name in ("success", "task"))
        run = np.repeat(np.arange(len(covered)), [len(each) for each in covered])
        scored = ~np.isnan(success)
        known = scored & ~np.isnan(used)
        self.tokens, self.success, self.run, self.task = used[known], success[known], run[known], task[known]
        self.unknown = int((scored & ~known).sum())

    def within(self, budgets: Iterable[int], group: str, url: str) -> list[BudgetRow]:
        trials, found = len(self.tokens), []
        for budget in budgets:
            solved = (self.success == 1) & (self.tokens <= budget)
            passed, around = int(solved.sum()), self._interval(solved)
            share = 100 * passed / trials
            found.append(BudgetRow(group, "own", share, budget, passed, trials, self.unknown, url, around))
        return found

    def _interval(self, solved: Mask) -> Ends | None:
        """In percent; none where one run tried a task several times: such draws depend on each other."""
        runs = np.unique(self.run)
        if len(runs) == 1 and len(np.unique(self.task)) < len(self.task):
            return None
        of_runs = [self.run == run for run in runs]
        return in_percent(pooled_interval([Rate(int(solved[mine].sum()), int(mine.sum())) for mine in of_runs]))


def budgets_over(amounts: Iterable[float]) -> list[int]:
    """Some ten budgets of two figures in equal ratios, from at most the least amount to one that holds all."""
    found = [amount for amount in amounts if amount > 0]
    if not found:
        return []
    low, high = min(found), max(found)
    steps = [_two_figures(low * (high / low) ** (step / STEPS), floor) for step in range(STEPS)]
    return sorted({max(1, budget) for budget in (*steps, _two_figures(high, ceil))})


def _two_figures(amount: float, rounded: Callable[[float], int]) -> int:
    unit: int = 10 ** max(0, len(str(int(amount))) - 2)
    return rounded(amount / unit) * unit


def draw_budget(sheet: ChartSheet) -> ChartDrawing:
    metric, which = sheet.metric, sheet.options.get("tokens", "all")
    found: dict[Group, TokensSpent] = {}
    if metric is not None and metric.column == "success":
        of_groups = ((group, sheet.comparison.of_group(group)) for group in sheet.groups)
        found = {group: spent for group, runs in of_groups if len((spent := TokensSpent(runs, metric, which)).tokens)}
    published = plateaus(sheet)
    printed = [
        BudgetRow(
            model, f"SkillGenBench, {row.row}; {end} of the plateau of pass@3 over the generator's budget", row.value
        )
        for model, ends in published.items()
        for row, end in zip(ends, ("lowest", "highest"), strict=True)
    ]
    if not found and not published:
        absent = "No scored trial of these runs reports its tokens, or the metric counts no passed tasks."
        return ChartDrawing(None, ChartTable(SOLVING_COLUMNS), absent=f"{absent} {NOT_PUBLISHED}")
    if not found:
        return ChartDrawing(
            lambda: _draw_plateaus(published), ChartTable.of(SOLVING_COLUMNS, printed), (NOT_PUBLISHED,)
        )
    budgets = budgets_over(amount for spent in found.values() for amount in (spent.tokens.min(), spent.tokens.max()))
    steps = {
        group: spent.within(budgets, group.label, sheet.trials_url(group, metric=metric))
        for group, spent in found.items()
    }
    own = [*chain(*steps.values())]
    facets = split_panels(found)
    answers = tuple(
        Answer(step.group, step.solved, f"{half_up(step.solved)} %", tokens(step.budget))
        for step in own
        if step.solved is not None and step.budget is not None
    )
    table, notes = ChartTable.of(SOLVING_COLUMNS, [*own, *printed]), (*_note_budget(found), *crowd_notes(facets))
    return ChartDrawing(lambda: _draw_steps(facets, steps, budgets, which), table, notes, answers=answers)


def _draw_steps(
    facets: Sequence[LinePanel[Group]], steps: Mapping[Group, Sequence[BudgetRow]], budgets: Sequence[int], which: str
) -> go.Figure:
    figure = curves(facets, lambda group: [step.point for step in steps[group]])
    apart = ceil(len(budgets) / 5)  # a word at some of them, so that the words do not touch
    words = [write_budget(budget) if place % apart == 0 else "" for place, budget in enumerate(budgets)]
    word = "tokens (input and output)" if which == "all" else "output tokens"
    figure.update_xaxes(type="log", title={"text": f"budget, {word}"}, tickvals=budgets, ticktext=words)
    best = max(step.around[1] if step.around else step.solved or 0 for of_group in steps.values() for step in of_group)
    figure.update_yaxes(range=[-3, min(103, 10 + 10 * (best // 10 + 1))])
    return figure.update_yaxes(title={"text": "solved within the budget, %"}, col=1)


def plateaus(sheet: ChartSheet) -> dict[str, tuple[PrintedNumber, PrintedNumber]]:
    """Model -> the lowest and the highest printed value of its plateau, percent."""
    rows = [row for row in sheet.printed if row.paper == PAPER and row.metric.startswith("pass@3_plateau_")]
    ends = {(row.model, row.metric.rpartition("_")[2]): row for row in rows if row.value is not None}
    models = dict.fromkeys(model for model, _ in ends)
    return {
        model: (ends[model, "lowest"], ends[model, "highest"])
        for model in models
        if {(model, "lowest"), (model, "highest")} <= ends.keys()
    }


def _draw_plateaus(published: Mapping[str, tuple[PrintedNumber, PrintedNumber]]) -> go.Figure:
    figure, place_of = panels(["Published: plateau of pass@3, SkillGenBench"], across=1, height=40 * len(published))
    colour = series(1).colour
    for place, (model, (low, high)) in enumerate(published.items()):
        points = []
        for row in (low, high):
            hover = lines(plain(model), f"{row.printed} %, {row.table}, {row.row}", plain(row.note))
            points.append(ChartPoint(row.value, place, hover))
        trace = plain_scatter(
            points,
            mode="lines+markers+text",
            line={"color": colour, "width": 3},
            marker={"color": colour, "symbol": "square", "size": 9},
            text=[low.printed, high.printed],
            textposition="top center",
        )
        figure.add_trace(trace, **place_of(0))
    figure.update_yaxes(**lay_rows(list(published)), showgrid=False, zeroline=False)
    figure.update_xaxes(rangemode="tozero", ticksuffix=" %", title={"text": "pass@3, approximate, as printed"})
    return figure.update_layout(showlegend=False)


def _note_budget(found: Mapping[Group, TokensSpent]) -> Iterable[str]:
    yield (
        "Share of scored trials that passed and used at most N tokens in the attempt that counts. The agents "
        "did not know this budget; a real one can change their behaviour. Replicates are pooled."
    )
    yield "Lines are 95 % intervals: over replicates where there are two or more, else over ten trials or more."
    if unknown := sum(spent.unknown for spent in found.values()):
        yield f"{unknown:,} scored trials report no tokens and are left out of numerator and denominator."
    yield NOT_PUBLISHED


BUDGET_CHART = Chart(
    key="budget",
    title="Success within a budget",
    question="How many tasks are solved within a token budget?",
    draw=draw_budget,
    lacks=lacks_tokens,
    after="SkillGenBench, Figure 8",
    uses_metric=True,
    papers=(PAPER,),
    options={"tokens": ("all", "output")},
    finding="Within {what} tokens: {high} {most}; {low} {least}",
)
