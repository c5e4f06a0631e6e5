"""What a trial and writing a library take: tokens of agent and author by kind. The table has whole runs and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np

from benchapp.papers.published_rows import PrintedNumber
from benchapp.stats.comparing.groups import Group
from benchapp.stats.metrics.outcomes import Floats
from benchapp.stats.metrics.spending import Spending, spending_of
from inspector.charts.chart import Chart, ChartDrawing, ChartTable, TableColumn
from inspector.charts.contrast import Answer
from inspector.charts.drawing.bars import MAX_BARS, Bar, BarPanel, BarPart, Bars, kinds_of_part, note_crowd
from inspector.charts.drawing.panels import lines, plain
from inspector.charts.drawing.quantities import plural, tokens
from inspector.charts.sheet import ChartSheet

FRESH, CACHED, UNTOLD, OUTPUT = (
    "input, not cached",
    "input, from the cache",
    "input, cached part not reported",
    "output",
)
AGENT, AUTHOR = "agent", "author"
KINDS = kinds_of_part(FRESH, CACHED, UNTOLD, OUTPUT)
PAPER, TABLE = "skilllearnbench", "Table 6"  # solving tokens per instance
PRINTED = "Published: tokens of solving alone, per instance, averaged over the paper's models."
Amounts = tuple[float | None, float | None, float | None]  # input, of it from the cache, output
UNKNOWN: Amounts = (None, None, None)
COLUMNS = (
    TableColumn("group", "group"),
    TableColumn("who", "who"),
    TableColumn("runs", "runs"),
    TableColumn("things", "attempts or calls", "all runs"),
    TableColumn("tokens_known", "of them with tokens"),
    TableColumn("input", "input", "tokens per run"),
    TableColumn("cached", "of it from the cache", "tokens per run"),
    TableColumn("output", "output", "tokens per run"),
    TableColumn("cost_known", "of them with a whole cost"),
    TableColumn("cost", "cost", "USD per run"),
    TableColumn("estimated", "estimated cost of the others", "USD per run"),
    TableColumn("trials", "trials of the metric with tokens", read=lambda row: row.trials),
    TableColumn("trial_input", "input", "tokens per trial", lambda row: row.per_trial[0]),
    TableColumn("trial_cached", "of it from the cache", "tokens per trial", lambda row: row.per_trial[1]),
    TableColumn("trial_output", "output", "tokens per trial", lambda row: row.per_trial[2]),
    TableColumn("source", "source"),
)


@dataclass(frozen=True, slots=True)
class TokenRow:
    """What the agent or the author of a group used per run, all replicates added up, or a printed line. `things` counts attempts or
    calls of all runs, `tokens_known` and `cost_known` those that report them. `per_trial`: input, cached and output of the agent, over
    the `trials` of the metric that report tokens. `bar` draws `per_trial`; of the author its tokens per run."""

    group: str
    who: str
    source: str
    input: float | None
    cached: float | None
    output: float | None
    bar: Bar
    runs: int | None = None
    things: int | None = None
    tokens_known: int | None = None
    cost_known: int | None = None
    cost: float | None = None
    estimated: float | None = None
    url: str = ""
    trials: int | None = None
    per_trial: Amounts = UNKNOWN


def draw(sheet: ChartSheet) -> ChartDrawing:
    own, printed = list_own_rows(sheet), _list_printed_rows(sheet.published)
    if not own and not printed:
        absent = "No attempt and no author call of these runs has been recorded."
        return ChartDrawing(None, ChartTable(COLUMNS), absent=absent)
    axes = (("Agent", "tokens per trial"), ("Author", "tokens per run"))
    panels = [
        BarPanel(title, axis, tuple(row.bar for row in rows))
        for (title, axis), rows in zip(axes, zip(*own[:MAX_BARS], strict=True), strict=False)
    ]
    laid_over = BarPanel(
        "Published: SkillLearnBench, solving", "tokens per instance, as printed", tuple(row.bar for row in printed)
    )
    picture = Bars(panels, KINDS, across=len(panels) or 1, laid_over=[laid_over] if printed else [])
    rows = (*(row for row in chain(*own) if row.things), *printed)
    answers = tuple(Answer(agent.group, agent.bar.length, tokens(agent.bar.length)) for agent, _ in own if agent.trials)
    return ChartDrawing(picture, ChartTable.of(COLUMNS, rows), _notes(len(own), bool(printed)), answers=answers)


def list_own_rows(sheet: ChartSheet) -> list[tuple[TokenRow, TokenRow]]:
    """Agent and author of every group for which an attempt or a call was billed."""
    comparison = sheet.comparison
    spent = spending_of(comparison.runs, comparison.choices.as_of)
    found = []
    for group in sheet.groups:
        of_runs = [spent[run.pk] for run in group.runs if run.pk in spent]
        agent = sum((each.agent for each in of_runs), Spending())
        author = sum((each.author for each in of_runs), Spending())
        if agent.things or author.things:
            url = sheet.trials_url(group, metric=sheet.metric)
            trials, per_trial = _measure_trials(sheet, group)
            bar = _build_bar(group, per_trial, f"agent, {plural(trials, 'trial')}", url) if trials else None
            solving = _build_row(group, AGENT, agent, bar or Bar(group.label, (), "unknown"), url)
            found.append((replace(solving, trials=trials, per_trial=per_trial), _build_author(group, author, url)))
    return found


def _measure_trials(sheet: ChartSheet, group: Group) -> tuple[int, Amounts]:
    """Means over the trials that the metric counts (all without one) and that report their tokens, and how many these are. Cached input
    of trials that do not report it counts as not cached; None where none does."""
    covered = [
        sheet.metric.select_covered(outcomes) if sheet.metric else outcomes
        for outcomes in sheet.comparison.of_group(group)
    ]
    used, cached, output = (
        np.concatenate([each.column(name) for each in covered])
        for name in ("input_tokens", "cached_tokens", "output_tokens")
    )
    known = ~np.isnan(used) & ~np.isnan(output)
    if not known.any():
        return 0, UNKNOWN
    cached_mean = _mean(cached[known]) if not np.isnan(cached[known]).all() else None
    return int(known.sum()), (_mean(used[known]), cached_mean, _mean(output[known]))


def _mean(amounts: Floats) -> float:
    return float(np.nansum(amounts)) / len(amounts)


def _build_author(group: Group, spent: Spending, url: str) -> TokenRow:
    amounts = _per_run(group, spent)[:3]
    who = f"author, {_count_known(spent)}"
    if spent.tokens_known:
        bar = _build_bar(group, amounts, who, "", _partly(spent.tokens_known, spent.things))
    else:
        bar = Bar(group.label, (), "unknown" if spent.things else "no call")
    return _build_row(group, AUTHOR, spent, bar, url)


def _per_run(group: Group, spent: Spending) -> list[float | None]:
    amounts = (spent.input_tokens, spent.cached_tokens, spent.output_tokens, spent.cost_usd, spent.estimated_usd)
    return [None if each is None else each / group.replicates for each in amounts]


def _build_row(group: Group, who: str, spent: Spending, bar: Bar, url: str) -> TokenRow:
    fresh, cached, output, cost, estimated = _per_run(group, spent)
    counts = (group.replicates, spent.things, spent.tokens_known, spent.cost_known)
    return TokenRow(group.label, who, "own", fresh, cached, output, bar, *counts, cost, estimated, url)


def _build_bar(group: Group, amounts: Sequence[float | None], who: str, url: str, after: str = "") -> Bar:
    total, cached, output = amounts
    means = [(UNTOLD, total), (OUTPUT, output)]
    if cached is not None and total is not None:
        means = [(FRESH, max(0.0, total - cached)), (CACHED, cached), (OUTPUT, output)]
    parts = tuple(
        BarPart(name, mean, tokens(mean), lines(plain(group.label), who, f"{mean:,.0f} {name}"), url)
        for name, mean in means
        if mean
    )
    return Bar(group.label, parts, tokens(sum(part.value or 0 for part in parts)) + after)


def _partly(known: int, things: int) -> str:
    return f" of {known:,}/{things:,}" if known < things else ""


def _count_known(spent: Spending) -> str:
    return f"reported by {spent.tokens_known:,} of {plural(spent.things, 'call')}"


def _list_printed_rows(published: Sequence[PrintedNumber]) -> list[TokenRow]:
    """One per method, of the table's thousands of tokens."""
    cells: dict[str, dict[str, PrintedNumber]] = {}
    for row in published:
        if row.paper == PAPER and row.table == TABLE and row.unit == "k tokens":
            cells.setdefault(row.row, {})[row.metric] = row
    return [_build_printed_row(label, of_label) for label, of_label in cells.items()]


def _build_printed_row(label: str, cells: dict[str, PrintedNumber]) -> TokenRow:
    counts = {metric: 1000 * cell.value for metric, cell in cells.items() if cell.value is not None}
    parts = tuple(
        BarPart(name, counts[metric], cell.printed, lines(plain(label), f"{cell.printed} {name}"))
        for name, metric in ((UNTOLD, "input_tokens"), (OUTPUT, "output_tokens"))
        if metric in counts and (cell := cells[metric])
    )
    source = f"SkillLearnBench, {TABLE}; per instance, not per run"
    bar = Bar(label, parts, cells["tokens"].printed if "tokens" in cells else "")
    return TokenRow(label, AGENT, source, counts.get("input_tokens"), None, counts.get("output_tokens"), bar)


def _notes(groups_total: int, published: bool) -> tuple[str, ...]:
    return (
        "Agent: the mean over the trials that the metric counts. Author: all its calls in a run. The table adds up whole runs, every "
        "billed attempt and call; runs with more phases have more trials.",
        "A sum shows how many calls reported it, and is too low by the rest. Where only some report cached input, the others' "
        "input counts as not cached.",
        *([PRINTED] if published else []),
        *note_crowd(groups_total, "groups"),
    )


CHART = Chart(
    key="tokens",
    title="Tokens and cost",
    question="Who spends the tokens?",
    draw=draw,
    after="SkillLearnBench, Table 6",
    uses_metric=True,
    published=(PAPER,),
    finding="A trial takes {most} tokens with {high}; {least} with {low}",
)
