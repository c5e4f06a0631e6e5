"""What runs used: tokens of agent and author by kind, and what both cost."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import chain

from benchapp.papers.published_rows import PrintedNumber
from benchapp.stats.comparing.groups import Group
from benchapp.stats.metrics.spending import Spending, spending_of
from inspector.charts.chart import Chart, ChartDrawing, ChartTable, TableColumn
from inspector.charts.drawing.bars import (
    MAX_BARS,
    Bar,
    BarPanel,
    BarPart,
    kinds_of_part,
    note_crowd,
    rows_of,
    stack_bars,
)
from inspector.charts.drawing.panels import lines, plain
from inspector.charts.drawing.quantities import plural, tokens
from inspector.charts.sheet import ChartSheet
from inspector.web.text.formats import usd

FRESH, CACHED, UNTOLD, OUTPUT = (
    "input, not cached",
    "input, from the cache",
    "input, cached part not reported",
    "output",
)
AGENT, AUTHOR = "agent", "author"
KINDS = kinds_of_part(FRESH, CACHED, UNTOLD, OUTPUT, AGENT, AUTHOR)
THINGS = {AGENT: "attempt", AUTHOR: "call"}
PAPER, TABLE = "skilllearnbench", "Table 6"  # solving tokens per instance
PRINTED = "Published: tokens of solving alone, per instance, averaged over the paper's models; not per run."
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
    TableColumn("source", "source"),
)


@dataclass(frozen=True, slots=True)
class TokenRow:
    """What the agent or the author of a group used per run, all replicates added up, or a printed line.

    `bar` has the tokens; `things` counts attempts or calls of all runs, `tokens_known` and `cost_known` those that tell.
    """

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
    cost_counted: int = 0
    url: str = ""

    @property
    def cost_part(self) -> BarPart | None:
        if self.cost is None and self.estimated is None:
            return None
        total = (self.cost or 0.0) + (self.estimated or 0.0)
        word = "" if self.estimated is None else " estimated" if self.cost is None else " partly estimated"
        told = _count_known(self.cost_counted, self.things or 0, self.who)
        hover = lines(*_head(self.group, self.who, self.runs), f"{usd(total)} per run{word and f',{word}'}", told)
        return BarPart(self.who, total, f"{usd(total)}{word}", hover, self.url)


def draw(sheet: ChartSheet) -> ChartDrawing:
    own, printed = list_own_rows(sheet), _list_printed_rows(sheet.published)
    if not own and not printed:
        absent = "No attempt and no author call of these runs has been recorded."
        return ChartDrawing(None, ChartTable(COLUMNS), absent=absent)
    shown = own[:MAX_BARS]
    panels = []
    if shown:
        panels = [
            BarPanel(title, "tokens per run", tuple(row.bar for row in rows))
            for title, rows in zip(("Agent", "Author"), zip(*shown, strict=True), strict=True)
        ]
    priced = any(row.cost_part for row in chain(*shown))
    if priced:
        panels.append(BarPanel("Cost", "USD per run", tuple(map(_build_cost_bar, shown))))
    laid_over = BarPanel(
        "Published: SkillLearnBench, solving", "tokens per instance, as printed", tuple(row.bar for row in printed)
    )
    across = len(panels) or 1
    figure = stack_bars(rows_of(across, panels, [laid_over] if printed else []), KINDS, across=across)
    rows = (*(row for row in chain(*own) if row.things), *printed)
    unpriced = ("No attempt or call of these runs reports a cost.",) if panels and not priced else ()
    return ChartDrawing(figure, ChartTable.of(COLUMNS, rows), (*unpriced, *_notes(len(own), bool(printed))))


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
            url = sheet.trials_url(group)
            found.append((_build_row(group, AGENT, agent, url), _build_row(group, AUTHOR, author, url)))
    return found


def _build_row(group: Group, who: str, spent: Spending, url: str) -> TokenRow:
    amounts = (spent.input_tokens, spent.cached_tokens, spent.output_tokens, spent.cost_usd, spent.estimated_usd)
    fresh, cached, output, cost, estimated = (None if each is None else each / group.replicates for each in amounts)
    return TokenRow(
        group.label,
        who,
        "own",
        fresh,
        cached,
        output,
        _build_bar(group, who, spent, url if who == AGENT else ""),
        group.replicates,
        spent.things,
        spent.tokens_known,
        spent.cost_known,
        cost,
        estimated,
        spent.cost_counted,
        url,
    )


def _build_bar(group: Group, who: str, spent: Spending, url: str) -> Bar:
    if not spent.tokens_known:
        return Bar(group.label, (), "unknown" if spent.things else f"no {THINGS[who]}")
    cached, total = spent.cached_tokens, spent.input_tokens
    amounts: list[tuple[str, float | None]] = [(UNTOLD, total)]
    if cached is not None and total is not None:
        amounts = [(FRESH, max(0, total - cached)), (CACHED, cached)]
    head, told = _head(group.label, who, group.replicates), _count_known(spent.tokens_known, spent.things, who)
    means = [(name, total / group.replicates) for name, total in (*amounts, (OUTPUT, spent.output_tokens)) if total]
    parts = tuple(
        BarPart(name, mean, tokens(mean), lines(*head, f"{mean:,.0f} {name}", told), url) for name, mean in means
    )
    return Bar(group.label, parts, tokens(sum(mean for _, mean in means)) + _partly(spent.tokens_known, spent.things))


def _build_cost_bar(rows: Sequence[TokenRow]) -> Bar:
    parts = tuple(part for row in rows if (part := row.cost_part))
    if not parts:
        return Bar(rows[0].group, (), "unknown")
    known, things = sum(row.cost_counted for row in rows), sum(row.things or 0 for row in rows)
    mark = "≈ " if any(row.estimated is not None for row in rows) else ""
    return Bar(rows[0].group, parts, f"{mark}{usd(sum(part.value or 0 for part in parts))}{_partly(known, things)}")


def _partly(known: int, things: int) -> str:
    return f" of {known:,}/{things:,}" if known < things else ""


def _head(group: str, who: str, runs: int | None) -> tuple[str, str]:
    return plain(group), f"{who}, per run over {plural(runs or 0, 'run')}"


def _count_known(known: int, things: int, who: str) -> str:
    return f"reported by {known:,} of {plural(things, THINGS[who])}"


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
        "Every billed attempt and author call counts, even if its result does not. Numbers are means over the runs of a "
        "group. Conditions have different phases (replay), so their runs cost differently.",
        "A sum shows how many attempts or calls reported it, and is too low by the rest. Where only some attempts report "
        "cached input, the others' input counts as not cached.",
        *([PRINTED] if published else []),
        *note_crowd(groups_total, "groups"),
    )


CHART = Chart(
    key="tokens",
    title="Tokens and cost",
    question="Who spends the tokens?",
    draw=draw,
    after="SkillLearnBench, Table 6",
    published=(PAPER,),
)
