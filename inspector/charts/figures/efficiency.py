"""Success against what it used: cost, cost per attempted task, output tokens or turns, in pairs from the baseline to a condition.

Source: SkillEvolBench, figure 7 (a panel per condition); SkillFlow, figures 5, 9 and 10. The frontier follows SkillFlow's
released code: over both ends of all pairs, less used and more solved first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from benchapp.papers.published_rows import PrintedNumber
from benchapp.stats.comparing.condition_names import SEPARATOR
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.shares import half_up
from benchapp.stats.metrics.catalogue import RUN_METRICS
from benchapp.stats.metrics.metric import Better, MetricUnit, RunValue, TrialMetric
from benchapp.stats.metrics.metric_names import name_metric
from inspector.charts.chart import Chart, ChartDrawing, ChartTable, TableColumn
from inspector.charts.contrast import Answer
from inspector.charts.drawing.arms import model_name
from inspector.charts.drawing.chart_pairs import ALL, Axis, ConditionPair, PairEnd, PairPanel, draw_pairs, frontier
from inspector.charts.drawing.gain import scale_value
from inspector.charts.drawing.panels import lines, note_left_out, plain
from inspector.charts.drawing.quantities import tokens, unit_of, write_interval
from inspector.charts.sheet import ChartSheet

AXES = {
    "cost": Axis("cost", "cost_usd", "agent cost per task", "USD", True),
    "cost_per_attempted": Axis("cost_per_attempted", "", "cost per attempted task", "USD", True),
    "tokens": Axis("tokens", "total_tokens", "tokens per task", "tokens", True),
    "output_tokens": Axis("output_tokens", "output_tokens", "output tokens per task", "tokens", True),
    "turns": Axis("turns", "turns", "turns per task", "turns", False),
}
FIRST_KNOWN = "first known"  # of the axes, in their order
NO_ENDS = (None, None)  # of an interval that there is none of
UNITS = {
    "cost_usd": MetricUnit.USD,
    "total_tokens": MetricUnit.TOKENS,
    "output_tokens": MetricUnit.TOKENS,
    "turns": MetricUnit.TURNS,
}


def draw(sheet: ChartSheet) -> ChartDrawing:
    axis, pairs = _chosen(sheet)
    table = _table(sheet.metric, axis, pairs)
    found: dict[str, list[MarkPair]] = {}
    for pair in pairs:
        found.setdefault(pair.own.panel, []).append(pair)
    drawn = [_panel(title, of) for title, of in found.items()]
    drawn = [panel for panel in drawn if panel.ends]
    if not drawn:
        return ChartDrawing(None, table, absent=_absent(axis, bool(pairs)))
    y_title = _y_title(sheet.metric, {pair.own.source for pair in pairs})
    answers = tuple(_answer(sheet.metric, axis, pairs)) if sheet.metric else ()
    notes = tuple(_notes(axis, pairs, len(drawn)))
    return ChartDrawing(
        lambda: draw_pairs(drawn, axis, y_title, share_x=axis.key != "turns"), table, notes, answers=answers
    )


def _answer(metric: TrialMetric, axis: Axis, pairs: Sequence[MarkPair]) -> Iterator[Answer]:
    """What each group reached, and for how much; both have to be alike for no contrast."""
    marks = {
        (mark.condition, mark.model, mark.harness): mark
        for pair in pairs
        for mark in pair.marks
        if mark.source == "own runs" and mark.end.stands
    }
    for mark in marks.values():
        assert mark.end.x is not None
        assert mark.end.y is not None
        who = SEPARATOR.join(
            part for part in (mark.condition, mark.model if len({key[1] for key in marks}) > 1 else "") if part
        )
        reached = f"{half_up(mark.end.y)}{' %' if metric.is_share else ''}"
        used = f"{tokens(mark.end.x) if axis.unit == 'tokens' else f'{mark.end.x:,.3g}'} {axis.unit}"
        yield Answer(who, mark.end.y, f"{reached} for {used}")


def _chosen(sheet: ChartSheet) -> tuple[Axis, list[MarkPair]]:
    """The axis asked for, else the first that these runs can stand on; the cost of a scripted or local model is unknown."""
    wanted = sheet.options.get("x", FIRST_KNOWN)
    axes = list(AXES.values()) if wanted == FIRST_KNOWN else [AXES[wanted]]
    for axis in axes:
        own, printed = list(_own(sheet, axis)), list(list_published_pairs(sheet.published, axis))
        if any(mark.end.stands for pair in own or printed for mark in pair.marks):
            return axis, [*own, *printed]
    axis = axes[0]
    return axis, [*_own(sheet, axis), *list_published_pairs(sheet.published, axis)]


def _panel(title: str, pairs: Sequence[MarkPair]) -> PairPanel:
    bases = {pair.base.condition for pair in pairs if pair.base}
    return PairPanel(title, bases.pop() if len(bases) == 1 else "baseline", title, tuple(pair.pair for pair in pairs))


# --- own runs ----------------------------------------------------------------------------------------------------


def _own(sheet: ChartSheet, axis: Axis) -> Iterator[MarkPair]:
    """A pair per group with a baseline; a single end for a group that has none and is none itself."""
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
        base = _mark(sheet, metric, axis, baseline, panel) if baseline else None
        yield MarkPair(base, _mark(sheet, metric, axis, group, panel))


def _mark(sheet: ChartSheet, metric: TrialMetric, axis: Axis, group: Group, panel: str) -> EfficiencyMark:
    """Both axes are means over the same trials, then over replicates; usage over the trials where it is known. Cost per
    attempted task is that of whole runs."""
    reached, used = sheet.comparison.cell(group, metric), _measure_use(sheet, metric, axis, group)
    y = None if reached.value is None else scale_value(metric, reached.value)
    ends = reached.spread
    around = (scale_value(metric, ends[0]), scale_value(metric, ends[1])) if ends else None
    name = model_name(group)
    counts = f"{reached.rate.passed}/{reached.rate.scored}" if metric.is_share else f"{reached.rate.scored} trials"
    hover = lines(
        f"<b>{plain(name)}</b>, {plain(group.harness)}",
        plain(group.condition),
        "no value"
        if y is None
        else f"{plain(metric.key)} {half_up(y, 1)}{' %' if metric.is_share else ''} ({counts}){write_interval(around) if metric.is_share else ''}",
        write_usage(axis, used.value),
        used.note,
        f"mean of {group.replicates} replicates" if group.replicates > 1 else "",
    )
    end = PairEnd(used.value, y, hover, sheet.trials_url(group, metric=metric), around)
    passed = reached.rate.passed if metric.is_share else None
    rest = (used.over, passed, reached.rate.scored, reached.rate.planned)
    return EfficiencyMark(panel, "own runs", name, group.harness, group.condition, end, *rest)


def _measure_use(sheet: ChartSheet, metric: TrialMetric, axis: Axis, group: Group) -> RunValue:
    if not axis.column:
        return sheet.comparison.run_value(group, RUN_METRICS["cost-per-attempted"])
    used = sheet.comparison.cell(group, _build_use_metric(metric, axis))
    told, planned = used.rate.scored, used.rate.planned
    return RunValue(used.value, told, "trials", f"reported by {told} of {planned} trials" if told < planned else "")


def _build_use_metric(metric: TrialMetric, axis: Axis) -> TrialMetric:
    """What the trials of this metric used."""
    return TrialMetric(
        f"{metric.key}/{axis.column}",
        axis.title,
        f"{axis.title}, over the trials of {metric.key}",
        metric.phases,
        metric.role,
        column=axis.column,
        unit=UNITS[axis.column],
        better=Better.LOWER,
        past_first=metric.past_first,
        instances=metric.instances,
        macro=metric.macro,
        corpora=metric.corpora,
    )


# --- table and words ---------------------------------------------------------------------------------------------


def _table(metric: TrialMetric | None, axis: Axis, pairs: Sequence[MarkPair]) -> ChartTable:
    best: dict[str, list[PairEnd]] = {}
    for pair in pairs:
        best.setdefault(pair.own.panel, []).extend(mark.end for mark in pair.marks)
    edge = {id(end) for ends in best.values() for end in frontier(ends)}

    def is_on_frontier(mark: EfficiencyMark) -> str | None:
        return ("yes" if id(mark.end) in edge else "no") if mark.end.stands else None

    columns = (
        TableColumn("panel", "panel"),
        TableColumn("source", "source"),
        TableColumn("model", "agent model"),
        TableColumn("harness", "harness"),
        TableColumn("condition", "condition"),
        TableColumn(axis.key, axis.title, axis.unit, lambda mark: mark.end.x),
        TableColumn(
            "told", "trials that report it" if axis.column else "attempted tasks", read=lambda mark: mark.known
        ),
        TableColumn(
            "value",
            metric.key if metric else "completion",
            unit_of(metric.unit) if metric else "%",
            lambda mark: mark.end.y,
        ),
        TableColumn(
            "low", "95 % from", unit_of(metric.unit) if metric else "%", lambda mark: (mark.end.spread or NO_ENDS)[0]
        ),
        TableColumn(
            "high", "to", unit_of(metric.unit) if metric else "%", lambda mark: (mark.end.spread or NO_ENDS)[1]
        ),
        TableColumn("passed", "passed"),
        TableColumn("scored", "scored"),
        TableColumn("planned", "planned"),
        TableColumn("frontier", "on the frontier of its panel", read=is_on_frontier),
    )
    return ChartTable.of(columns, (mark for pair in pairs for mark in pair.marks))


def _y_title(metric: TrialMetric | None, sources: set[str]) -> str:
    if metric is None or "own runs" not in sources:
        return "completion, %"
    also = " (published: completion)" if len(sources) > 1 and metric.key != "completion" else ""
    return f"{name_metric(metric).title}, {unit_of(metric.unit)}{also}"


def _notes(axis: Axis, pairs: Sequence[MarkPair], total: int) -> Iterator[str]:
    yield (
        "Hollow: the baseline. Filled: the condition. A dashed line joins the two of one model. The frontier goes over "
        "both; what is on it is marked in the table. Upright lines are 95 % intervals of the result: over replicates where "
        "there are two or more, else over ten trials or more."
    )
    marks = {(mark.model, mark.harness, mark.condition, mark.source): mark for pair in pairs for mark in pair.marks}
    missing = sum(not mark.end.stands for mark in marks.values())
    if missing:
        yield f"{missing} of {len(marks)} ends report no result or no {axis.title} above zero and are not drawn."
    if any(pair.own.source == "own runs" for pair in pairs) and not axis.column:
        yield (
            "Own runs: what all billed attempts in all phases, replays too, and the author's calls cost / trials that ended. It is "
            "that of whole runs for every metric, and unknown where the cost of anything is."
        )
    elif any(pair.own.source == "own runs" for pair in pairs):
        yield f"Own runs: the {axis.title} of the same trials as the result, all of an attempt that counted; no author calls."
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
BASELINE = "no-skill"
OURS = {"k tokens": 1000.0}  # units of the paper in ours


@dataclass(frozen=True, slots=True)
class EfficiencyMark:
    """One end with its place in the table."""

    panel: str
    source: str
    model: str
    harness: str
    condition: str
    end: PairEnd
    known: int | None = None  # trials that tell what they used, or were attempted
    passed: int | None = None
    scored: int | None = None
    planned: int | None = None

    @property
    def url(self) -> str:
        return self.end.url


@dataclass(frozen=True, slots=True)
class MarkPair:
    """The baseline's end and the condition's own of one model, with their rows of the table."""

    base: EfficiencyMark | None
    own: EfficiencyMark

    @property
    def marks(self) -> list[EfficiencyMark]:
        return [mark for mark in (self.base, self.own) if mark is not None]

    @property
    def pair(self) -> ConditionPair:
        return ConditionPair(
            self.own.model,
            self.own.harness,
            self.base.end if self.base else None,
            self.own.end,
            self.own.condition,
        )


def write_usage(axis: Axis, value: float | None) -> str:
    if value is None:
        return f"{axis.title}: unknown"
    amount = f"{value:,.0f}" if axis.unit == "tokens" else f"{value:,.4g}"
    return f"{axis.title}: {amount} {axis.unit}"


def list_published_pairs(rows: Sequence[PrintedNumber], axis: Axis) -> Iterator[MarkPair]:
    """SkillFlow's Table 1: every model vanilla and with evolving skills. No paper prints what an attempted task cost."""
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
            place = panel, "SkillFlow, Table 1", model, harness
            yield MarkPair(
                _build_printed_mark(printed, place, BASELINE, axis),
                _build_printed_mark(printed, place, condition, axis),
            )


def _build_printed_mark(
    printed: Mapping[tuple[str, str, str, str], PrintedNumber],
    place: tuple[str, str, str, str],
    condition: str,
    axis: Axis,
) -> EfficiencyMark:
    _, source, model, harness = place
    reached = printed.get((harness, model, condition, "completion"))
    used = printed.get((harness, model, condition, axis.key))
    x = used.value * OURS.get(used.unit, 1.0) if used and used.value is not None else None
    y = reached.value if reached else None
    counts = f" ({reached.k}/{reached.n})" if reached and reached.k is not None else ""
    hover = lines(
        f"<b>{plain(model)}</b>, {plain(harness)}",
        plain(condition),
        f"completion {reached.printed} %{counts}" if reached else "completion not printed",
        write_usage(axis, x),
        f"published: {source}",
    )
    counted = (reached.k, reached.n, reached.n) if reached else (None, None, None)
    return EfficiencyMark(*place, condition, PairEnd(x, y, hover), None, *counted)


CHART = Chart(
    key="efficiency",
    title="Success against cost",
    question="How much success for how much effort?",
    draw=draw,
    after="SkillEvolBench, figure 7; SkillFlow, figures 5, 9 and 10",
    uses_metric=True,
    published=(PAPER,),
    options={"x": (FIRST_KNOWN, *AXES)},
    finding="{high} {most}; {low} {least}",
)
