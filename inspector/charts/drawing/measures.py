"""The measures that a profile is made of: of one's own groups, and those that SkillLearnBench prints."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from statistics import fmean

import numpy as np

from benchapp.papers.published_rows import PrintedNumber
from benchapp.stats.benchmarks.judged_metrics import LEVELS as JUDGED_LEVELS
from benchapp.stats.comparing.groups import Group
from benchapp.stats.learning.library_sizes import LibrarySize, read_library_numbers
from benchapp.stats.metrics.metric import FIRST_TRIES, MetricUnit, TrialMetric
from benchapp.stats.metrics.metric_names import name_metric
from inspector.charts.drawing.quantities import plural, unit_of
from inspector.charts.lacking import WITHOUT_LIBRARY
from inspector.charts.sheet import ChartSheet

PAPER = "skilllearnbench"
AVERAGES = ("", "average of six models")  # rows without a model of their own, and the mean over those that have one
PRINTED = (  # table, metric, name
    ("Table 2", "accuracy", "task accuracy"),
    ("Table 2", "coverage", "coverage"),
    ("Table 2", "use", "skill usage rate"),
    ("Table 2", "alignment", "alignment"),
    ("Table 2", "tokens", "solving tokens"),
    ("Figure 3", "skills", "skills"),
)


@dataclass(frozen=True, slots=True)
class ProfileValue:
    """One group's number. `over` says what it rests on; `printed`: what stands there instead of our own way
    to write it."""

    value: float | None
    over: str = ""
    url: str = ""
    printed: str = ""


@dataclass(frozen=True, slots=True)
class ProfileMeasure:
    """One number per group, in the order of the groups. `unit` None: printed, in the unit `unit_name`."""

    name: str
    unit: MetricUnit | None
    unit_name: str
    values: tuple[ProfileValue, ...]

    def first(self, count: int) -> ProfileMeasure:
        return replace(self, values=self.values[:count])

    @property
    def told(self) -> bool:
        return any(measured.value is not None for measured in self.values)


def own_measures(sheet: ChartSheet) -> tuple[list[str], list[ProfileMeasure]]:
    """Labels of the groups, and the measures that at least one of them has."""
    groups = sheet.groups
    found = [_metric(sheet, sheet.metric, groups)] if sheet.metric else []
    judged = [metric for metric in JUDGED_LEVELS if metric != sheet.metric and sheet.comparison.has(metric)]
    found += [_metric(sheet, metric, groups) for metric in judged]
    found.append(_over_trials(sheet, groups, "trials that read a skill", MetricUnit.SHARE, "used"))
    for name, column, unit in (
        ("turns", "turns", MetricUnit.TURNS),
        ("output tokens", "output_tokens", MetricUnit.TOKENS),
        ("cost", "cost_usd", MetricUnit.USD),
    ):
        found.append(_over_trials(sheet, groups, f"{name} per trial", unit, column))
    found.append(_skills(sheet, groups))
    return [group.label for group in groups], [measure for measure in found if measure.told]


def _metric(sheet: ChartSheet, metric: TrialMetric, groups: Sequence[Group]) -> ProfileMeasure:
    values = []
    for group in groups:
        cell = sheet.comparison.cell(group, metric)
        rate = cell.rate
        over = f"{rate.passed}/{rate.scored} trials" if metric.is_share else plural(rate.scored, "trial")
        values.append(ProfileValue(cell.value, over, sheet.trials_url(group, metric=metric)))
    return ProfileMeasure(name_metric(metric).title, metric.unit, unit_of(metric.unit), tuple(values))


def _over_trials(
    sheet: ChartSheet, groups: Sequence[Group], name: str, unit: MetricUnit, column: str
) -> ProfileMeasure:
    """The mean over first tries, per replicate and then over replicates; tainted episodes left out."""
    values = []
    for group in groups:
        means, count = [], 0
        for outcomes in sheet.comparison.of_group(group):
            found = outcomes.column(column)[outcomes.covering(FIRST_TRIES) & ~outcomes.tainted]
            known = found[~np.isnan(found)]
            count += len(known)
            if len(known):
                means.append(float(known.mean()))
        values.append(ProfileValue(fmean(means) if means else None, plural(count, "trial"), sheet.trials_url(group)))
    return ProfileMeasure(name, unit, unit_of(unit), tuple(values))


def _skills(sheet: ChartSheet, groups: Sequence[Group]) -> ProfileMeasure:
    libraries = read_library_numbers(sheet.comparison.runs, sheet.comparison.choices.as_of)
    values = [_mean_skills([libraries[run.pk].sizes for run in group.runs], sheet, group) for group in groups]
    return ProfileMeasure("skills per library", MetricUnit.SKILLS, unit_of(MetricUnit.SKILLS), tuple(values))


def _mean_skills(runs: Sequence[Sequence[LibrarySize]], sheet: ChartSheet, group: Group) -> ProfileValue:
    clean = [library.skills for of_run in runs for library in of_run if not library.tainted]
    over = plural(len(clean), "library", "libraries")
    if not clean or group.condition in WITHOUT_LIBRARY:
        return ProfileValue(None, "no library", sheet.trials_url(group), "no library")
    return ProfileValue(fmean(clean), over, sheet.trials_url(group))


def list_printed_measures(sheet: ChartSheet) -> tuple[list[str], list[ProfileMeasure]]:
    """Labels of the methods, and the measures that the paper prints of at least one of them."""
    rows = [row for row in sheet.published if row.paper == PAPER and row.model in AVERAGES and not row.group]
    labels = _labels(rows)
    cells = {(row.table, row.metric, row.condition): row for row in rows}
    found = [
        ProfileMeasure(
            name, None, _unit(rows, table, metric), tuple(_cell(cells.get((table, metric, key))) for key in labels)
        )
        for table, metric, name in PRINTED
    ]
    return list(labels.values()), [measure for measure in found if measure.told]


def _labels(rows: Iterable[PrintedNumber]) -> Mapping[str, str]:
    """Condition -> how Table 2 calls it."""
    return {row.condition: row.row for row in rows if row.table == "Table 2"}


def _unit(rows: Iterable[PrintedNumber], table: str, metric: str) -> str:
    return next((row.unit for row in rows if (row.table, row.metric) == (table, metric)), "")


def _cell(row: PrintedNumber | None) -> ProfileValue:
    if row is None:
        return ProfileValue(None)
    return ProfileValue(row.value, f"{row.table}, {row.row}", printed=row.printed if row.value is not None else "")
