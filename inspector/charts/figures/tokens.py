"""What runs used: tokens of agent and author by kind, and what both cost."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from benchapp.papers.published_rows import PrintedNumber
from benchapp.stats.comparing.groups import Group
from benchapp.stats.metrics.spending import Spending, spending_of
from inspector.charts.chart import Chart, ChartDrawing, ChartTable, TableColumn, TableRow
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

FRESH, CACHED, UNTOLD, OUTPUT = "input, not cached", "input, from the cache", "input, cached part not told", "output"
AGENT, AUTHOR = "agent", "author"
KINDS = kinds_of_part(FRESH, CACHED, UNTOLD, OUTPUT, AGENT, AUTHOR)
THINGS = {AGENT: "attempt", AUTHOR: "call"}
PAPER, TABLE = "skilllearnbench", "Table 6"  # solving tokens per instance
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
    TableColumn("source", "source"),
)


@dataclass(frozen=True, slots=True)
class TokenShare:
    """What the agent or the author of a group used, all replicates added up."""

    who: str
    runs: int
    spent: Spending

    def per_run(self, total: float | None) -> float | None:
        return None if total is None else total / self.runs


def shares_of(sheet: ChartSheet) -> dict[Group, tuple[TokenShare, TokenShare]]:
    """Agent and author of every group for which an attempt or a call was billed."""
    comparison = sheet.comparison
    spent = spending_of(comparison.runs, comparison.choices.as_of)
    found = {}
    for group in comparison.groups.all:
        of_runs = [spent[run.pk] for run in group.runs if run.pk in spent]
        agent = TokenShare(AGENT, group.replicates, sum((each.agent for each in of_runs), Spending()))
        author = TokenShare(AUTHOR, group.replicates, sum((each.author for each in of_runs), Spending()))
        if agent.spent.things or author.spent.things:
            found[group] = agent, author
    return found


def draw(sheet: ChartSheet) -> ChartDrawing:
    found = shares_of(sheet)
    published = find_printed_tokens(sheet)
    if not found and not published:
        return ChartDrawing(
            None, ChartTable(COLUMNS), absent="No attempt and no author call of these runs has been recorded."
        )
    shown = list(found.items())[:MAX_BARS]
    own = []
    if shown:
        own = [
            BarPanel("Agent", "tokens per run", tuple(_token_bar(sheet, group, agent) for group, (agent, _) in shown)),
            BarPanel(
                "Author", "tokens per run", tuple(_token_bar(sheet, group, author) for group, (_, author) in shown)
            ),
        ]
    priced = any(share.spent.cost_usd is not None for _, shares in shown for share in shares)
    if priced:
        costs = tuple(_cost_bar(sheet, group, shares) for group, shares in shown)
        own.append(BarPanel("Cost", "USD per run", costs))
    figure = stack_bars(rows_of(len(own) or 1, own, _draw_printed_panels(published)), KINDS, across=len(own) or 1)
    rows = (
        *(_row(sheet, group, share) for group, shares in found.items() for share in shares if share.spent.things),
        *_list_printed_rows(published),
    )
    unpriced = ("No attempt and no call of these runs tells a cost.",) if own and not priced else ()
    return ChartDrawing(figure, ChartTable(COLUMNS, rows), (*unpriced, *_notes(len(found), bool(published))))


def _token_bar(sheet: ChartSheet, group: Group, share: TokenShare) -> Bar:
    spent = share.spent
    if not spent.tokens_known:
        return Bar(group.label, (), _nothing(share))
    cached, total = spent.cached_tokens, spent.input_tokens
    amounts: list[tuple[str, float | None]] = [(OUTPUT, spent.output_tokens)]
    if cached is None or total is None:
        amounts.insert(0, (UNTOLD, total))
    else:
        amounts = [(FRESH, max(0, total - cached)), (CACHED, cached), *amounts]
    url = sheet.trials_url(group) if share.who == AGENT else ""
    parts = []
    for name, amount in amounts:
        if amount:
            each = amount / share.runs
            told = _of(spent.tokens_known, share)
            parts.append(
                BarPart(name, each, tokens(each), lines(*_who(group, share), f"{each:,.0f} {name}", told), url)
            )
    whole = sum(part.value or 0 for part in parts)
    return Bar(group.label, tuple(parts), tokens(whole) + _partly(spent.tokens_known, spent.things))


def _cost_bar(sheet: ChartSheet, group: Group, shares: Sequence[TokenShare]) -> Bar:
    parts = []
    for share in shares:
        cost = share.per_run(share.spent.cost_usd)
        if cost is not None:
            hover = lines(*_who(group, share), f"{usd(cost)} per run", _of(share.spent.cost_known, share))
            parts.append(BarPart(share.who, cost, str(usd(cost)), hover, sheet.trials_url(group)))
    known, things = (sum(getattr(share.spent, name) for share in shares) for name in ("cost_known", "things"))
    if not parts:
        return Bar(group.label, (), "unknown")
    return Bar(group.label, tuple(parts), str(usd(sum(part.value or 0 for part in parts))) + _partly(known, things))


def _nothing(share: TokenShare) -> str:
    if share.spent.things:
        return "unknown"
    return "no call" if share.who == AUTHOR else "no attempt"


def _partly(known: int, things: int) -> str:
    return f" of {known:,}/{things:,}" if known < things else ""


def _who(group: Group, share: TokenShare) -> tuple[str, str]:
    return plain(group.label), f"{share.who}, per run over {plural(share.runs, 'run')}"


def _of(known: int, share: TokenShare) -> str:
    return f"told by {known:,} of {plural(share.spent.things, THINGS[share.who])}"


def _row(sheet: ChartSheet, group: Group, share: TokenShare) -> TableRow:
    spent = share.spent
    amounts = [share.per_run(value) for value in (spent.input_tokens, spent.cached_tokens, spent.output_tokens)]
    cost = share.per_run(spent.cost_usd)
    values = (group.label, share.who, share.runs, spent.things, spent.tokens_known, *amounts, spent.cost_known, cost)
    return TableRow((*values, "own"), sheet.trials_url(group))


def find_printed_tokens(sheet: ChartSheet) -> dict[str, dict[str, PrintedNumber]]:
    """Label -> metric -> printed number of thousands of tokens."""
    found: dict[str, dict[str, PrintedNumber]] = {}
    for row in sheet.published:
        if row.paper == PAPER and row.table == TABLE and row.unit == "k tokens":
            found.setdefault(row.row, {})[row.metric] = row
    return found


def _draw_printed_panels(published: Mapping[str, Mapping[str, PrintedNumber]]) -> list[BarPanel]:
    if not published:
        return []
    bars = []
    for label, cells in published.items():
        parts = tuple(
            BarPart(name, 1000 * cell.value, cell.printed, lines(plain(label), f"{cell.printed} {name}"))
            for name, metric in ((UNTOLD, "input_tokens"), (OUTPUT, "output_tokens"))
            if (cell := cells.get(metric)) and cell.value is not None
        )
        total = cells.get("tokens")
        bars.append(Bar(label, parts, total.printed if total else ""))
    return [BarPanel("Published: SkillLearnBench, solving", "tokens per instance, as printed", tuple(bars))]


def _list_printed_rows(published: Mapping[str, Mapping[str, PrintedNumber]]) -> Iterable[TableRow]:
    for label, cells in published.items():
        amounts = [
            1000 * cell.value if (cell := cells.get(metric)) and cell.value is not None else None
            for metric in ("input_tokens", "output_tokens")
        ]
        values = (label, AGENT, None, None, None, amounts[0], None, amounts[1], None, None)
        yield TableRow((*values, f"SkillLearnBench, {TABLE}; per instance, not per run"))


def _notes(groups_total: int, published: bool) -> tuple[str, ...]:
    notes = (
        "Every billed attempt and every author call counts, whether or not its result did; the mean over the runs of a "
        "group. Phases differ between conditions (replay), and with them what a run has to pay.",
        "Unknown is unknown: a sum that not all attempts or calls told says of how many it is, and is too low by the rest. Where only some attempts tell "
        "what came from the cache, the others' input counts as not cached.",
    )
    if published:
        notes += ("Published: tokens of solving alone, per instance, averaged over the paper's models; not per run.",)
    return (*notes, *note_crowd(groups_total, "groups"))


CHART = Chart(
    key="tokens",
    title="Tokens and cost",
    question="What does learning cost, and who spends it: the agent or the author?",
    draw=draw,
    after="SkillLearnBench, Table 6",
    published=(PAPER,),
)
