"""The condition table: one row per group, one cell per metric, with the difference to the baseline beneath."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace

from django.utils.safestring import SafeString

from benchapp.analysis.failures.run_endings import Endings, read_endings
from benchapp.models.stand_ins import StandIn
from benchapp.stats.comparing.answer import JudgedGroup, judge_groups
from benchapp.stats.comparing.comparison import MetricCell
from benchapp.stats.comparing.condition_names import SEPARATOR, name_condition
from benchapp.stats.comparing.effects import Effect
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.difference import Difference
from benchapp.stats.inference.shares import half_up
from benchapp.stats.metrics.amounts import render_change, render_metric, render_relative
from benchapp.stats.metrics.catalogue import RUN_TABLES
from benchapp.stats.metrics.metric import RunMetric, TrialMetric
from inspector.charts.sheet import ChartSheet
from runner.base.types import Phase

NONE_PLANNED = "none planned"
UNKNOWN = "unknown"
NOT_JUDGED = "not judged"


@dataclass(frozen=True, slots=True)
class DifferenceText:
    """What one cell says. `tone`: better or worse where the effect is clear after correction, else empty. `against`: the value that
    the difference is taken from, where the baseline's row does not show it. `relative`: the difference of an amount as a part of the
    baseline's; that of a share would be read as points."""

    main: str
    count: str = ""
    delta: str = ""
    around: str = ""
    relative: str = ""
    against: str = ""
    effect: Effect | None = None

    @property
    def tone(self) -> str:
        return self.effect.tone if self.effect and self.effect.is_clear else ""


@dataclass(frozen=True, slots=True)
class ComparisonRow:
    """`lines`: what the group's runs are beyond their condition, where the groups differ in it. `stand_ins`: said here only
    where they are not those of the whole table, whose head says it then."""

    title: str
    condition: str
    lines: tuple[str, ...]
    cells: tuple[DifferenceText, ...]
    is_baseline: bool
    stand_ins: frozenset[StandIn]


def run_metrics(sheet: ChartSheet) -> tuple[RunMetric, ...]:
    """The numbers of whole runs that belong to the table and that some group has. Those of replay have a page of their own."""
    comparison = sheet.comparison
    return tuple(
        metric
        for metric in (RUN_TABLES[sheet.table] if sheet.table != "success" else ())
        if any(comparison.run_value(group, metric).value is not None for group in comparison.groups.all)
    )


def table_rows(sheet: ChartSheet, groups: Iterable[Group], judged: Iterable[JudgedGroup] = ()) -> list[ComparisonRow]:
    """`judged`: what was judged already, all of a metric or none."""
    shown, found = list(groups), list(judged)
    endings = read_endings(run for group in shown for run in group.runs)
    known = {each.metric.key for each in found}
    for metric in sheet.metrics:
        if metric.key not in known:
            found += judge_groups(sheet.comparison, metric)
    by_place = {(each.group.identity, each.metric.key): each for each in found}
    are_alike = len({group.stand_ins for group in sheet.comparison.groups.all}) == 1
    rows = (_row(sheet, group, endings, by_place) for group in shown)
    return [replace(row, stand_ins=frozenset()) for row in rows] if are_alike else list(rows)


def _row(
    sheet: ChartSheet,
    group: Group,
    endings: Mapping[int, Endings],
    judged: Mapping[tuple[tuple[object, ...], str], JudgedGroup],
) -> ComparisonRow:
    return ComparisonRow(
        group.label.split(SEPARATOR)[0],
        group.condition,
        tuple(describe_group(sheet, group, endings)),
        (
            *(_cell(sheet, group, metric, judged.get((group.identity, metric.key))) for metric in sheet.metrics),
            *(_run_cell(sheet, group, metric) for metric in run_metrics(sheet)),
        ),
        sheet.comparison.groups.is_baseline(group),
        group.stand_ins,
    )


def describe_group(sheet: ChartSheet, group: Group, endings: Mapping[int, Endings]) -> Iterator[str]:
    """What its label says beyond the condition, and what a reader must know before trusting the row."""
    yield from group.label.split(SEPARATOR)[1:]
    tally = sheet.comparison.tally(group)
    if not tally.is_over:
        cancelled = "" if group.is_unfinished else "cancelled: "
        yield f"{cancelled}{tally.done:,} of {tally.total:,} trials ended"
    if group.replicates > 1:
        if len({each.replicates for each in sheet.comparison.groups.all}) > 1:
            yield f"{group.replicates} replicates"
        if len({run.setup_digest for run in group.runs}) > 1:
            yield "of different setups"
    baseline = sheet.comparison.groups.baseline_of(group)
    if baseline is not None and not group.side and baseline.first.experiment_id != group.first.experiment_id:
        yield f"baseline of {baseline.first.experiment.name}"
    if alike := sum(endings[run.pk].equals_no_skill for run in group.runs):
        which = "" if alike == group.replicates else f" in {alike} of {group.replicates} replicates"
        yield f"equals no-skill{which}: no skill in any library"


def _cell(sheet: ChartSheet, group: Group, metric: TrialMetric, judged: JudgedGroup | None) -> DifferenceText:
    cell = sheet.comparison.cell(group, metric)
    if cell.value is None:
        if metric.is_judged:
            return DifferenceText(NOT_JUDGED)
        if not cell.rate.planned:
            return DifferenceText(NONE_PLANNED)
        return DifferenceText("none scored" if metric.is_share else "unknown")
    main, count = value_text(cell)
    if (shared := sheet.comparison.shared_value(group, metric)) is not None:
        main, count = render_metric(shared, metric.unit), f"on shared tasks; all: {main} {count}".rstrip()
    if judged is None:
        return DifferenceText(main, count, around=wilson_text(cell))
    difference = judged.difference
    delta, around = delta_text(difference, metric)
    part = metric.relate(difference.own, difference.other)
    return DifferenceText(
        main,
        count,
        delta,
        around,
        "" if not part or metric.is_share else render_relative(part),
        _write_first_try(sheet, group, metric, difference.other),
        judged.effect if judged.words else None,
    )


def _write_first_try(sheet: ChartSheet, group: Group, metric: TrialMetric, value: float) -> str:
    """Replay is held against a first try where its baseline replayed nothing."""
    baseline = sheet.comparison.groups.baseline_of(group)
    if (
        metric.phases != (Phase.REPLAY,)
        or baseline is None
        or sheet.comparison.cell(baseline, metric).value is not None
    ):
        return ""
    return f"{name_condition(baseline.condition).short.lower()}, first try: {render_metric(value, metric.unit)}"


def _run_cell(sheet: ChartSheet, group: Group, metric: RunMetric) -> DifferenceText:
    """A number of whole runs is no mean over tasks: nothing pairs it with the baseline's, so it is shown as it is."""
    found = sheet.comparison.run_value(group, metric)
    if found.value is None:
        return DifferenceText(UNKNOWN)
    return DifferenceText(render_metric(found.value, metric.unit), f"of {found.over} {found.of}" if found.of else "")


def draw_difference(difference: Difference) -> SafeString:
    """The primary interval on a line from -50 to +50 points, with its mark at the estimate."""
    if difference.interval is None:
        return SafeString("")
    low, point, high = (
        min(100.0, max(0.0, 50 + 100 * value))
        for value in (difference.interval.low, difference.delta, difference.interval.high)
    )
    return SafeString(
        '<svg class="interval difference" viewBox="0 0 100 8" preserveAspectRatio="none" aria-hidden="true">'
        f'<path class="zero" d="M50 0V8"/><path class="range" d="M{low:.1f} 4H{max(high, low + 0.5):.1f}"/>'
        f'<path class="point" d="M{point:.1f} 1V7"/></svg>'
    )


def wilson_text(cell: MetricCell) -> str:
    if cell.interval is None:
        return ""
    low, high = cell.interval
    return f"95 % {half_up(100 * low)} to {half_up(100 * high)}"


def value_text(cell: MetricCell) -> tuple[str, str]:
    """Value and counts. Below ten scored trials the count of passes alone: a percentage would pretend to know more."""
    rate, metric = cell.rate, cell.metric
    missing = f" of {rate.planned}" if rate.missing else ""
    if metric.is_share and not metric.macro and rate.scored < 10:
        return f"{rate.passed}/{rate.scored}", missing.strip()
    value = "unknown" if cell.value is None else render_metric(cell.value, metric.unit)
    return value, f"{rate.passed}/{rate.scored}{missing}" if metric.is_share else f"n {rate.scored}{missing}"


def delta_text(difference: Difference, metric: TrialMetric) -> tuple[str, str]:
    """The difference and the ends of the interval about it."""
    delta = render_change(difference.delta, metric.unit)
    if difference.interval is None:
        return delta, ""
    low, high = difference.interval.low, difference.interval.high
    return delta, f"{render_change(low, metric.unit)} to {render_change(high, metric.unit)}"
