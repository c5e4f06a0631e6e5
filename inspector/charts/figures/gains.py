"""Where a condition gains or loses against its baseline: by environment, family by family, or by group of tasks.

Source: SkillFlow, figures 6 and 11; the cell of an environment or a group is the plain mean of its families' differences,
as its released code computes a domain's.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from statistics import fmean

import numpy as np

from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.sides import Paired
from benchapp.stats.metrics.metric import Better, TrialMetric
from benchapp.stats.metrics.metric_names import name_metric
from benchapp.stats.metrics.outcomes import Mask
from benchapp.stats.metrics.splits import PLACES, Split, name_attribute
from inspector.charts.chart import BY, Chart, ChartDrawing, ChartTable, TableColumn
from inspector.charts.contrast import Answer
from inspector.charts.drawing.arms import names_of
from inspector.charts.drawing.gain import (
    Gain,
    GainSide,
    difference_unit,
    gain_of,
    pair_groups,
    scale_value,
    write_difference,
)
from inspector.charts.drawing.panels import Heat, HeatCell, Heats, Scale, lines, plain
from inspector.charts.drawing.places import (
    SuitePlace,
    count_parts,
    note_split,
    read_environments,
    read_families,
    read_parts,
)
from inspector.charts.drawing.quantities import say_unit, unit_of
from inspector.charts.sheet import ChartSheet

MAX_GROUPS = 40  # rows by environment, columns by family
MAX_ACROSS = 12  # groups of tasks beside each other; more stand below each other, as families do
MAX_PLACES = 200
AT_LEAST = {True: 10.0, False: 0.0}  # of a share: the colours reach at least ten points
NOT_PUBLISHED = "The paper's own figures are not published as numbers."
NONE = SuitePlace("", "no environment", "no environment", "")


@dataclass(frozen=True, slots=True)
class Tile:
    """One group in one place: the differences of the families there, each over the same tasks of both sides."""

    name: str
    baseline: str
    group: Group
    place: SuitePlace
    gains: tuple[Gain, ...]
    metric: TrialMetric
    url: str

    @property
    def delta(self) -> float:
        """Plain mean of the families' differences, in the metric's unit."""
        return fmean(gain.delta for gain in self.gains)

    @property
    def tasks(self) -> int:
        return sum(gain.tasks for gain in self.gains)

    def _sides(self, side: str) -> list[GainSide]:
        return [getattr(gain, side) for gain in self.gains]

    def mean(self, side: str) -> float:
        """Of "own" or "other", over the families, as shown."""
        return scale_value(self.metric, fmean(each.value for each in self._sides(side)))

    def count_passed(self, side: str) -> float | None:
        return round(sum(each.total for each in self._sides(side)), 10) if self.metric.is_share else None

    def count(self, side: str) -> int:
        return sum(each.of for each in self._sides(side))

    @property
    def reached(self) -> str:
        """What both sides reached: counts for a share, else means over the families."""
        sides = [(side, self._sides(side)) for side in ("own", "other")]
        if not self.metric.is_share:
            own, other = (fmean(each.value for each in of_side) for _, of_side in sides)
            return f"{own:,.4g} against {other:,.4g} {self.metric.unit.value}"
        return " against ".join(
            f"{sum(each.total for each in of_side):.4g}/{self.count(side)}" for side, of_side in sides
        )


Pairs = Sequence[tuple[Group, Group, Paired]]
Names = Mapping[tuple[object, ...], str]  # by a group's identity


def draw(sheet: ChartSheet) -> ChartDrawing:
    metric, split = sheet.metric, sheet.split
    if metric is None:
        return ChartDrawing(None, ChartTable(_columns(None, split)), absent=f"No run is chosen. {NOT_PUBLISHED}")
    pairs = list(_pairs(sheet, metric))
    names = names_of([*(group for group, *_ in pairs), *{b.identity: b for _, b, _ in pairs}.values()])
    tiles = list(_tiles(sheet, metric, pairs, names))
    table = ChartTable.of(_columns(metric, split), tiles)
    if not tiles:
        return ChartDrawing(None, table, absent=_absent(sheet, metric))
    groups = [names[group.identity] for group, *_ in pairs]
    places = list(dict.fromkeys(tile.place.label for tile in tiles))
    picture = _draw(metric, tiles, groups[:MAX_GROUPS], places[:MAX_PLACES], split)
    answers = tuple(
        Answer(tile.name, tile.delta, f"{_cell(tile).text} {say_unit(difference_unit(metric))}", tile.place.name)
        for tile in tiles
    )
    return ChartDrawing(picture, table, tuple(_notes(metric, split, len(groups), len(places))), answers=answers)


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
                gains = tuple(gain_of(paired, mask & (paired.family == family)) for family in families)
                yield _tile(sheet, metric, names, group, baseline, place, gains)


def _parts(split: Split, pairs: Pairs) -> list[tuple[SuitePlace, Callable[[Paired], Mask]]]:
    """Each part with what marks its tasks [n] in a pair. By place, tasks that stand in no family are left out."""
    if split.members is not None:
        members = list(split.members.values())
        found = read_parts(split, range(len(members)))
        return [(place, partial(_are_tasks, members[number])) for number, place in found.items()]
    families = read_families({family for *_, pair in pairs for family in pair.family.tolist() if family >= 0})
    if split.by == "family":
        return [(place, partial(_are_of_families, (family,))) for family, place in families.items()]
    within: dict[int | None, list[int]] = {}
    for family, place in families.items():
        within.setdefault(place.within, []).append(family)
    environments = read_environments(key for key in within if key is not None)
    places: list[tuple[int | None, SuitePlace]] = [*environments.items(), *([(None, NONE)] if None in within else [])]
    return [(place, partial(_are_of_families, tuple(within[key]))) for key, place in places]


def _are_tasks(tasks: tuple[int, ...], paired: Paired) -> Mask:
    return np.isin(paired.task, tasks)


def _are_of_families(families: tuple[int, ...], paired: Paired) -> Mask:
    return np.isin(paired.family, families)


def _draw(
    metric: TrialMetric, tiles: Sequence[Tile], groups: Sequence[str], places: Sequence[str], split: Split
) -> Heats:
    """Rows are what there is most room for downwards: groups beside few environments, families under few groups."""
    cells = {(tile.name, tile.place.label): _cell(tile) for tile in tiles}
    scale = Scale.around_zero(
        (cell.value for cell in cells.values()), say_unit(difference_unit(metric)), AT_LEAST[metric.is_share]
    )
    if split.by == "family" or (split.members is not None and len(places) > MAX_ACROSS):
        turned = {(place, group): cell for (group, place), cell in cells.items()}
        return Heats([Heat("", turned)], places, groups, scale, across=1)
    return Heats([Heat("", cells)], groups, places, scale, across=1)


def _tile(
    sheet: ChartSheet,
    metric: TrialMetric,
    names: Names,
    group: Group,
    baseline: Group,
    place: SuitePlace,
    gains: tuple[Gain, ...],
) -> Tile:
    url = sheet.trials_url(group, metric=metric, **place.narrowing)
    return Tile(names[group.identity], names[baseline.identity], group, place, gains, metric, url)


def _cell(tile: Tile) -> HeatCell:
    metric, text = tile.metric, write_difference(tile.metric, tile.delta)
    over = f", mean over {len(tile.gains)} families" if len(tile.gains) > 1 else ""
    runs = tile.gains[0].replicates
    hover = lines(
        f"<b>{plain(tile.name)}</b> against {plain(tile.baseline)}",
        plain(tile.place.full),
        f"{plain(metric.key)} {text} {say_unit(difference_unit(metric))}{over}",
        f"{tile.reached} on the same {tile.tasks} tasks",
        f"replicates: {runs[0]} against {runs[1]}" if max(runs) > 1 else "",
    )
    return HeatCell(scale_value(metric, tile.delta), text, hover, tile.url)


def _columns(metric: TrialMetric | None, split: Split) -> tuple[TableColumn, ...]:
    unit = unit_of(metric.unit) if metric else "%"
    return (
        TableColumn("place", name_attribute(split.by), read=lambda row: row.place.full),
        TableColumn("group", "group", read=lambda row: row.name),
        TableColumn("baseline", "baseline"),
        TableColumn(
            "difference",
            "mean difference of the families",
            difference_unit(metric) if metric else "pp",
            lambda row: scale_value(row.metric, row.delta),
        ),
        TableColumn("families", "families", read=lambda row: len(row.gains)),
        TableColumn("tasks", "tasks on both sides"),
        TableColumn("value", "group, mean over families", unit, lambda row: row.mean("own")),
        TableColumn("passed", "group passed", read=lambda row: row.count_passed("own")),
        TableColumn("of", "of", read=lambda row: row.count("own")),
        TableColumn("baseline_value", "baseline, mean over families", unit, lambda row: row.mean("other")),
        TableColumn("baseline_passed", "baseline passed", read=lambda row: row.count_passed("other")),
        TableColumn("baseline_of", "of", read=lambda row: row.count("other")),
    )


def _notes(metric: TrialMetric, split: Split, groups: int, places: int) -> Iterator[str]:
    kind = (
        "A cell is one family"
        if split.by == "family"
        else "A cell is the plain mean of its families' differences, not weighted by tasks"
    )
    yield f"{name_metric(metric).title}. {kind}; each difference uses the tasks scored on both sides. Nothing is tested."
    yield "Blank: no task in common."
    yield from note_split(split)
    if metric.better is Better.LOWER:
        yield f"Lower is better for {metric.key}: a difference below 0 is a gain."
    if groups > MAX_GROUPS:
        yield f"{MAX_GROUPS} of {groups} groups are drawn; the table has all. Choose a condition or a model to see others."
    if places > MAX_PLACES:
        yield f"{MAX_PLACES} of {places} {count_parts(split.by)} are drawn; the table has all."
    yield NOT_PUBLISHED


def _absent(sheet: ChartSheet, metric: TrialMetric) -> str:
    baseline = sheet.comparison.groups.baseline
    if not sheet.comparison.runs:
        return f"No run is chosen. {NOT_PUBLISHED}"
    return f"No group shares a scored task of {metric.key} in a family with its baseline, {baseline}."


CHART = Chart(
    key="gains",
    title="Gains by environment and family",
    question="Where does it help, and where does it hurt?",
    draw=draw,
    after="SkillFlow, figures 6 and 11",
    uses_metric=True,
    options={BY: PLACES},
    finding="{what}: {high} {most}; {low} {least}",
)
