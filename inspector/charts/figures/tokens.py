"""What a trial and writing a library take: tokens of agent and author by kind.
The table has whole runs and what they cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

import numpy as np

from benchapp.papers.published_rows import PrintedNumber
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.interval import Floats
from benchapp.stats.metrics.spending import Spending, spending_of
from inspector.charts.chart import Answer, Chart, ChartDrawing, ChartTable, TableColumn, entry, name_columns
from inspector.charts.drawing.bars import MAX_BARS, Bar, BarPanel, BarPart, Bars, kinds_of_part, note_crowd
from inspector.charts.drawing.panels import lines, plain
from inspector.charts.drawing.quantities import tokens
from inspector.charts.sheet import ChartSheet
from runner.base.text import plural

FRESH, CACHED, UNSPLIT, OUTPUT = (
    "input, not cached",
    "input, from the cache",
    "input, cached part not reported",
    "output",
)
AGENT, AUTHOR = "agent", "author"
KINDS = kinds_of_part(FRESH, CACHED, UNSPLIT, OUTPUT)
PAPER, TABLE = "skilllearnbench", "Table 6"  # solving tokens per instance
PRINTED = "Published: tokens of solving alone, per instance, averaged over the paper's models."
Amounts = Sequence[float | None]  # input, of it from the cache, output; per run also cost and estimated cost
UNKNOWN: Amounts = (None, None, None)
COLUMNS = (
    *name_columns("group", "who", "runs"),
    TableColumn("things", "attempts or calls", "all runs", lambda row: row.spent and row.spent.things),
    TableColumn("tokens_known", "of them with tokens", read=lambda row: row.spent and row.spent.tokens_known),
    TableColumn("input", "input", "tokens per run", entry("per_run", 0)),
    TableColumn("cached", "of it from the cache", "tokens per run", entry("per_run", 1)),
    TableColumn("output", "output", "tokens per run", entry("per_run", 2)),
    TableColumn("cost_known", "of them with a whole cost", read=lambda row: row.spent and row.spent.cost_known),
    TableColumn("cost", "cost", "USD per run", entry("per_run", 3)),
    TableColumn("estimated", "estimated cost of the others", "USD per run", entry("per_run", 4)),
    TableColumn("trials", "trials of the metric with tokens"),
    TableColumn("trial_input", "input", "tokens per trial", entry("per_trial", 0)),
    TableColumn("trial_cached", "of it from the cache", "tokens per trial", entry("per_trial", 1)),
    TableColumn("trial_output", "output", "tokens per trial", entry("per_trial", 2)),
    TableColumn("source", "source"),
)


@dataclass(frozen=True, slots=True)
class TokenRow:
    """What the agent or the author of a group used per run, all replicates added up, or a printed line. `bar` draws
    `per_trial`; of the author its tokens per run."""

    group: str
    who: str
    source: str
    bar: Bar
    per_run: Amounts
    runs: int | None = None
    spent: Spending | None = None  # in all runs, with how many attempts or calls report it
    url: str = ""
    trials: int | None = None
    per_trial: Amounts = UNKNOWN  # of the agent, over the `trials` of the metric that report tokens


def draw(sheet: ChartSheet) -> ChartDrawing:
    own, printed = list_own_rows(sheet), _list_printed_rows(sheet.printed)
    if not own and not printed:
        absent = "No attempt and no author call of these runs has been recorded."
        return ChartDrawing(None, ChartTable(COLUMNS), absent=absent)
    axes = (("Agent", "tokens per trial"), ("Author", "tokens per run"))
    panels = [
        BarPanel(title, axis, tuple(row.bar for row in rows))
        for (title, axis), rows in zip(axes, zip(*own[:MAX_BARS], strict=True), strict=False)
    ]
    solving, unit = "Published: SkillLearnBench, solving", "tokens per instance, as printed"
    laid_over = [BarPanel(solving, unit, tuple(row.bar for row in printed))] if printed else []
    picture = Bars(panels, KINDS, across=len(panels) or 1, laid_over=laid_over)
    rows = (*(row for row in chain(*own) if row.spent and row.spent.things), *printed)
    answers = tuple(Answer(agent.group, agent.bar.length, tokens(agent.bar.length)) for agent, _ in own if agent.trials)
    notes = (*NOTES, *([PRINTED] if printed else []), *note_crowd(len(own), "groups"))
    return ChartDrawing(picture, ChartTable.of(COLUMNS, rows), notes, answers=answers)


def list_own_rows(sheet: ChartSheet) -> list[tuple[TokenRow, TokenRow]]:
    """Agent and author of every group with a billed attempt or call."""
    comparison = sheet.comparison
    spent = spending_of(comparison.runs, comparison.choices.as_of)
    found = []
    for group in sheet.groups:
        of_runs = [spent[run.pk] for run in group.runs if run.pk in spent]
        agent = sum((each.agent for each in of_runs), Spending())
        author = sum((each.author for each in of_runs), Spending())
        if not agent.things and not author.things:
            continue
        label, runs, url = group.label, group.replicates, sheet.trials_url(group, metric=sheet.metric)
        trials, per_trial = _measure_trials(sheet, group)
        bar = Bar(label, (), "unknown")
        if trials:
            bar = _build_bar(label, per_trial, f"agent, {plural(trials, 'trial')}", url)
        solving = TokenRow(label, AGENT, "own", bar, _per_run(agent, runs), runs, agent, url, trials, per_trial)
        per_run = _per_run(author, runs)
        bar = Bar(label, (), "unknown" if author.things else "no call")
        if author.tokens_known:
            who = f"author, reported by {author.tokens_known:,} of {plural(author.things, 'call')}"
            known = author.tokens_known
            partly = f" of {known:,}/{author.things:,}" if known < author.things else ""
            bar = _build_bar(label, per_run[:3], who, "", partly)
        found.append((solving, TokenRow(label, AUTHOR, "own", bar, per_run, runs, author, url)))
    return found


def _per_run(spent: Spending, runs: int) -> list[float | None]:
    amounts = (spent.input_tokens, spent.cached_tokens, spent.output_tokens, spent.cost_usd, spent.estimated_usd)
    return [None if each is None else each / runs for each in amounts]


def _measure_trials(sheet: ChartSheet, group: Group) -> tuple[int, Amounts]:
    """Means over the trials that the metric counts (all without one) and that report their tokens, and how many these
    are. Cached input of trials that do not report it counts as not cached; None where none does."""
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


def _build_bar(label: str, amounts: Amounts, who: str, url: str, after: str = "") -> Bar:
    total, cached, output = amounts
    means = [(UNSPLIT, total), (OUTPUT, output)]
    if cached is not None and total is not None:
        means = [(FRESH, max(0.0, total - cached)), (CACHED, cached), (OUTPUT, output)]
    parts = tuple(
        BarPart(name, mean, tokens(mean), lines(plain(label), who, f"{mean:,.0f} {name}"), url)
        for name, mean in means
        if mean
    )
    return Bar(label, parts, tokens(sum(part.value or 0 for part in parts)) + after)


def _list_printed_rows(published: Sequence[PrintedNumber]) -> list[TokenRow]:
    """One per method, of the table's thousands of tokens."""
    cells: dict[str, dict[str, PrintedNumber]] = {}
    for row in published:
        if row.paper == PAPER and row.table == TABLE and row.unit == "k tokens":
            cells.setdefault(row.row, {})[row.metric] = row
    found = []
    for label, of_label in cells.items():
        counts = {metric: 1000 * cell.value for metric, cell in of_label.items() if cell.value is not None}
        parts = []
        for name, metric in ((UNSPLIT, "input_tokens"), (OUTPUT, "output_tokens")):
            if metric in counts:
                text = of_label[metric].printed
                parts.append(BarPart(name, counts[metric], text, lines(plain(label), f"{text} {name}")))
        bar = Bar(label, tuple(parts), of_label["tokens"].printed if "tokens" in of_label else "")
        per_run = (counts.get("input_tokens"), None, counts.get("output_tokens"), None, None)
        found.append(TokenRow(label, AGENT, f"SkillLearnBench, {TABLE}; per instance, not per run", bar, per_run))
    return found


NOTES = (
    "Agent: the mean over the trials that the metric counts. Author: all its calls in a run. The table adds up whole "
    "runs, every billed attempt and call; runs with more phases have more trials.",
    "A sum shows how many calls reported it, and is too low by the rest. Where only some report cached input, the "
    "others' input counts as not cached.",
)
CHART = Chart(
    key="tokens",
    title="Tokens and cost",
    question="Who spends the tokens?",
    draw=draw,
    after="SkillLearnBench, Table 6",
    uses_metric=True,
    papers=(PAPER,),
    finding="A trial takes {most} tokens with {high}; {least} with {low}",
)
