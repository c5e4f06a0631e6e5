"""Success against what it used: cost, cost per attempted task, output tokens or turns, in pairs from the baseline to
a condition.

Source: SkillEvolBench, figure 7 (a panel per condition); SkillFlow, figures 5, 9 and 10. The frontier follows
SkillFlow's released code: over both ends of all pairs, less used and more solved first.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import replace

from benchapp.papers.published_rows import PrintedNumber
from benchapp.stats.comparing.condition_names import SEPARATOR
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.shares import half_up
from benchapp.stats.metrics.catalogue import RUN_METRICS, name_metric
from benchapp.stats.metrics.metric import Better, MetricUnit, TrialMetric
from benchapp.stats.metrics.run_metrics import RunValue
from inspector.charts.chart import Answer, Chart, ChartDrawing, ChartTable, TableColumn, interval_columns, name_columns
from inspector.charts.drawing.arms import model_name
from inspector.charts.drawing.chart_pairs import ALL, Axis, ConditionPair, PairEnd, PairPanel, draw_pairs, frontier
from inspector.charts.drawing.panels import lines, note_left_out, plain
from inspector.charts.drawing.quantities import scale_cell, tokens, unit_of, write_interval
from inspector.charts.sheet import ChartSheet

AXES = {
    "cost": Axis("cost", "cost_usd", "agent cost per task", "USD", True),
    "cost_per_attempted": Axis("cost_per_attempted", "", "cost per attempted task", "USD", True),
    "tokens": Axis("tokens", "total_tokens", "tokens per task", "tokens", True),
    "output_tokens": Axis("output_tokens", "output_tokens", "output tokens per task", "tokens", True),
    "turns": Axis("turns", "turns", "turns per task", "turns", False),
}
FIRST_KNOWN = "first known"  # of the axes, in their order
UNITS = {
    "cost_usd": MetricUnit.USD,
    "total_tokens": MetricUnit.TOKENS,
    "output_tokens": MetricUnit.TOKENS,
    "turns": MetricUnit.TURNS,
}


def draw(sheet: ChartSheet) -> ChartDrawing:
    axis, pairs = _chosen(sheet)
    found: dict[str, list[ConditionPair]] = {}
    for pair in pairs:
        found.setdefault(pair.own.panel, []).append(pair)
    drawn = []
    for title, of_panel in found.items():
        bases = {pair.base.condition for pair in of_panel if pair.base}
        drawn.append(PairPanel(title, bases.pop() if len(bases) == 1 else "baseline", tuple(of_panel)))
    edge = {id(end) for panel in drawn for end in frontier(end for pair in panel.pairs for end in pair.both)}
    table = ChartTable.of(_columns(sheet.metric, axis, edge), (end for pair in pairs for end in pair.both))
    drawn = [panel for panel in drawn if panel.ends]
    if not drawn:
        return ChartDrawing(None, table, absent=_absent(axis, bool(pairs)))
    metric, sources = sheet.metric, {pair.own.source for pair in pairs}
    y_title = "completion, %"
    if metric and "own runs" in sources:
        also = " (published: completion)" if len(sources) > 1 and metric.key != "completion" else ""
        y_title = f"{name_metric(metric).title}, {unit_of(metric.unit)}{also}"
    answers = tuple(_answer(sheet.metric, axis, pairs)) if sheet.metric else ()
    notes = tuple(_notes(axis, pairs, len(drawn)))
    share_x = axis.key != "turns"
    return ChartDrawing(lambda: draw_pairs(drawn, axis, y_title, share_x=share_x), table, notes, answers=answers)


def _answer(metric: TrialMetric, axis: Axis, pairs: Sequence[ConditionPair]) -> Iterator[Answer]:
    """What each group reached, and for how much; both have to be alike for no contrast."""
    own = [end for pair in pairs for end in pair.ends if end.source == "own runs"]
    several = len({end.model for end in own}) > 1
    for end in {(end.condition, end.model, end.harness): end for end in own}.values():
        assert end.x is not None
        assert end.y is not None
        who = SEPARATOR.join(filter(None, (end.condition, end.model if several else "")))
        reached = f"{half_up(end.y)}{' %' if metric.is_share else ''}"
        used = f"{tokens(end.x) if axis.unit == 'tokens' else f'{end.x:,.3g}'} {axis.unit}"
        yield Answer(who, end.y, f"{reached} for {used}")


def _chosen(sheet: ChartSheet) -> tuple[Axis, list[ConditionPair]]:
    """The axis asked for, else the first that these runs have values for;
    the cost of a scripted or local model is unknown."""
    wanted = sheet.options.get("x", FIRST_KNOWN)
    axes = list(AXES.values()) if wanted == FIRST_KNOWN else [AXES[wanted]]
    for axis in axes:
        own, printed = list(_own(sheet, axis)), list(list_published_pairs(sheet.printed, axis))
        if any(pair.ends for pair in own or printed):
            return axis, [*own, *printed]
    return axes[0], [*_own(sheet, axes[0]), *list_published_pairs(sheet.printed, axes[0])]


# --- own runs ----------------------------------------------------------------------------------------------------


def _own(sheet: ChartSheet, axis: Axis) -> Iterator[ConditionPair]:
    """A pair per group with a baseline; a single end for a group without a baseline that is not a baseline itself."""
    metric, groups = sheet.metric, sheet.comparison.groups
    if metric is None:
        return
    is_alone = len(sheet.groups) > 2 and len({(group.agent_model, group.harness) for group in sheet.groups}) == 1
    for group in sheet.groups:
        baseline = groups.baseline_of(group)
        if baseline is None and groups.is_baseline(group) and len(sheet.groups) > 1:
            continue
        panel = f"{group.condition} · {group.harness}" if axis.key == "turns" else group.condition
        panel = ALL if is_alone else panel
        base = _end(sheet, metric, axis, baseline, panel) if baseline else None
        yield ConditionPair(base, _end(sheet, metric, axis, group, panel))


def _end(sheet: ChartSheet, metric: TrialMetric, axis: Axis, group: Group, panel: str) -> PairEnd:
    """Both axes are means over the same trials, then over replicates; usage over the trials where it is known. Cost per
    attempted task is that of whole runs."""
    cell, used = sheet.comparison.cell(group, metric), _measure_use(sheet, metric, axis, group)
    y, around = scale_cell(cell)
    rate, name = cell.rate, model_name(group)
    reached = "no value"
    if y is not None:
        counts = f"{rate.passed}/{rate.scored}" if metric.is_share else f"{rate.scored} trials"
        value = f"{plain(metric.key)} {half_up(y, 1)}"
        reached = f"{value} % ({counts}){write_interval(around)}" if metric.is_share else f"{value} ({counts})"
    hover = lines(
        f"<b>{plain(name)}</b>, {plain(group.harness)}",
        plain(group.condition),
        reached,
        write_usage(axis, used.value),
        used.note,
        f"mean of {group.replicates} replicates" if group.replicates > 1 else "",
    )
    url, place = sheet.trials_url(group, metric=metric), (panel, "own runs", name, group.harness, group.condition)
    counted = rate.passed if metric.is_share else None, rate.scored, rate.planned
    return PairEnd(used.value, y, hover, url, around, *place, used, counted)


def _measure_use(sheet: ChartSheet, metric: TrialMetric, axis: Axis, group: Group) -> RunValue:
    if not axis.column:
        return sheet.comparison.run_value(group, RUN_METRICS["cost-per-attempted"])
    of_the_same_trials = replace(
        metric,
        key=f"{metric.key}/{axis.column}",
        name=axis.title,
        meaning=f"{axis.title}, over the trials of {metric.key}",
        column=axis.column,
        unit=UNITS[axis.column],
        better=Better.LOWER,
    )
    used = sheet.comparison.cell(group, of_the_same_trials)
    known, planned = used.rate.scored, used.rate.planned
    return RunValue(used.value, known, "trials", f"reported by {known} of {planned} trials" if known < planned else "")


# --- table and words ---------------------------------------------------------------------------------------------


def _columns(metric: TrialMetric | None, axis: Axis, edge: Collection[int]) -> tuple[TableColumn, ...]:
    """`edge`: the identities of the ends on the frontier of their panel."""
    unit = unit_of(metric.unit) if metric else "%"
    reporting = "trials that report it" if axis.column else "attempted tasks"
    return (
        *name_columns("panel", "source"),
        TableColumn("model", "agent model"),
        *name_columns("harness", "condition"),
        TableColumn(axis.key, axis.title, axis.unit, lambda end: end.x),
        TableColumn("told", reporting, read=lambda end: end.used and end.used.over),
        TableColumn("value", metric.key if metric else "completion", unit, lambda end: end.y),
        *interval_columns(unit, "spread"),
        TableColumn("passed", "passed", read=lambda end: end.counted[0]),
        TableColumn("scored", "scored", read=lambda end: end.counted[1]),
        TableColumn("planned", "planned", read=lambda end: end.counted[2]),
        TableColumn(
            "frontier",
            "on the frontier of its panel",
            read=lambda end: ("yes" if id(end) in edge else "no") if end.is_drawn else None,
        ),
    )


def _notes(axis: Axis, pairs: Sequence[ConditionPair], total: int) -> Iterator[str]:
    yield (
        "Hollow: the baseline. Filled: the condition. A dashed line joins the two of one model. The frontier goes "
        "over both; what is on it is marked in the table. Upright lines are 95 % intervals of the result: over "
        "replicates where there are two or more, else over ten trials or more."
    )
    ends = {(end.model, end.harness, end.condition, end.source): end for pair in pairs for end in pair.both}
    missing = sum(not end.is_drawn for end in ends.values())
    if missing:
        yield f"{missing} of {len(ends)} ends report no result or no {axis.title} above zero and are not drawn."
    if any(pair.own.source == "own runs" for pair in pairs) and not axis.column:
        yield (
            "Own runs: what all billed attempts in all phases, replays too, and the author's calls cost / trials that "
            "ended. It is that of whole runs for every metric, and unknown where the cost of anything is."
        )
    elif any(pair.own.source == "own runs" for pair in pairs):
        yield f"Own runs: the {axis.title} of the same trials as the result, all of an attempt that counted; no author calls."  # noqa: E501
    if axis.key == "turns":
        yield "Harnesses count turns differently: each has its own panel, its own axis and its own frontier."
    yield "SkillEvolBench's figure 7 is not published as numbers."
    yield from note_left_out(total, "a condition")


def _absent(axis: Axis, anything: bool) -> str:
    if not anything:
        return "Choose runs, or lay published numbers over."
    other = " or ".join(each.title for each in AXES.values() if each is not axis)
    return f"No chosen run reports both a result and {axis.title} above zero. Choose {other}."


PAPER = "skillflow"
PUBLISHED_IN = "SkillFlow, Table 1"
BASELINE = "no-skill"
OURS = {"k tokens": 1000.0}  # units of the paper in ours


def write_usage(axis: Axis, value: float | None) -> str:
    if value is None:
        return f"{axis.title}: unknown"
    amount = f"{value:,.0f}" if axis.unit == "tokens" else f"{value:,.4g}"
    return f"{axis.title}: {amount} {axis.unit}"


def list_published_pairs(rows: Sequence[PrintedNumber], axis: Axis) -> Iterator[ConditionPair]:
    """SkillFlow's Table 1: every model vanilla and with evolving skills.
    No paper prints what an attempted task cost."""
    if not axis.column:
        return
    printed = {
        (row.harness, row.model, row.condition, row.metric): row
        for row in rows
        if row.paper == PAPER and row.table == "Table 1" and not row.group
    }
    for harness, model, condition, metric in printed:
        if metric == "completion" and condition != BASELINE:
            panel = f"{condition} · {harness} · published" if axis.key == "turns" else f"{condition} · published"
            base, own = (
                _build_printed_end(printed, panel, (harness, model, code), axis) for code in (BASELINE, condition)
            )
            yield ConditionPair(base, own)


def _build_printed_end(
    printed: Mapping[tuple[str, str, str, str], PrintedNumber], panel: str, place: tuple[str, str, str], axis: Axis
) -> PairEnd:
    harness, model, condition = place
    reached, used = printed.get((*place, "completion")), printed.get((*place, axis.key))
    x = used.value * OURS.get(used.unit, 1.0) if used and used.value is not None else None
    counts = f" ({reached.k}/{reached.n})" if reached and reached.k is not None else ""
    hover = lines(
        f"<b>{plain(model)}</b>, {plain(harness)}",
        plain(condition),
        f"completion {reached.printed} %{counts}" if reached else "completion not printed",
        write_usage(axis, x),
        f"published: {PUBLISHED_IN}",
    )
    y, counted = (reached.value, (reached.k, reached.n, reached.n)) if reached else (None, (None, None, None))
    return PairEnd(x, y, hover, "", None, panel, PUBLISHED_IN, model, harness, condition, None, counted)


CHART = Chart(
    key="efficiency",
    title="Success against cost",
    question="How much success for how much effort?",
    draw=draw,
    after="SkillEvolBench, figure 7; SkillFlow, figures 5, 9 and 10",
    uses_metric=True,
    papers=(PAPER,),
    options={"x": (FIRST_KNOWN, *AXES)},
    finding="{high} {most}; {low} {least}",
)
