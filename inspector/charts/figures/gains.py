"""Where a condition gains or loses against its baseline, by environment, family or group of tasks, and against
raw-trajectory.

Sources: SkillFlow, figures 6 and 11 (the cell of an environment or a group is the plain mean of its families'
differences, as its released code computes a domain's); SkillEvolBench, figure 4 (a heatmap per model, percentage
points, blank where there is nothing to compare: did distilling experience into skills keep what the traces held?).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean

import numpy as np

from benchapp.papers.published_rows import PrintedNumber
from benchapp.stats.comparing.comparison import GroupComparison
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.shares import half_up
from benchapp.stats.inference.sides import Paired, pair
from benchapp.stats.metrics.amounts import render_signed
from benchapp.stats.metrics.catalogue import name_metric
from benchapp.stats.metrics.metric import Better, TrialMetric
from benchapp.stats.metrics.outcomes import Mask
from benchapp.stats.metrics.splits import PLACES, Split, name_attribute
from inspector.charts.chart import BY, Answer, Chart, ChartDrawing, ChartTable, TableColumn
from inspector.charts.drawing.arms import ModelPanel, arms_of, names_of
from inspector.charts.drawing.panels import MAX_PANELS, Heat, HeatCell, Heats, Scale, lines, note_left_out, plain
from inspector.charts.drawing.places import (
    SuitePlace,
    count_parts,
    note_split,
    read_environments,
    read_families,
    read_parts,
)
from inspector.charts.drawing.quantities import difference_unit, say_unit, scale_value, unit_of, write_difference
from inspector.charts.sheet import RAW, ChartSheet, lacks_raw_traces

MAX_GROUPS = 40  # rows by environment, columns by family
MAX_ACROSS = 12  # groups of tasks side by side; more are listed below each other, as families are
MAX_PLACES = 200
AT_LEAST = {True: 10.0, False: 0.0}  # of a share: the colours reach at least ten points
NOT_PUBLISHED = "The paper's own figures are not published as numbers."
NONE = SuitePlace("", "no environment", "no environment", "")


Numbers = tuple[float | None, float | None, int | None]  # value in the unit shown, passed, of
UNKNOWN: Numbers = (None, None, None)


@dataclass(frozen=True, slots=True)
class GainSide:
    """Mean over tasks, weighed as the metric does; sum of the task means of every replicate, and how many these are."""

    value: float
    total: float
    of: int

    def numbers(self, metric: TrialMetric) -> Numbers:
        """As a table shows them."""
        return scale_value(metric, self.value), round(self.total, 10) if metric.is_share else None, self.of

    def write(self, metric: TrialMetric) -> str:
        """ "18/30" for a share, else the mean with its unit."""
        if metric.is_share and metric.macro:
            return f"{half_up(100 * self.value, 1)} %"
        if metric.is_share:
            return f"{self.total:g}/{self.of}" if self.total == round(self.total) else f"{self.total:.1f}/{self.of}"
        return f"{self.value:,.4g} {metric.unit.value}"


class Gain:
    """Over all n tasks of the pair, or over those the mask [n] keeps: at least one. `tasks`: scored in every replicate
    of both sides. `replicates`: own, other. `delta`: in the metric's unit; shares 0..1."""

    def __init__(self, paired: Paired, mask: Mask | None = None) -> None:
        kept = np.ones(len(paired.task), dtype=bool) if mask is None else mask
        weight = paired.weight[kept] / paired.weight[kept].sum()
        self.own, self.other = (
            GainSide(float((side[:, kept] @ weight).mean()), float(side[:, kept].sum()), side[:, kept].size)
            for side in (paired.own, paired.other)
        )
        self.tasks, self.replicates = int(kept.sum()), paired.replicates
        self.delta = self.own.value - self.other.value


def pair_groups(comparison: GroupComparison, group: Group, other: Group, metric: TrialMetric) -> Paired | None:
    """The two sides lined up on the tasks both were scored on; None where they share none."""
    return pair(*comparison.sides(group, other, metric), by_family=metric.macro)


@dataclass(frozen=True, slots=True)
class Tile(HeatCell):
    """One group in one place: the differences of the families there, each over the same tasks of both sides."""

    name: str = ""
    baseline: str = ""
    place: SuitePlace = NONE
    families: int = 0
    tasks: int = 0
    delta: float = 0.0  # the plain mean of their differences, in the metric's unit
    # own, other: what the sides reached together
    own: Numbers = UNKNOWN
    other: Numbers = UNKNOWN


Pairs = Sequence[tuple[Group, Group, Paired]]
Names = Mapping[tuple[object, ...], str]  # by a group's identity


def draw_gains(sheet: ChartSheet) -> ChartDrawing:
    metric, split = sheet.metric, sheet.split
    if metric is None:
        return ChartDrawing(None, ChartTable(_name_columns(None, split)), absent=f"No run is chosen. {NOT_PUBLISHED}")
    pairs = list(_pairs(sheet, metric))
    names = names_of([*(group for group, *_ in pairs), *{b.identity: b for _, b, _ in pairs}.values()])
    tiles = list(_tiles(sheet, metric, pairs, names))
    table = ChartTable.of(_name_columns(metric, split), tiles)
    if not tiles:
        return ChartDrawing(None, table, absent=_explain_no_gains(sheet, metric))
    groups = [names[group.identity] for group, *_ in pairs]
    places = list(dict.fromkeys(tile.place.label for tile in tiles))
    unit = say_unit(difference_unit(metric))
    scale = Scale.around_zero((tile.value for tile in tiles), unit, AT_LEAST[metric.is_share])
    rows, columns = groups[:MAX_GROUPS], places[:MAX_PLACES]
    cells: dict[tuple[str, str], HeatCell] = {(tile.name, tile.place.label): tile for tile in tiles}
    # Rows are what there is most room for downwards: groups for few environments, families for few groups.
    if split.by == "family" or (split.members is not None and len(columns) > MAX_ACROSS):
        rows, columns = columns, rows
        cells = {(place, group): cell for (group, place), cell in cells.items()}
    picture = Heats([Heat("", cells)], rows, columns, scale, across=1)
    answers = tuple(Answer(tile.name, tile.delta, f"{tile.text} {unit}", tile.place.name) for tile in tiles)
    return ChartDrawing(picture, table, tuple(_note_gains(metric, split, len(groups), len(places))), answers=answers)


def _pairs(sheet: ChartSheet, metric: TrialMetric) -> Iterator[tuple[Group, Group, Paired]]:
    """Every group that has a baseline and shares scored tasks with it."""
    for group in sheet.groups:
        baseline = sheet.comparison.groups.baseline_of(group)
        paired = pair_groups(sheet.comparison, group, baseline, metric) if baseline else None
        if baseline and paired:
            yield group, baseline, paired


def _tiles(sheet: ChartSheet, metric: TrialMetric, pairs: Pairs, names: Names) -> Iterator[Tile]:
    """In the order of the suite, or of an attribute's values; of every family its own difference."""
    for place, find in _parts(sheet.split, pairs):
        for group, baseline, paired in pairs:
            mask = find(paired)
            families = dict.fromkeys(paired.family[mask].tolist())
            if families:
                gains = [Gain(paired, mask & (paired.family == family)) for family in families]
                url = sheet.trials_url(group, metric=metric, **place.narrowing)
                yield _tile(metric, names[group.identity], names[baseline.identity], place, gains, url)


def _parts(split: Split, pairs: Pairs) -> list[tuple[SuitePlace, Callable[[Paired], Mask]]]:
    """Each part with what marks its tasks [n] in a pair. By place, tasks without a family are left out."""

    def of_tasks(tasks: Sequence[int]) -> Callable[[Paired], Mask]:
        return lambda paired: np.isin(paired.task, tasks)

    def of_families(families: Sequence[int]) -> Callable[[Paired], Mask]:
        return lambda paired: np.isin(paired.family, families)

    if split.members is not None:
        members = list(split.members.values())
        found = read_parts(split, range(len(members)))
        return [(place, of_tasks(members[number])) for number, place in found.items()]
    families = read_families({family for *_, pair in pairs for family in pair.family.tolist() if family >= 0})
    if split.by == "family":
        return [(place, of_families([family])) for family, place in families.items()]
    within: dict[int | None, list[int]] = {}
    for family, place in families.items():
        within.setdefault(place.within, []).append(family)
    environments = read_environments(key for key in within if key is not None)
    places: list[tuple[int | None, SuitePlace]] = [*environments.items(), *([(None, NONE)] if None in within else [])]
    return [(place, of_families(within[key])) for key, place in places]


def _tile(metric: TrialMetric, name: str, baseline: str, place: SuitePlace, gains: Sequence[Gain], url: str) -> Tile:
    own, other = (
        GainSide(fmean(side.value for side in sides), sum(side.total for side in sides), sum(side.of for side in sides))
        for sides in ([gain.own for gain in gains], [gain.other for gain in gains])
    )
    delta, tasks, runs = fmean(gain.delta for gain in gains), sum(gain.tasks for gain in gains), gains[0].replicates
    text = write_difference(metric, delta)
    over = f", mean over {len(gains)} families" if len(gains) > 1 else ""
    reached = (
        f"{own.total:.4g}/{own.of} against {other.total:.4g}/{other.of}"
        if metric.is_share
        else f"{own.value:,.4g} against {other.value:,.4g} {metric.unit.value}"
    )
    hover = lines(
        f"<b>{plain(name)}</b> against {plain(baseline)}",
        plain(place.full),
        f"{plain(metric.key)} {text} {say_unit(difference_unit(metric))}{over}",
        f"{reached} on the same {tasks} tasks",
        f"replicates: {runs[0]} against {runs[1]}" if max(runs) > 1 else "",
    )
    facts = name, baseline, place, len(gains), tasks, delta, own.numbers(metric), other.numbers(metric)
    return Tile(scale_value(metric, delta), text, hover, url, *facts)


def _name_columns(metric: TrialMetric | None, split: Split) -> tuple[TableColumn, ...]:
    unit, apart = (unit_of(metric.unit), difference_unit(metric)) if metric else ("%", "pp")
    return (
        TableColumn("place", name_attribute(split.by), read=lambda tile: tile.place.full),
        TableColumn("group", "group", read=lambda tile: tile.name),
        TableColumn("baseline", "baseline"),
        TableColumn("difference", "mean difference of the families", apart, lambda tile: tile.value),
        TableColumn("families", "families"),
        TableColumn("tasks", "tasks on both sides"),
        TableColumn("value", "group, mean over families", unit, lambda tile: tile.own[0]),
        TableColumn("passed", "group passed", read=lambda tile: tile.own[1]),
        TableColumn("of", "of", read=lambda tile: tile.own[2]),
        TableColumn("baseline_value", "baseline, mean over families", unit, lambda tile: tile.other[0]),
        TableColumn("baseline_passed", "baseline passed", read=lambda tile: tile.other[1]),
        TableColumn("baseline_of", "of", read=lambda tile: tile.other[2]),
    )


def _note_gains(metric: TrialMetric, split: Split, groups: int, places: int) -> Iterator[str]:
    kind = (
        "A cell is one family"
        if split.by == "family"
        else "A cell is the plain mean of its families' differences, not weighted by tasks"
    )
    yield f"{name_metric(metric).title}. {kind}; each difference uses the tasks scored on both sides. Nothing is tested."  # noqa: E501
    yield "Blank: no task in common."
    yield from note_split(split)
    if metric.better is Better.LOWER:
        yield f"Lower is better for {metric.key}: a difference below 0 is a gain."
    if groups > MAX_GROUPS:
        yield f"{MAX_GROUPS} of {groups} groups are drawn; the table has all. Choose a condition or a model to see others."  # noqa: E501
    if places > MAX_PLACES:
        yield f"{MAX_PLACES} of {places} {count_parts(split.by)} are drawn; the table has all."
    yield NOT_PUBLISHED


def _explain_no_gains(sheet: ChartSheet, metric: TrialMetric) -> str:
    baseline = sheet.comparison.groups.baseline
    if not sheet.comparison.runs:
        return f"No run is chosen. {NOT_PUBLISHED}"
    return f"No group shares a scored task of {metric.key} in a family with its baseline, {baseline}."


GAINS_CHART = Chart(
    key="gains",
    title="Gains by environment and family",
    question="Where does it help, and where does it hurt?",
    draw=draw_gains,
    after="SkillFlow, figures 6 and 11",
    uses_metric=True,
    options={BY: PLACES},
    finding="{what}: {high} {most}; {low} {least}",
)


# --- against raw traces ---


NO_SKILLS = frozenset({"no-skill", RAW, "unknown"})
PAPER = "skillevolbench"
RELATIVE_NOT_PUBLISHED = (
    f"The paper's figure is not published as numbers: no table has a row for {RAW}. Its text prints averages over ten "
    "models for RSR, ESR, ARSR and CompSR; laid over, they are compared with the averages of its tables."
)
PUBLISHED = ("LSR", "RSR", "ESR", "CSSR", "ARSR", "CompSR")

RELATIVE_COLUMNS = (
    TableColumn("panel", "model"),
    TableColumn("source", "source"),
    TableColumn("condition", "condition", read=lambda row: row.row),
    TableColumn("metric", "metric", read=lambda row: row.column),
    TableColumn("difference", "difference to raw-trajectory", "pp", lambda row: row.value),
    TableColumn("value", "condition", "%", lambda row: row.own[0]),
    TableColumn("passed", "passed", read=lambda row: row.own[1]),
    TableColumn("of", "of", read=lambda row: row.own[2]),
    TableColumn("raw_value", "raw-trajectory", "%", lambda row: row.raw[0]),
    TableColumn("raw_passed", "raw passed", read=lambda row: row.raw[1]),
    TableColumn("raw_of", "raw of", read=lambda row: row.raw[2]),
    TableColumn("tasks", "tasks compared"),
    TableColumn("note", "note"),
)


@dataclass(frozen=True, slots=True)
class RelativeCell(HeatCell):
    """One cell with its row of the table: a condition and raw-trajectory in one metric."""

    panel: str = ""
    source: str = ""
    row: str = ""
    column: str = ""
    own: Numbers = UNKNOWN
    raw: Numbers = UNKNOWN
    tasks: int | None = None
    note: str = ""  # why there is no difference


def draw_relative(sheet: ChartSheet) -> ChartDrawing:
    metrics = [metric for metric in sheet.metrics if metric.is_share]
    arms = arms_of(sheet.groups)
    with_raw = arms_of([group for arm in arms if arm.find(RAW) for group in arm.groups])
    places = [place for arm in with_raw for place in _list_relative(sheet, arm, metrics)]
    published = list(_list_published_cells([row for row in sheet.printed if row.paper == PAPER]))
    printed = _drop_repeats(place.panel for place in published)
    places += published
    table = ChartTable.of(RELATIVE_COLUMNS, places)
    drawn = [place for place in places if place.value is not None]
    if not drawn:
        return ChartDrawing(None, table, absent=_explain_no_difference(arms, with_raw))
    titles = _drop_repeats(place.panel for place in places)
    kept = [*titles[: -len(printed)][: MAX_PANELS - 1], *printed] if printed else titles[:MAX_PANELS]
    heats = [Heat(title, {(p.row, p.column): p for p in places if p.panel == title}) for title in kept]
    columns = _drop_repeats(place.column for place in drawn)
    bare = [name for name in _drop_repeats(place.column for place in places) if name not in columns]
    scale = Scale.around_zero((place.value for place in drawn), "points")
    several = len(with_raw) > 1
    picture = Heats(heats, _drop_repeats(place.row for place in places), columns, scale)
    answers = tuple(
        Answer(place.row, place.value, place.text, f"{place.column}, {place.panel}" if several else place.column)
        for place in drawn
        if place.value is not None and place not in published
    )
    notes = [*_note_relative(len(arms) - len(with_raw), bool(with_raw)), *note_left_out(len(titles), "an agent model")]
    if bare:
        notes.append(f"Not drawn, because there is nothing to compare: {', '.join(bare)}.")
    return ChartDrawing(picture, table, tuple(notes), answers=answers)


def _list_relative(sheet: ChartSheet, arm: ModelPanel, metrics: Sequence[TrialMetric]) -> Iterator[RelativeCell]:
    raw = arm.find(RAW)
    if raw is None:
        return
    for group, name in zip(arm.groups, arm.rows, strict=True):
        if group.condition in NO_SKILLS:
            continue
        for metric in metrics:
            gain, why = _compare_groups(sheet, group, raw, metric)
            url = sheet.trials_url(group, metric=metric)
            head = f"{plain(arm.title)}<br><b>{plain(name)}</b> against {RAW}, {metric.key}"
            place = arm.title, "own runs", name, metric.key
            if gain is None:
                yield RelativeCell(None, "", lines(head, plain(why)), url, *place, note=why)
                continue
            text, runs = write_difference(metric, gain.delta), gain.replicates
            hover = lines(
                head,
                f"{text} points",
                f"{gain.own.write(metric)} against {gain.other.write(metric)} on the same {gain.tasks} tasks",
                f"replicates: {runs[0]} against {runs[1]}" if max(runs) > 1 else "",
            )
            sides = gain.own.numbers(metric), gain.other.numbers(metric)
            yield RelativeCell(scale_value(metric, gain.delta), text, hover, url, *place, *sides, gain.tasks)


def _compare_groups(sheet: ChartSheet, group: Group, raw: Group, metric: TrialMetric) -> tuple[Gain | None, str]:
    """The difference, or why there is none."""
    for side in (group, raw):
        if not sheet.comparison.cell(side, metric).rate.scored:
            return None, f"{side.condition} has no scored trial for {metric.key}"
    paired = pair_groups(sheet.comparison, group, raw, metric)
    return (Gain(paired), "") if paired else (None, "no task was scored on both sides")


def _list_published_cells(rows: Sequence[PrintedNumber]) -> Iterator[RelativeCell]:
    """One panel: the paper prints raw-trajectory's averages over its ten models in the text, and no row of it for any
    model.

    They are compared with the averages of what its tables print for the skill conditions, where all ten are printed.
    """
    raw = {row.metric: row for row in rows if row.condition == RAW and not row.group and row.table == "Text"}
    tables: dict[tuple[str, str], dict[tuple[str, str], PrintedNumber]] = {}
    for row in rows:  # a condition printed in two tables counts once
        if row.condition not in NO_SKILLS and not row.group and row.table.startswith("Table"):
            tables.setdefault((row.condition, row.metric), {}).setdefault((row.harness, row.model), row)
    models = max((len(of_models) for of_models in tables.values()), default=0)
    for (condition, metric), of_models in tables.items():
        if metric in PUBLISHED:
            yield _build_printed_cell(condition, metric, list(of_models.values()), models, raw.get(metric))


def _build_printed_cell(
    condition: str, metric: str, rows: Sequence[PrintedNumber], models: int, raw: PrintedNumber | None
) -> RelativeCell:
    panel = f"average of {models} models · published"
    source = f"SkillEvolBench, {rows[0].table} and section 5.5"
    head = f"{plain(panel)}<br><b>{plain(condition)}</b> against {RAW}, {metric}"
    values = [row.value for row in rows if row.value is not None]
    base = raw.value if raw else None
    average = round(fmean(values), 10) if len(values) == models else None
    sides: tuple[Numbers, Numbers] = (average, None, None), (base, None, None)
    place = panel, source, condition, metric, *sides
    if average is None or base is None:
        why = f"{RAW} is not printed" if base is None else f"printed for {len(values)} of {models} models"
        return RelativeCell(None, "", lines(head, why), "", *place, note=why)
    difference = round(average - base, 10)
    text = render_signed(difference)
    counts = f"{average:.2f} % (average of the printed values) against {base:g} % (printed)"
    return RelativeCell(difference, text, lines(head, f"{text} points", counts, plain(source)), "", *place)


def _drop_repeats(names: Iterable[str]) -> list[str]:
    return list(dict.fromkeys(names))


def _note_relative(without_raw: int, own: bool) -> Iterator[str]:
    yield f"Always compared with {RAW}. Blank: nothing to compare; point at it for the reason. No test."
    if own:
        yield f"Own runs: tasks scored on both sides, means over all replicates, replay against the replay of {RAW}."
    yield RELATIVE_NOT_PUBLISHED
    if without_raw:
        yield f"{without_raw} of the models chosen have no {RAW} run and no panel."


def _explain_no_difference(arms: Sequence[ModelPanel], with_raw: Sequence[ModelPanel]) -> str:
    if with_raw:
        return f"No skill condition shares a scored task with {RAW} here."
    if arms:
        return f"Choose a run of the condition {RAW}: this chart compares the others with it. {RELATIVE_NOT_PUBLISHED}"
    return f"Choose runs, or lay published numbers over. {RELATIVE_NOT_PUBLISHED}"


RELATIVE_CHART = Chart(
    key="relative",
    title="Skills against raw traces",
    question="Do skills beat showing raw traces?",
    draw=draw_relative,
    lacks=lacks_raw_traces,
    after="SkillEvolBench, figure 4",
    papers=(PAPER,),
    finding="{what}: {high} {most} points to raw traces; {low} {least}",
)
