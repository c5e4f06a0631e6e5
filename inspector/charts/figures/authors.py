"""Who wrote the skills: methods by author models as a matrix, and what a larger author brings for its tokens.

Sources: SkillGenBench, figure 7 (pass@3 of methods and backbones, one executor); SkillLearnBench, figure 5 (accuracy
and tokens by the size of the model that wrote the skills).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchapp.papers.published_rows import MEAN_OF_MODELS, PrintedNumber
from benchapp.stats.comparing.condition_names import say_label
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.shares import Rate, half_up
from benchapp.stats.metrics.metric import MetricUnit, TrialMetric
from benchapp.stats.metrics.run_metrics import RunValue, mean_of
from benchapp.stats.metrics.spending import Spending, spending_of
from inspector.charts.chart import Answer, Chart, ChartDrawing, ChartTable, TableColumn, interval_columns, name_columns
from inspector.charts.drawing.arms import model_name, name_apart
from inspector.charts.drawing.chart_pairs import Axis, ConditionPair, PairEnd, PairPanel, draw_pairs
from inspector.charts.drawing.panels import MAX_PANELS, Heat, HeatCell, Heats, Scale, lines, note_left_out, plain
from inspector.charts.drawing.quantities import in_percent, scale_cell, unit_of, write_interval, write_value
from inspector.charts.sheet import ChartSheet, lacks_authors
from runner.base.text import plural

NOBODY = "no author"
# Paper -> (table, metric) whose cells are methods by author models.
PRINTED: Mapping[str, tuple[str, str]] = {
    "skillgenbench": ("Text", "pass@3"),
    "skilllearnbench": ("Table 2", "accuracy"),
}
TITLES = {"skillgenbench": "SkillGenBench, appendix A.1", "skilllearnbench": "SkillLearnBench, Table 2"}


@dataclass(frozen=True, slots=True)
class Written(HeatCell):
    """The groups of one method and one author in one panel; of a paper, what it prints."""

    panel: str = ""
    source: str = ""
    condition: str = ""
    author: str = ""
    rate: Rate | None = None
    runs: int | None = None
    groups: int | None = None


def draw_matrix(sheet: ChartSheet) -> ChartDrawing:
    metric = sheet.metric
    own = list(_list_own(sheet, metric)) if metric else []
    rows = [*own, *(_list_printed(sheet.printed) if metric is None or metric.is_share or not own else ())]
    unit = unit_of(metric.unit) if metric and own else "%"
    table = ChartTable.of(_name_columns(metric, unit), rows)
    if not any(row.value is not None for row in rows):
        absent = "No method here was written by several models, or none of its trials is scored."
        return ChartDrawing(None, table, absent=absent)
    titles = list(dict.fromkeys(row.panel for row in rows))
    heats = [
        Heat(title, {(row.condition, row.author): row for row in rows if row.panel == title})
        for title in titles[:MAX_PANELS]
    ]
    conditions = list(dict.fromkeys(row.condition for row in rows))
    authors = sorted({row.author for row in rows}, key=lambda author: (author != NOBODY, author.casefold()))
    of_hundred = metric is None or metric.is_share or metric.unit is MetricUnit.OF_HUNDRED
    most = 100 if of_hundred else max(row.value or 0 for row in rows) or 1
    scale = Scale(0, most, diverging=False, unit=unit)
    picture = Heats(heats, conditions, authors, scale, across=2 if len(authors) < 6 else 1)
    answers = tuple(
        Answer(row.author, row.value, row.text, say_label(row.condition))
        for row in own
        if row.value is not None and row.author != NOBODY
    )
    notes = (*_note_matrix(own), *note_left_out(len(titles), "an agent model"))
    return ChartDrawing(picture, table, notes, answers=answers)


def _name_columns(metric: TrialMetric | None, unit: str) -> tuple[TableColumn, ...]:
    is_share = metric is not None and metric.is_share
    return (
        *name_columns("panel", "source", "condition", "author"),
        TableColumn("value", metric.key if metric else "value", unit),
        TableColumn("passed", "passed", read=lambda row: row.rate.passed if row.rate and is_share else None),
        TableColumn("scored", "scored", read=lambda row: row.rate and row.rate.scored),
        TableColumn("planned", "planned", read=lambda row: row.rate and row.rate.planned),
        *name_columns("runs", "groups"),
    )


def _list_own(sheet: ChartSheet, metric: TrialMetric) -> Iterator[Written]:
    """The panels where several models wrote some method, and there also what nobody wrote."""
    members: dict[tuple[str, ...], dict[tuple[str, str], list[Group]]] = {}
    for group in sheet.groups:
        of_panel = members.setdefault(_place(group), {})
        of_panel.setdefault((group.condition, group.first.author or NOBODY), []).append(group)
    for title, found in zip(name_apart([*members]), members.values(), strict=True):
        written = [condition for condition, author in found if author != NOBODY]
        if len(set(written)) < len(written):
            yield from (_build_own(sheet, metric, title, place, groups) for place, groups in found.items())


def _place(group: Group) -> tuple[str, ...]:
    """What has to be the same inside a panel: agent model, harness, suite and setting."""
    experiment = group.first.experiment
    suite = experiment.suite.key if experiment.suite else ""
    return model_name(group), group.harness, suite, str(experiment.spec.get("protocol", ""))


def _build_own(
    sheet: ChartSheet, metric: TrialMetric, panel: str, place: tuple[str, str], groups: Sequence[Group]
) -> Written:
    condition, author = place
    cells = [sheet.comparison.cell(group, metric) for group in groups]
    values = [value for cell in cells if (value := scale_cell(cell)[0]) is not None]
    rate = sum((cell.rate for cell in cells), Rate())
    runs = sum(group.replicates for group in groups)
    head = lines(plain(panel), f"<b>{plain(condition)}</b>, written by {plain(author)}")
    facts = panel, "own runs", condition, author, rate, runs, len(groups)
    if not values:
        hover = lines(head, f"none of {rate.planned} {metric.counted} has a value")
        return Written(None, "", hover, "", *facts)
    value = fmean(values)
    interval = write_interval(in_percent(cells[0].spread)) if len(cells) == 1 and metric.is_share else ""
    text = f"{half_up(value, 1)}" if metric.is_share else write_value(value, metric.unit)
    reached = f"{text} % ({rate.passed}/{rate.scored}" if metric.is_share else f"{text} ({rate.scored}"
    hover = lines(
        head,
        f"{plain(metric.key)} {reached} {metric.counted}){interval}",
        f"mean of {plural(len(values), 'group')}" if len(groups) > 1 else "",
        plural(runs, "run"),
    )
    url = sheet.trials_url(groups[0], metric=metric) if len(groups) == 1 else ""
    return Written(value, text, hover, url, *facts)


def _list_printed(rows: Sequence[PrintedNumber]) -> Iterator[Written]:
    for row in rows:
        wanted = PRINTED.get(row.paper) == (row.table, row.metric) and row.condition and row.model and not row.group
        if wanted and row.value is not None and not row.model.startswith(MEAN_OF_MODELS):
            panel = f"{TITLES[row.paper]} · published"
            who = f"<b>{plain(row.condition)}</b>, written by {plain(row.model)}"
            hover = lines(plain(panel), who, f"{row.printed} %")
            yield Written(row.value, row.printed, hover, "", panel, TITLES[row.paper], row.condition, row.model)


def _note_matrix(own: Sequence[Written]) -> Iterator[str]:
    yield (
        "Rows are methods, columns the models that wrote the skills; the agent that uses them is the same in a panel. "
        "A cell is the mean over its replicates. Nothing is tested."
    )
    values: dict[str, list[float]] = {}
    for row in own:
        found = values.setdefault(row.condition, [])
        if row.value is not None:
            found.append(row.value)
    spans = [
        f"{condition} {half_up(min(found), 1)} to {half_up(max(found), 1)}"
        for condition, found in values.items()
        if len(found) > 1
    ]
    if spans and len({row.panel for row in own}) == 1:
        yield f"From the lowest to the highest author: {'; '.join(spans)}."
    yield "SkillGenBench's figure 7 is not published as numbers; its text prints five of its 30 cells."


MATRIX_CHART = Chart(
    key="authors",
    title="Methods and author models",
    question="Does it depend on who writes the skills?",
    draw=draw_matrix,
    lacks=lacks_authors,
    after="SkillGenBench, figure 7",
    finding="{what}: {most} written by {high}; {least} by {low}",
    uses_metric=True,
    papers=tuple(PRINTED),
)


# --- what an author brings for its tokens ---------------------------------------------------------------------------

AXES = {
    "author": Axis("author_tokens", "", "used by the author per run", "tokens", True),
    "solving": Axis("solving_tokens", "total_tokens", "used for solving per task", "tokens", True),
}
SCALE_COLUMNS = (
    *name_columns("panel", "source", "condition"),
    TableColumn("author", "author", read=lambda end: end.model),
    TableColumn("tokens", "tokens", "tokens", lambda end: end.x),
    TableColumn("over", "reported by", read=lambda end: end.used.over),
    TableColumn("of", "of", read=lambda end: end.used.of),
    TableColumn("value", "result", read=lambda end: end.y),
    *interval_columns("", "spread"),
    TableColumn("note", "note", read=lambda end: end.used.note),
)


def draw_scale(sheet: ChartSheet) -> ChartDrawing:
    axis, metric = AXES[sheet.options.get("x", "author")], sheet.metric
    own = list(_scale_own(sheet, metric, axis)) if metric else []
    rows = [*own, *_scale_printed(sheet.printed, axis)]
    table = ChartTable.of(SCALE_COLUMNS, rows)
    drawn = [end for end in rows if end.is_drawn]
    if not drawn:
        absent = f"No method here was written by several models that report the tokens {axis.title}."
        return ChartDrawing(None, table, absent=absent)
    titles = list(dict.fromkeys(end.panel for end in drawn))
    panels = [
        PairPanel(title, NOBODY, tuple(ConditionPair(None, end) for end in drawn if end.panel == title))
        for title in titles
    ]
    y_title = f"{metric.key}, {unit_of(metric.unit)}" if metric and own else "accuracy, %"
    answers = tuple(
        Answer(end.model, end.y, f"{half_up(end.y, 1)}", end.panel) for end in own if end.is_drawn and end.y is not None
    )
    notes = (*_note_scale(rows, axis), *note_left_out(len(titles), "a condition"))
    return ChartDrawing(lambda: draw_pairs(panels, axis, y_title, share_x=True), table, notes, answers=answers)


def _scale_own(sheet: ChartSheet, metric: TrialMetric, axis: Axis) -> Iterator[PairEnd]:
    """Of every method that several models wrote for one agent."""
    members: dict[tuple[str, ...], list[Group]] = {}
    for group in sheet.groups:
        if group.first.author:
            members.setdefault((group.condition, *_place(group)), []).append(group)
    members = {place: groups for place, groups in members.items() if len({group.author_model for group in groups}) > 1}
    wanted = [run for groups in members.values() for group in groups for run in group.runs]
    spent = spending_of(wanted, sheet.comparison.choices.as_of) if wanted else {}
    for panel, groups in zip(name_apart([*members]), members.values(), strict=True):
        for group in groups:
            bills, author = [spent[run.pk].author for run in group.runs], group.first.author
            used = _measure_solving(sheet, group, metric) if axis.column else mean_of([*map(_count_author, bills)])
            y, around = scale_cell(sheet.comparison.cell(group, metric))
            hover = lines(
                f"<b>{plain(author)}</b> wrote {plain(group.condition)}",
                "no value" if y is None else f"{plain(metric.key)} {half_up(y, 1)}{' %' if metric.is_share else ''}",
                f"{axis.title}: unknown" if used.value is None else f"{axis.title}: {used.value:,.0f} tokens",
                used.note,
            )
            url = sheet.trials_url(group, metric=metric)
            place = panel, "own runs", author, "author", group.condition
            yield PairEnd(used.value, y, hover, url, around, *place, used)


def _count_author(spent: Spending) -> RunValue:
    if not spent.things:
        return RunValue(None, note="no author was asked")
    missing = spent.things - spent.tokens_known
    note = f"{missing} of {spent.things} calls report no tokens" if missing else ""
    return RunValue(spent.whole_tokens, spent.tokens_known, "calls", note)


def _measure_solving(sheet: ChartSheet, group: Group, metric: TrialMetric) -> RunValue:
    """Input and output tokens over the trials of the metric."""
    known = [outcomes.column("total_tokens")[metric.mask(outcomes)] for outcomes in sheet.comparison.of_group(group)]
    values = [[float(value) for value in each if value == value] for each in known]
    means = [RunValue(fmean(each) if each else None, len(each), "trials") for each in values]
    return mean_of(means)


def _scale_printed(rows: Sequence[PrintedNumber], axis: Axis) -> Iterator[PairEnd]:
    """SkillLearnBench's Table 2: accuracy and solving tokens of each method and author.
    No paper prints its authors' tokens."""
    if not axis.column:
        return
    printed = {
        (row.condition, row.model, row.metric): row
        for row in rows
        if (row.paper, row.table) == ("skilllearnbench", "Table 2") and not row.model.startswith(MEAN_OF_MODELS)
    }
    for condition, model, metric in printed:
        used, reached = (printed.get((condition, model, name)) for name in ("tokens", "accuracy"))
        if metric == "accuracy" and model and used and reached and used.value is not None:
            who, x = f"<b>{plain(model)}</b> wrote {plain(condition)}", 1000 * used.value
            hover = lines(who, f"accuracy {reached.printed} %", used.printed)
            place = f"{condition} · published", TITLES["skilllearnbench"], model, "author", condition
            yield PairEnd(x, reached.value, hover, "", None, *place, RunValue(x))


def _note_scale(rows: Sequence[PairEnd], axis: Axis) -> Iterator[str]:
    what = "input and output tokens of the trials of the metric" if axis.column else "all calls of the author in a run"
    yield f"A point is a model that wrote the skills; the agent that uses them is the same in a panel. Across: {what}. Nothing is tested."  # noqa: E501
    missing = sum(not end.is_drawn for end in rows)
    if missing:
        yield f"{missing} of {len(rows)} authors report no result or no tokens {axis.title} and are not drawn; the table says why."  # noqa: E501
    yield "How large a model is, the record does not say: the points have names, and no order."


SCALE_CHART = Chart(
    key="author-scale",
    title="Author and tokens",
    question="Does a larger author write better skills?",
    draw=draw_scale,
    lacks=lacks_authors,
    after="SkillLearnBench, figure 5",
    finding="{what}: {most} written by {high}; {least} by {low}",
    uses_metric=True,
    papers=("skilllearnbench",),
    options={"x": tuple(AXES)},
)
