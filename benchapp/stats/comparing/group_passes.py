"""pass@k of the groups of a comparison with its published intervals, split by source as in SkillGenBench's Table 2."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.comparing.comparison import GroupComparison
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.shares import Rate
from benchapp.stats.metrics import passk


@dataclass(frozen=True, slots=True)
class SourcePasses(Shaped):
    """One group over all tasks, or over those of one source. `rate` counts tasks, replicates added up. difference: to
    the group's baseline; None for a baseline, and where no task is complete on both sides."""

    metric: passk.SolvedMetric
    rate: Rate
    drawn: passk.DrawnMean | None
    difference: passk.DrawnMean | None

    json_shape = JsonShape(
        "metric=metric.key solved=rate.passed complete=rate.scored tasks=rate.planned estimate=drawn difference"
    )


@dataclass(frozen=True, slots=True)
class Passes(Shaped):
    """One group: all its tasks first, then those of each source that it has."""

    group: Group
    name: str
    parts: tuple[SourcePasses, ...]

    json_shape = JsonShape("label=group.label name parts")


def has_samples(comparison: GroupComparison) -> bool:
    """Was any finished library tried several times on a task?"""
    every = comparison.outcomes.values()
    return comparison.once("samples", lambda: any((each.sample[passk.SOLVED.mask(each)] > 0).any() for each in every))


def passes_of(comparison: GroupComparison, groups: Iterable[Group]) -> list[Passes]:
    """Return pass@k of the groups, none without second samples: then it is the plain rate of the table."""
    if not has_samples(comparison):
        return []
    found = []
    for group in groups:
        own, baseline, parts = comparison.of_group(group), comparison.groups.baseline_of(group), []
        for metric in passk.METRICS:
            if (rate := comparison.cell(group, metric).rate).planned:
                difference = passk.draw_difference(own, comparison.of_group(baseline), metric) if baseline else None
                parts.append(SourcePasses(metric, rate, passk.draw_mean(own, metric), difference))
        if comparison.cell(group, passk.SOLVED).rate.planned:
            found.append(Passes(group, passk.name_of(passk.samples_of(own)), tuple(parts)))
    return found
