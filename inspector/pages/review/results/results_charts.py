"""The figures of the results page: the taxonomy, co-occurrence, saturation, where the first failure is."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from plotly import graph_objects as go

from benchapp.models import Code
from benchapp.review.results.code_counts import count_together
from benchapp.review.results.population_shares import Share
from benchapp.review.results.queue_results import Per, TaxonomyRow
from benchapp.review.results.review_exports import number
from benchapp.stats.inference.interval import Interval
from benchapp.stats.inference.shares import MIN_FOR_INTERVAL, half_up
from inspector.charts.chart import ChartDrawing, ChartTable, TableColumn, TableRow
from inspector.charts.drawing.palette import INK, MUTED, layout, veil
from inspector.charts.drawing.panels import LETTER, Heat, HeatCell, Scale, heatmaps, lines, plain, short
from inspector.pages.review.results.results import Results
from runner.base.text import plural

ROW = 26  # px of a code
MAX_CODES = 40  # drawn; the table has all
MAX_TOGETHER = 14  # codes of the matrix
INDENT = 14  # px per level
LABEL = 44  # characters of a code's name
TENTHS = 10
PER_SAID = {
    Per.POPULATION: "per 100 of the population",
    Per.FAILED: "per 100 failed",
    Per.ATTEMPTED: "per 100 that ran",
}


@dataclass(frozen=True, slots=True)
class Figure:
    """A chart like inspector.charts.chart.Chart, for the numbers of one queue."""

    key: str
    title: str
    question: str
    draw: Callable[[Results], ChartDrawing]
    find: Callable[[Results], str] | None = None  # what it found, in words; "" without a finding

    def titled(self, results: Results) -> Figure:
        """Return the title: what it found, if it found something."""
        found = self.find(results) if self.find else ""
        return replace(self, title=found) if found else self


# --- the taxonomy ---------------------------------------------------------------------------------------------------


def draw_taxonomy(results: Results) -> ChartDrawing:
    rows = results.rows
    table = _taxonomy_table(results)
    if not results.taxonomy.sampled:
        return ChartDrawing(None, table, absent="No item is reviewed yet.")
    n = max((row.shares[results.per].n for row in rows), default=0)
    if n < MIN_FOR_INTERVAL:
        are = "is" if n == 1 else "are"
        return ChartDrawing(
            None, table, absent=f"{n} reviewed {are} too few for shares. From {MIN_FOR_INTERVAL} on they are drawn."
        )
    shown = choose_rows(rows)
    notes = (f"{len(shown)} of {len(rows)} causes are drawn; the table has all.",) if len(shown) < len(rows) else ()
    return ChartDrawing(_bars(shown, results), table, notes)


def choose_rows(rows: Sequence[TaxonomyRow]) -> Sequence[TaxonomyRow]:
    """Return all rows if they fit, else those that were used."""
    return rows if len(rows) <= MAX_CODES else ([row for row in rows if row.is_used] or rows)[:MAX_CODES]


def _bars(rows: Sequence[TaxonomyRow], results: Results) -> go.Figure:
    """Draw a bar for each code, the tree from the top, with its interval and, at its right, its numbers."""
    per = results.per
    drawn = [(place, row, row.shares[per]) for place, row in enumerate(rows)]
    drawn = [(place, row, share) for place, row, share in drawn if share.shown is not None]
    shade = MUTED
    numbers = [_render_numbers(row.shares[per], results) for row in rows]
    right_of = {"x": 1, "xref": "paper", "xanchor": "left", "xshift": 8}
    labels = [{**_text(numbers[place], place, 11), **right_of} for place in range(len(rows))]
    left = max(len(short(row.code.name, LABEL)) * LETTER * 1.08 + row.depth * INDENT for row in rows) + 14
    names = [_name(row, place, left) for place, row in enumerate(rows)]
    right = 20 + LETTER * max(len(each) - len("<b></b>") for each in numbers)
    trace = go.Bar(
        orientation="h",
        x=[100 * (share.value or 0) for _, _, share in drawn],
        y=[place for place, _, _ in drawn],
        width=0.62,
        marker={"color": [veil(shade, 0.35 if row.depth else 0.65) for _, row, _ in drawn], "line": {"width": 0}},
        error_x={**_around([share for _, _, share in drawn], results), "color": INK, "thickness": 1.3, "width": 3},
        hovertext=[_hover(row, results) for _, row, _ in drawn],
        hoverinfo="text",
        customdata=[results.link(row.code) for _, row, _ in drawn],
        name="",
        showlegend=False,
    )
    whole = layout(height=len(rows) * ROW + 56, margin={"t": 6, "b": 44, "l": left, "r": right, "pad": 4})
    whole["annotations"] = [*names, *labels]
    whole["meta"] = {"min_width": left + right + 240}
    figure = go.Figure(trace, whole)
    figure.update_yaxes(range=[len(rows) - 0.4, -0.6], showticklabels=False, showgrid=False, zeroline=False)
    figure.update_yaxes(automargin=False)
    figure.update_xaxes(title_text=PER_SAID[per], rangemode="tozero", zeroline=True)
    return figure


def _around(shares: Sequence[Share], results: Results) -> dict[str, object]:
    found = [results.interval(share) for share in shares]
    values = [100 * (share.value or 0) for share in shares]
    return {
        "type": "data",
        "symmetric": False,
        "array": [100 * each.high - value if each else 0 for each, value in zip(found, values, strict=True)],
        "arrayminus": [value - 100 * each.low if each else 0 for each, value in zip(found, values, strict=True)],
    }


def _name(row: TaxonomyRow, place: int, left: float) -> dict[str, object]:
    """Return the label to the left of a bar, indented by its depth."""
    name = short(row.code.name, LABEL)
    return {
        **_text(f"<b>{name}</b>" if not row.depth else name, place, 12),
        "x": 0,
        "xanchor": "left",
        "xref": "paper",
        "xshift": row.depth * INDENT - left + 4,
    }


def _render_numbers(share: Share, results: Results) -> str:
    """Return the numbers at the right of a bar."""
    counts = f"{number(share.k)}/{share.n}"
    if share.shown is None:
        return f"<b>{counts}</b>"
    return f"<b>{half_up(100 * share.shown, 1)}</b>{_ends(results.interval(share))}  {counts}"


def _ends(around: Interval | None) -> str:
    return "" if around is None else f"  {half_up(100 * around.low, 1)} to {half_up(100 * around.high, 1)}"


def _text(text: str, place: int, size: int) -> dict[str, object]:
    font = {"size": size, "color": INK}
    return {"text": text, "y": place, "yref": "y", "showarrow": False, "align": "left", "font": font}


def _hover(row: TaxonomyRow, results: Results) -> str:
    share = row.shares[results.per]
    around = results.interval(share)
    counts = f"{number(share.k)} of {share.n} items coded, from {share.clusters} clusters"
    value = f"{half_up(100 * (share.value or 0), 1)} {PER_SAID[results.per]}"
    ends = f"95 % interval{_ends(around)}" if around else share.note
    return lines(f"<b>{plain(row.code.name)}</b>", value, ends, counts)


def _taxonomy_table(results: Results) -> ChartTable:
    pers = results.taxonomy.pers
    columns = [
        TableColumn("code", "code"),
        TableColumn("depth", "level"),
        TableColumn("k", "items"),
        TableColumn("n", "coded"),
    ]
    for per in pers:
        columns += [
            TableColumn(f"{per}", PER_SAID[per]),
            TableColumn(f"{per}_low", "low"),
            TableColumn(f"{per}_high", "high"),
        ]
    rows = []
    for row in results.rows:
        share = row.shares[Per.POPULATION]
        values: list[object] = [row.code.name, row.depth, share.k, share.n]
        for per in pers:
            each = row.shares[per]
            around = results.interval(each)
            values += [None if each.shown is None else 100 * each.shown]
            values += [100 * around.low, 100 * around.high] if around else [None, None]
        rows.append(TableRow(tuple(values), results.items_url(row.code) if share.k else ""))
    return ChartTable(tuple(columns), tuple(rows))


# --- co-occurrence --------------------------------------------------------------------------------------------------


def draw_together(results: Results) -> ChartDrawing:
    """Draw which codes come together: at most MAX_TOGETHER of those used most, leaves and parents that add something
    to them."""
    codes = most_used(results)
    columns = (
        TableColumn("code", "code"),
        TableColumn("with", "with"),
        TableColumn("both", "both"),
        TableColumn("either", "either"),
    )
    if len(codes) < 2:
        return ChartDrawing(None, ChartTable(columns), absent="Reviewers used fewer than two causes.")
    found = count_together(results.chosen_items, [results.coding.within(code) for code in codes])
    cells: dict[tuple[str, str], HeatCell] = {}
    rows: list[tuple[float, TableRow]] = []
    for (row, column), pair in found.items():
        one, other = codes[row].name, codes[column].name
        if row == column:
            cells[one, other] = HeatCell(
                None, number(pair.both), lines(f"<b>{plain(one)}</b>", f"{number(pair.both)} items")
            )
            continue
        sentence = f"{number(pair.both)} of the {number(pair.either)} items with either have both"
        cells[one, other] = HeatCell(
            100 * (pair.share or 0), number(pair.both), lines(f"<b>{plain(one)}</b>, {plain(other)}", sentence)
        )
        if row > column:
            rows.append((pair.both, TableRow((other, one, pair.both, pair.either))))
    names = [code.name for code in codes]
    top = max((cell.value or 0 for cell in cells.values()), default=0) or 1
    figure = heatmaps([Heat("", cells)], names, names, Scale(0, top, False, "%"), across=1)
    table = ChartTable(columns, tuple(row for _, row in sorted(rows, key=lambda counted: -counted[0])))
    return ChartDrawing(
        figure, table, ("Colour: of the items with either code, the share with both. Number: items with both.",)
    )


def most_used(results: Results) -> list[Code]:
    """Return the most used codes, leaves only: a parent always comes with its children."""
    parents = {code.parent_id for code in results.coding.codes}
    used = [row for row in results.rows if row.is_used and row.code.pk not in parents]
    return [row.code for row in sorted(used, key=lambda row: -row.shares[Per.POPULATION].k)[:MAX_TOGETHER]]


# --- saturation -----------------------------------------------------------------------------------------------------


def draw_saturation(results: Results) -> ChartDrawing:
    found = results.saturation
    rows = tuple(TableRow((place, codes)) for place, codes in enumerate(found.found, start=1))
    table = ChartTable((TableColumn("item", "items reviewed"), TableColumn("codes", "different causes so far")), rows)
    if not found.items:
        return ChartDrawing(None, table, absent="No item is reviewed yet.")
    line = go.Scatter(
        x=list(range(found.items + 1)),
        y=[0, *found.found],
        mode="lines",
        line={"color": MUTED, "width": 2, "shape": "hv"},
        name="different causes",
        hovertemplate="%{y} causes in %{x} items<extra></extra>",
        showlegend=False,
    )
    figure = go.Figure(line, layout(height=240))
    figure.update_xaxes(title_text="items in the order of review", rangemode="tozero")
    figure.update_yaxes(rangemode="tozero")
    return ChartDrawing(figure, table, (found.sentence(),))


def find_saturation(results: Results) -> str:
    found = results.saturation
    if not found.last_new:
        return ""
    if not found.still:
        return "The last review still brought a new cause"
    return f"No new cause in the last {plural(found.still, 'review')}"


# --- where the first failure is -------------------------------------------------------------------------------------


def draw_first_failures(results: Results) -> ChartDrawing:
    found = results.first_failures
    columns = (
        TableColumn("part", "part of the trajectory"),
        TableColumn("share", "share", "%"),
        TableColumn("marks", "marks"),
    )
    if not found.marks:
        return ChartDrawing(None, ChartTable(columns), absent="Nobody marked a first mistake at a step.")
    names = [f"{10 * tenth}–{10 * tenth + 10} %" for tenth in range(TENTHS)]
    rows = zip(names, found.shares, found.counts, strict=True)
    table = ChartTable(columns, tuple(TableRow((name, 100 * share, count)) for name, share, count in rows))
    bars = go.Bar(
        x=[10 * tenth + 5 for tenth in range(TENTHS)],
        width=8.4,
        y=[100 * share for share in found.shares],
        marker={"color": veil(MUTED, 0.5)},
        text=[str(count) if count else "" for count in found.counts],
        textposition="outside",
        hovertext=[f"{name}: {count} of {found.marks} marks" for name, count in zip(names, found.counts, strict=True)],
        hoverinfo="text",
        name="",
        cliponaxis=False,
    )
    figure = go.Figure(bars, layout(height=240))
    figure.update_xaxes(title_text="how far into the trajectory, %", range=[0, 100], showgrid=False)
    figure.update_yaxes(ticksuffix=" %", rangemode="tozero")
    note = f"On the bars: marks, {found.marks} in {found.items} items. Heights: share of items, weighted."
    return ChartDrawing(figure, table, (note,))


def find_first_failures(results: Results) -> str:
    """Find the tenth of the trajectory where half of the items have gone wrong; no finding if chance would come as
    soon."""
    total = 0.0
    for tenth, share in enumerate(results.first_failures.shares[: TENTHS // 2], start=1):
        total += share
        if total >= 0.5:
            return f"Half go wrong in the first {10 * tenth} %"
    return ""


FIGURES: Mapping[str, Figure] = {
    figure.key: figure
    for figure in (
        Figure("taxonomy", "Causes", "How often does each cause come?", draw_taxonomy),
        Figure("together", "Causes that come together", "Which causes come together?", draw_together),
        Figure(
            "saturation",
            "New causes",
            "Different causes found, in the order of review",
            draw_saturation,
            find_saturation,
        ),
        Figure(
            "first",
            "The first mistake",
            "Where the first mistake happens, in tenths of the trajectory",
            draw_first_failures,
            find_first_failures,
        ),
    )
}
