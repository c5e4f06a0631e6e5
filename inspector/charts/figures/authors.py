"""Who wrote the skills: methods by author models as a matrix, and what a larger author brings for its tokens.

Sources: SkillGenBench, figure 7 (pass@3 of methods and backbones, one executor); SkillLearnBench, figure 5 (accuracy and tokens
by the size of the model that wrote the skills).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

from benchapp.papers.published_rows import MEAN_OF_MODELS, PrintedNumber
from benchapp.stats.comparing.condition_names import say_label
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.shares import half_up
from benchapp.stats.metrics.metric import MetricUnit, RunValue, TrialMetric, mean_of
from benchapp.stats.metrics.rates import Rate
from benchapp.stats.metrics.spending import Spending, spending_of
from inspector.charts.chart import Chart, ChartDrawing, ChartTable, TableColumn
from inspector.charts.contrast import Answer
from inspector.charts.drawing.arms import model_name
from inspector.charts.drawing.chart_pairs import Axis, ConditionPair, PairEnd, PairPanel, draw_pairs
from inspector.charts.drawing.gain import scale_value
from inspector.charts.drawing.panels import MAX_PANELS, Heat, HeatCell, Heats, Scale, lines, note_left_out, plain
from inspector.charts.drawing.quantities import plural, unit_of, write_interval, write_value
from inspector.charts.lacking import lacks_authors
from inspector.charts.sheet import ChartSheet

NOBODY = "no author"
# Paper -> (table, metric) whose cells are methods by author models.
PRINTED: Mapping[str, tuple[str, str]] = {
    "skillgenbench": ("Text", "pass@3"),
    "skilllearnbench": ("Table 2", "accuracy"),
}
TITLES = {"skillgenbench": "SkillGenBench, appendix A.1", "skilllearnbench": "SkillLearnBench, Table 2"}


@dataclass(frozen=True, slots=True)
class Written:
    """The groups of one method and one author in one panel; of a paper, what it prints. `value` as shown."""

    panel: str
    source: str
    condition: str
    author: str
    value: float | None
    text: str
    hover: str
    url: str = ""
    rate: Rate | None = None
    runs: int | None = None
    groups: int | None = None

    @property
    def cell(self) -> HeatCell:
        return HeatCell(self.value, self.text, self.hover, self.url)


def draw_matrix(sheet: ChartSheet) -> ChartDrawing:
    metric = sheet.metric
    own = list(_list_own(sheet, metric)) if metric else []
    cells = [*own, *(_list_printed(sheet.published) if metric is None or metric.is_share or not own else ())]
    unit = unit_of(metric.unit) if metric and own else "%"
    table = ChartTable.of(_name_columns(metric, unit), cells)
    if not any(cell.value is not None for cell in cells):
        return ChartDrawing(
            None, table, absent="No method here was written by several models, or none of its trials is scored."
        )
    titles = list(dict.fromkeys(cell.panel for cell in cells))
    heats = [
        Heat(title, {(cell.condition, cell.author): cell.cell for cell in cells if cell.panel == title})
        for title in titles[:MAX_PANELS]
    ]
    rows = list(dict.fromkeys(cell.condition for cell in cells))
    authors = sorted({cell.author for cell in cells}, key=lambda author: (author != NOBODY, author.casefold()))
    picture = Heats(heats, rows, authors, _scale(metric, unit, cells), across=2 if len(authors) < 6 else 1)
    answers = tuple(
        Answer(cell.author, cell.value, cell.text, say_label(cell.condition))
        for cell in own
        if cell.value is not None and cell.author != NOBODY
    )
    notes = (*_note_matrix(own), *note_left_out(len(titles), "an agent model"))
    return ChartDrawing(picture, table, notes, answers=answers)


def _name_columns(metric: TrialMetric | None, unit: str) -> tuple[TableColumn, ...]:
    return (
        TableColumn("panel", "panel"),
        TableColumn("source", "source"),
        TableColumn("condition", "condition"),
        TableColumn("author", "author"),
        TableColumn("value", metric.key if metric else "value", unit),
        TableColumn(
            "passed", "passed", read=lambda row: row.rate.passed if row.rate and metric and metric.is_share else None
        ),
        TableColumn("scored", "scored", read=lambda row: row.rate and row.rate.scored),
        TableColumn("planned", "planned", read=lambda row: row.rate and row.rate.planned),
        TableColumn("runs", "runs"),
        TableColumn("groups", "groups"),
    )


def _scale(metric: TrialMetric | None, unit: str, cells: Sequence[Written]) -> Scale:
    if metric is None or metric.is_share or metric.unit is MetricUnit.OF_HUNDRED:
        return Scale(0, 100, diverging=False, unit=unit)
    return Scale(0, max((cell.value or 0 for cell in cells), default=1) or 1, diverging=False, unit=unit)


def _list_own(sheet: ChartSheet, metric: TrialMetric) -> Iterator[Written]:
    """Of the panels in which some method was written by several models; there also what nobody wrote."""
    members: dict[tuple[str, ...], dict[tuple[str, str], list[Group]]] = {}
    for group in sheet.groups:
        of_panel = members.setdefault(_place(group), {})
        of_panel.setdefault((group.condition, group.first.author or NOBODY), []).append(group)
    told = [place for place in range(4) if place == 0 or len({facts[place] for facts in members}) > 1]
    for facts, found in members.items():
        if has_several_authors(found):
            title = " · ".join(filter(None, (facts[place] for place in told)))
            yield from (_build_own(sheet, metric, title, place, groups) for place, groups in found.items())


def _place(group: Group) -> tuple[str, ...]:
    """What has to be the same inside a panel: who solves, in which harness, which tasks, and in which setting."""
    experiment = group.first.experiment
    suite = experiment.suite.key if experiment.suite else ""
    return model_name(group), group.harness, suite, str(experiment.spec.get("protocol", ""))


def has_several_authors(found: Mapping[tuple[str, str], object]) -> bool:
    """`found` by (condition, author)."""
    written = [condition for condition, author in found if author != NOBODY]
    return len(set(written)) < len(written)


def _build_own(
    sheet: ChartSheet, metric: TrialMetric, panel: str, place: tuple[str, str], groups: Sequence[Group]
) -> Written:
    condition, author = place
    cells = [sheet.comparison.cell(group, metric) for group in groups]
    values = [scale_value(metric, cell.value) for cell in cells if cell.value is not None]
    rate = sum((cell.rate for cell in cells), Rate())
    runs = sum(group.replicates for group in groups)
    head = lines(f"{plain(panel)}", f"<b>{plain(condition)}</b>, written by {plain(author)}")
    counts = f"{rate.passed}/{rate.scored} {metric.counted}" if metric.is_share else f"{rate.scored} {metric.counted}"
    if not values:
        hover = lines(head, f"none of {rate.planned} {metric.counted} has a value")
        return Written(panel, "own runs", condition, author, None, "", hover, "", rate, runs, len(groups))
    value = fmean(values)
    around = cells[0].spread if len(cells) == 1 and metric.is_share else None
    interval = write_interval((100 * around[0], 100 * around[1]) if around else None)
    text = f"{half_up(value, 1)}" if metric.is_share else write_value(value, metric.unit)
    unit = " %" if metric.is_share else ""
    said = f"{plain(metric.key)} {text}{unit} ({counts}){interval}"
    hover = lines(head, said, f"mean of {plural(len(values), 'group')}" if len(groups) > 1 else "", plural(runs, "run"))
    url = sheet.trials_url(groups[0], metric=metric) if len(groups) == 1 else ""
    return Written(panel, "own runs", condition, author, value, text, hover, url, rate, runs, len(groups))


def _list_printed(rows: Sequence[PrintedNumber]) -> Iterator[Written]:
    for row in rows:
        wanted = PRINTED.get(row.paper) == (row.table, row.metric) and row.condition and row.model and not row.group
        if wanted and row.value is not None and not row.model.startswith(MEAN_OF_MODELS):
            panel = f"{TITLES[row.paper]} · published"
            hover = lines(
                plain(panel), f"<b>{plain(row.condition)}</b>, written by {plain(row.model)}", f"{row.printed} %"
            )
            yield Written(panel, TITLES[row.paper], row.condition, row.model, row.value, row.printed, hover)


def _note_matrix(own: Sequence[Written]) -> Iterator[str]:
    spans = [
        text for condition in dict.fromkeys(cell.condition for cell in own) if (text := _write_span(own, condition))
    ]
    yield (
        "Rows are methods, columns the models that wrote the skills; the agent that uses them is the same in a panel. A cell is the mean "
        "over its replicates. Nothing is tested."
    )
    if spans:
        yield f"From the lowest to the highest author: {'; '.join(spans)}."
    yield "SkillGenBench's figure 7 is not published as numbers; its text prints five of its 30 cells."


def _write_span(cells: Sequence[Written], condition: str) -> str:
    """Empty of a method with fewer than two authors, and where there are several panels."""
    values = [cell.value for cell in cells if cell.condition == condition and cell.value is not None]
    if len(values) < 2 or len({cell.panel for cell in cells}) > 1:
        return ""
    return f"{condition} {half_up(min(values), 1)} to {half_up(max(values), 1)}"


MATRIX_CHART = Chart(
    key="authors",
    title="Methods and author models",
    question="Does it depend on who writes the skills?",
    draw=draw_matrix,
    lacks=lacks_authors,
    after="SkillGenBench, figure 7",
    finding="{what}: {most} written by {high}; {least} by {low}",
    uses_metric=True,
    published=tuple(PRINTED),
)


# --- what an author brings for its tokens ---------------------------------------------------------------------------------

AXES = {
    "author": Axis("author_tokens", "", "used by the author per run", "tokens", True),
    "solving": Axis("solving_tokens", "total_tokens", "used for solving per task", "tokens", True),
}
SCALE_COLUMNS = (
    TableColumn("panel", "panel"),
    TableColumn("source", "source"),
    TableColumn("condition", "condition"),
    TableColumn("author", "author"),
    TableColumn("tokens", "tokens", "tokens", lambda row: row.end.x),
    TableColumn("over", "reported by", read=lambda row: row.used.over),
    TableColumn("of", "of", read=lambda row: row.used.of),
    TableColumn("value", "result", read=lambda row: row.end.y),
    TableColumn("low", "95 % from", read=lambda row: row.end.spread and row.end.spread[0]),
    TableColumn("high", "to", read=lambda row: row.end.spread and row.end.spread[1]),
    TableColumn("note", "note", read=lambda row: row.used.note),
)


@dataclass(frozen=True, slots=True)
class Scaled:
    """One author model under one method: what was reached, and with how many tokens."""

    panel: str
    source: str
    condition: str
    author: str
    end: PairEnd
    used: RunValue

    @property
    def url(self) -> str:
        return self.end.url


def draw_scale(sheet: ChartSheet) -> ChartDrawing:
    axis, metric = AXES[sheet.options.get("x", "author")], sheet.metric
    own = list(_scale_own(sheet, metric, axis)) if metric else []
    rows = [*own, *_scale_printed(sheet.published, axis)]
    table = ChartTable.of(SCALE_COLUMNS, rows)
    standing = [row for row in rows if row.end.stands]
    if not standing:
        absent = f"No method here was written by several models that report the tokens {axis.title}."
        return ChartDrawing(None, table, absent=absent)
    titles = list(dict.fromkeys(row.panel for row in standing))
    panels = [
        PairPanel(title, NOBODY, title, tuple(_pair(row) for row in standing if row.panel == title)) for title in titles
    ]
    y_title = f"{metric.key}, {unit_of(metric.unit)}" if metric and own else "accuracy, %"
    answers = tuple(
        Answer(row.author, row.end.y, f"{half_up(row.end.y, 1)}", row.panel)
        for row in own
        if row.end.stands and row.end.y is not None
    )
    notes = (*_note_scale(rows, axis), *note_left_out(len(titles), "a condition"))
    return ChartDrawing(lambda: draw_pairs(panels, axis, y_title, share_x=True), table, notes, answers=answers)


def _pair(row: Scaled) -> ConditionPair:
    return ConditionPair(row.author, "author", None, row.end, row.condition)


def _scale_own(sheet: ChartSheet, metric: TrialMetric, axis: Axis) -> Iterator[Scaled]:
    """Of every method that several models wrote for one agent."""
    members: dict[tuple[str, ...], list[Group]] = {}
    for group in sheet.groups:
        if group.first.author:
            members.setdefault((group.condition, *_place(group)), []).append(group)
    members = {place: groups for place, groups in members.items() if len({group.author_model for group in groups}) > 1}
    told = [place for place in range(5) if place == 0 or len({facts[place] for facts in members}) > 1]
    wanted = [run for groups in members.values() for group in groups for run in group.runs]
    spent = spending_of(wanted, sheet.comparison.choices.as_of) if wanted else {}
    for facts, groups in members.items():
        panel = " · ".join(filter(None, (facts[place] for place in told)))
        for group in groups:
            bills = [spent[run.pk].author for run in group.runs]
            used = _measure_solving(sheet, group, metric) if axis.column else mean_of([*map(_count_author, bills)])
            yield _build_scaled(sheet, metric, axis, panel, group, used)


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


def _build_scaled(
    sheet: ChartSheet, metric: TrialMetric, axis: Axis, panel: str, group: Group, used: RunValue
) -> Scaled:
    reached, author = sheet.comparison.cell(group, metric), group.first.author
    y = None if reached.value is None else scale_value(metric, reached.value)
    ends = reached.spread
    around = (scale_value(metric, ends[0]), scale_value(metric, ends[1])) if ends else None
    hover = lines(
        f"<b>{plain(author)}</b> wrote {plain(group.condition)}",
        "no value" if y is None else f"{plain(metric.key)} {half_up(y, 1)}{' %' if metric.is_share else ''}",
        f"{axis.title}: unknown" if used.value is None else f"{axis.title}: {used.value:,.0f} tokens",
        used.note,
    )
    end = PairEnd(used.value, y, hover, sheet.trials_url(group, metric=metric), around)
    return Scaled(panel, "own runs", group.condition, author, end, used)


def _scale_printed(rows: Sequence[PrintedNumber], axis: Axis) -> Iterator[Scaled]:
    """SkillLearnBench's Table 2: accuracy and solving tokens of each method and author. No paper prints its authors' tokens."""
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
            panel = f"{condition} · published"
            hover = lines(
                f"<b>{plain(model)}</b> wrote {plain(condition)}", f"accuracy {reached.printed} %", used.printed
            )
            end = PairEnd(1000 * used.value, reached.value, hover)
            yield Scaled(panel, TITLES["skilllearnbench"], condition, model, end, RunValue(end.x))


def _note_scale(rows: Sequence[Scaled], axis: Axis) -> Iterator[str]:
    what = (
        "all calls of the author in a run" if not axis.column else "input and output tokens of the trials of the metric"
    )
    yield f"A point is a model that wrote the skills; the agent that uses them is the same in a panel. Across: {what}. Nothing is tested."
    missing = sum(not row.end.stands for row in rows)
    if missing:
        yield f"{missing} of {len(rows)} authors report no result or no tokens {axis.title} and are not drawn; the table says why."
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
    published=("skilllearnbench",),
    options={"x": tuple(AXES)},
)
