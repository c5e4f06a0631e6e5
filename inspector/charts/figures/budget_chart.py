"""Success within a budget of tokens, read off finished trials. After SkillGenBench, figure 8."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from math import ceil, floor

import numpy as np
from plotly import graph_objects as go

from benchapp.papers.published_rows import PrintedNumber
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.shares import half_up
from benchapp.stats.metrics.metric import TrialMetric
from benchapp.stats.metrics.outcomes import Floats, Ints, Mask, Outcomes
from benchapp.stats.metrics.rates import Rate, pooled_interval
from inspector.charts.chart import Chart, ChartDrawing, ChartTable, TableColumn
from inspector.charts.contrast import Answer
from inspector.charts.drawing.lineup import LinePanel, crowd_notes, curves, split_panels
from inspector.charts.drawing.palette import series
from inspector.charts.drawing.panels import lines, panels, plain
from inspector.charts.drawing.quantities import tokens, write_interval
from inspector.charts.drawing.traces import ChartPoint, lay_rows, plain_scatter
from inspector.charts.lacking import lacks_tokens
from inspector.charts.sheet import ChartSheet

PAPER = "skillgenbench"
STEPS = 10
NOT_PUBLISHED = (
    "SkillGenBench sweeps the generator's budget instead and does not publish the numbers; its text prints the "
    "range of the plateau for four models."
)
COLUMNS = (
    TableColumn("group", "group"),
    TableColumn("budget", "budget", "tokens"),
    TableColumn("solved", "solved within it", "%"),
    TableColumn("low", "95 % from", "%", lambda row: row.around and row.around[0]),
    TableColumn("high", "to", "%", lambda row: row.around and row.around[1]),
    TableColumn("passed", "solved", "trials"),
    TableColumn("trials", "trials with tokens", "trials"),
    TableColumn("unknown", "left out: tokens unknown", "trials"),
    TableColumn("source", "source"),
)


@dataclass(frozen=True, slots=True)
class BudgetRow:
    """Of `trials` scored trials whose tokens are known, those that passed with at most `budget` tokens, or a printed number.

    `solved`: in percent, its interval `around` too; `unknown`: scored trials whose tokens are not known.
    """

    group: str
    source: str
    solved: float | None
    budget: int | None = None
    passed: int | None = None
    trials: int | None = None
    unknown: int | None = None
    url: str = ""
    around: tuple[float, float] | None = None

    @property
    def point(self) -> ChartPoint:
        solved = f"{self.passed} of {self.trials} trials solved{write_interval(self.around)}"
        hover = lines(plain(self.group), f"within {self.budget:,} tokens", solved)
        return ChartPoint(self.budget, self.solved, hover, self.url, self.around)


@dataclass(frozen=True, slots=True)
class TokensSpent:
    """Scored trials of a group: tokens, success (0 or 1), replicate and task of the n whose tokens are known, [n] each; and
    how many are not."""

    tokens: Floats
    success: Floats
    run: Ints
    task: Ints
    unknown: int

    def within(self, budgets: Iterable[int], group: str, url: str) -> list[BudgetRow]:
        trials, found = len(self.tokens), []
        for budget in budgets:
            solved = (self.success == 1) & (self.tokens <= budget)
            passed, around = int(solved.sum()), self._interval(solved)
            found.append(
                BudgetRow(group, "own", 100 * passed / trials, budget, passed, trials, self.unknown, url, around)
            )
        return found

    def _interval(self, solved: Mask) -> tuple[float, float] | None:
        """In percent; none where one run tried a task several times, which are no independent draws."""
        runs = np.unique(self.run)
        if len(runs) == 1 and len(np.unique(self.task)) < len(self.task):
            return None
        of_runs = [self.run == run for run in runs]
        ends = pooled_interval([Rate(int(solved[mine].sum()), int(mine.sum())) for mine in of_runs])
        return (100 * ends[0], 100 * ends[1]) if ends else None


def spent_of(runs: Sequence[Outcomes], metric: TrialMetric, which: str) -> TokensSpent:
    """`which`: "output", or "all" for input and output together. Replicates are put together."""
    covered = [metric.select_covered(outcomes) for outcomes in runs]
    used = np.concatenate([each.output_tokens + (each.input_tokens if which == "all" else 0) for each in covered])
    success, task = (np.concatenate([getattr(each, name) for each in covered]) for name in ("success", "task"))
    run = np.repeat(np.arange(len(covered)), [len(each) for each in covered])
    scored = ~np.isnan(success)
    known = scored & ~np.isnan(used)
    return TokensSpent(used[known], success[known], run[known], task[known], int((scored & ~known).sum()))


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


def draw(sheet: ChartSheet) -> ChartDrawing:
    metric, which = sheet.metric, sheet.options.get("tokens", "all")
    found: dict[Group, TokensSpent] = {}
    if metric is not None and metric.column == "success":
        of_groups = ((group, sheet.comparison.of_group(group)) for group in sheet.groups)
        found = {group: spent for group, runs in of_groups if len((spent := spent_of(runs, metric, which)).tokens)}
    published = plateaus(sheet)
    if not found:
        return _draw_printed_alone(published)
    budgets = budgets_over(amount for spent in found.values() for amount in (spent.tokens.min(), spent.tokens.max()))
    steps = {
        group: spent.within(budgets, group.label, sheet.trials_url(group, metric=metric))
        for group, spent in found.items()
    }
    facets = split_panels(found)
    table = ChartTable.of(COLUMNS, (*chain(*steps.values()), *_list_printed_rows(published)))
    answers = tuple(
        Answer(step.group, step.solved, f"{half_up(step.solved)} %", tokens(step.budget))
        for step in chain(*steps.values())
        if step.solved is not None and step.budget is not None
    )
    notes = (*_notes(found), *crowd_notes(facets))
    return ChartDrawing(lambda: _draw_steps(facets, steps, budgets, which), table, notes, answers=answers)


def _draw_steps(
    facets: Sequence[LinePanel[Group]], steps: Mapping[Group, Sequence[BudgetRow]], budgets: Sequence[int], which: str
) -> go.Figure:
    figure = curves(facets, lambda group: [step.point for step in steps[group]])
    word = "tokens (input and output)" if which == "all" else "output tokens"
    figure.update_xaxes(type="log", title={"text": f"budget, {word}"}, tickvals=budgets, ticktext=list(_ticks(budgets)))
    best = max(step.around[1] if step.around else step.solved or 0 for of_group in steps.values() for step in of_group)
    figure.update_yaxes(range=[-3, min(103, 10 + 10 * (best // 10 + 1))])
    return figure.update_yaxes(title={"text": "solved within the budget, %"}, col=1)


def _ticks(budgets: Sequence[int]) -> Iterable[str]:
    """A word at some of them, so that the words do not touch."""
    apart = ceil(len(budgets) / 5)
    return (tokens(budget).replace(".0", "") if place % apart == 0 else "" for place, budget in enumerate(budgets))


def plateaus(sheet: ChartSheet) -> dict[str, tuple[PrintedNumber, PrintedNumber]]:
    """Model -> the lowest and the highest printed value of its plateau, percent."""
    rows = [row for row in sheet.published if row.paper == PAPER and row.metric.startswith("pass@3_plateau_")]
    ends = {(row.model, row.metric.rpartition("_")[2]): row for row in rows if row.value is not None}
    models = dict.fromkeys(model for model, _ in ends)
    return {
        model: (ends[model, "lowest"], ends[model, "highest"])
        for model in models
        if {(model, "lowest"), (model, "highest")} <= ends.keys()
    }


def _draw_printed_alone(published: Mapping[str, tuple[PrintedNumber, PrintedNumber]]) -> ChartDrawing:
    if not published:
        absent = "No scored trial of these runs reports its tokens, or the metric counts no passed tasks."
        return ChartDrawing(None, ChartTable(COLUMNS), absent=f"{absent} {NOT_PUBLISHED}")
    table = ChartTable.of(COLUMNS, _list_printed_rows(published))
    return ChartDrawing(lambda: _draw_plateaus(published), table, (NOT_PUBLISHED,))


def _draw_plateaus(published: Mapping[str, tuple[PrintedNumber, PrintedNumber]]) -> go.Figure:
    figure, place_of = panels(["Published: plateau of pass@3, SkillGenBench"], across=1, height=40 * len(published))
    for place, (model, (low, high)) in enumerate(published.items()):
        figure.add_trace(_range(place, model, low, high), **place_of(0))
    figure.update_yaxes(**lay_rows(list(published)), showgrid=False, zeroline=False)
    figure.update_xaxes(rangemode="tozero", ticksuffix=" %", title={"text": "pass@3, approximate, as printed"})
    return figure.update_layout(showlegend=False)


def _range(place: int, model: str, low: PrintedNumber, high: PrintedNumber) -> go.Scatter:
    style = series(1)
    points = []
    for row in (low, high):
        hover = lines(plain(model), f"{row.printed} %, {row.table}, {row.row}", plain(row.note))
        points.append(ChartPoint(row.value, place, hover))
    return plain_scatter(
        points,
        mode="lines+markers+text",
        line={"color": style.colour, "width": 3},
        marker={"color": style.colour, "symbol": "square", "size": 9},
        text=[low.printed, high.printed],
        textposition="top center",
    )


def _list_printed_rows(published: Mapping[str, tuple[PrintedNumber, PrintedNumber]]) -> Iterable[BudgetRow]:
    for model, ends in published.items():
        for row, end in zip(ends, ("lowest", "highest"), strict=True):
            source = f"SkillGenBench, {row.row}; {end} of the plateau of pass@3 over the generator's budget"
            yield BudgetRow(model, source, solved=row.value)


def _notes(found: Mapping[Group, TokensSpent]) -> Iterable[str]:
    yield (
        "Share of scored trials that passed and used at most N tokens in the attempt that counts. The agents "
        "did not know this budget; a real one can change their behaviour. Replicates are pooled."
    )
    yield "Lines are 95 % intervals: over replicates where there are two or more, else over ten trials or more."
    if unknown := sum(spent.unknown for spent in found.values()):
        yield f"{unknown:,} scored trials report no tokens and are left out of numerator and denominator."
    yield NOT_PUBLISHED


CHART = Chart(
    key="budget",
    title="Success within a budget",
    question="How many tasks are solved within a token budget?",
    draw=draw,
    lacks=lacks_tokens,
    after="SkillGenBench, Figure 8",
    uses_metric=True,
    published=(PAPER,),
    options={"tokens": ("all", "output")},
    finding="Within {what} tokens: {high} {most}; {low} {least}",
)
