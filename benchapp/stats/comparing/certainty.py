"""How sure the differences of a comparison are, and of what: these tasks or tasks like these, all trials or those that read a skill,
and which tasks show anything."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from benchapp.models import Task
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.comparing.answer import arrange
from benchapp.stats.comparing.columns import MAX_NAMED
from benchapp.stats.comparing.comparison import GroupComparison
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.difference import Difference, compare
from benchapp.stats.inference.interval import ZERO, Floats, Interval
from benchapp.stats.inference.model import ClaimTest
from benchapp.stats.inference.sides import Paired, pair
from benchapp.stats.metrics.metric import TrialMetric
from benchapp.stats.planning.spread import Measured, measure_pairs

FEWEST_FAMILIES = 3
FEWEST_RUNS = 4  # whose results a task can agree with


@dataclass(frozen=True, slots=True)
class GroupCertainty(Shaped):
    """One group against its baseline. difference: for these tasks. other_tasks: where the difference would lie on average over
    families like these `families`. read: on the tasks whose trials all read a skill; None where none did, or all did."""

    group: Group
    difference: Difference
    families: int
    other_tasks: Interval | None
    read: Difference | None

    json_shape = JsonShape("label=group.label", "difference", "families", "other_tasks?", "read?")

    @property
    def is_rerun(self) -> bool:
        """Is it known what reruns would show?"""
        return self.difference.rerun is not None


@dataclass(frozen=True, slots=True)
class Item(Shaped):
    """A task as a question put to all runs. share: of trials that passed, 0..1; baseline: without the first skill. gain and loss: the largest
    difference of a condition to the baseline above 0 and below it. agreement: correlation, over runs, with the rest of the tasks."""

    task: Task
    share: float
    baseline: float | None
    gain: float
    loss: float
    agreement: float | None

    json_shape = JsonShape("task=task.key", "share", "baseline?", "gain", "loss", "agreement?")

    @property
    def never_moves(self) -> bool:
        """Every trial passed, or none: no condition can be better here."""
        return self.share <= ZERO or self.share >= 1 - ZERO


@dataclass(frozen=True, slots=True)
class Certainty(Shaped):
    """measured: where the spread of shares comes from; None where nothing is compared. factor: how much more whole runs vary than
    their cells alone would make them."""

    measured: Measured | None
    factor: float | None
    groups: tuple[GroupCertainty, ...]
    items: tuple[Item, ...]

    json_shape = JsonShape("measured", "factor", "groups", "items")

    @property
    def answer(self) -> str:
        """How many of the differences leave out zero, by what they are claimed of."""
        known = [each.difference.rerun_interval or each.difference.interval for each in self.groups if each.is_rerun]
        intervals = {
            "for these tasks": [each.difference.interval for each in self.groups],
            "for tasks like these": [each.other_tasks for each in self.groups],
            **({"if rerun": known} if known else {}),
        }
        counts = [sum(bool(each and each.excludes_zero) for each in found) for found in intervals.values()]
        first, *others = (f"{count} {of}" for count, of in zip(counts, intervals, strict=True))
        return f"Intervals that leave out zero, of {len(self.groups)}: {', '.join([first, *others])}."

    @property
    def moving(self) -> int:
        return sum(not item.never_moves for item in self.items)


def assess(comparison: GroupComparison, metric: TrialMetric) -> Certainty:
    """Of a share; two queries for the names of tasks."""
    groups: list[GroupCertainty] = []
    alike: dict[object, list[Paired]] = {}
    for group in arrange(comparison.groups.all):
        baseline = comparison.groups.baseline_of(group)
        if baseline is None:
            continue
        difference = comparison.difference(group, metric)
        paired = pair(*comparison.sides(group, baseline, metric), by_family=metric.macro)
        if difference is None or paired is None:
            continue
        alike.setdefault((baseline.identity, paired.replicates, paired.clusters), []).append(paired)
        families, other_tasks = _vary_tasks(paired, difference)
        groups.append(
            GroupCertainty(group, difference, families, other_tasks, _read(comparison, group, baseline, metric))
        )
    factors = [each.difference.factor.phi for each in groups if each.difference.factor]
    return Certainty(
        measure_pairs(max(alike.values(), key=len)) if alike and metric.is_share else None,
        float(np.mean(factors)) if factors else None,
        tuple(groups),
        tuple(_list_items(comparison, metric)) if metric.is_share else (),
    )


def _vary_tasks(paired: Paired, difference: Difference) -> tuple[int, Interval | None]:
    """With families drawn anew, what each adds to the difference varies: Student's t over families, never narrower than for these
    tasks alone."""
    family = np.unique(np.where(paired.family >= 0, paired.family, -2 - paired.task), return_inverse=True)[1]
    count = int(family.max()) + 1
    if count < FEWEST_FAMILIES or difference.test is None:
        return count, None
    added = np.bincount(family, weights=paired.delta * paired.weight) * count
    anew = ClaimTest(difference.delta, float(added.std(ddof=1)) / count**0.5, count - 1)
    half = max(each.half_width(difference.comparisons) for each in (anew, difference.test))
    bound = difference.bound or np.inf
    low, high = max(-bound, difference.delta - half), min(bound, difference.delta + half)
    return count, Interval(low, high, method="t over families")


def _read(comparison: GroupComparison, group: Group, baseline: Group, metric: TrialMetric) -> Difference | None:
    """Per protocol: only tasks whose trials read a skill, in every replicate. It may flatter: who reads may have been better off."""
    covered = [metric.select_covered(outcomes) for outcomes in comparison.of_group(group)]
    used = [outcomes.column("used") == 1 for outcomes in covered]
    if all(each.all() for each in used):
        return None
    own = [metric.task_means(outcomes.where(mask)) for outcomes, mask in zip(covered, used, strict=True)]
    paired = pair(own, comparison.sides(group, baseline, metric)[1], by_family=metric.macro)
    return compare(paired, is_share=metric.is_share) if paired else None


def _list_items(comparison: GroupComparison, metric: TrialMetric) -> Iterator[Item]:
    """The hardest first."""
    groups = comparison.groups.all
    means = [(group, metric.task_means(outcomes)) for group in groups for outcomes in comparison.of_group(group)]
    tasks = np.unique(np.concatenate([each.task for _, each in means] or [np.empty(0, np.int64)]))
    values = np.full((len(means), len(tasks)), np.nan)
    for row, (_, each) in zip(values, means, strict=True):
        row[np.searchsorted(tasks, each.task)] = each.value
    named: dict[int, Task] = {}
    for start in range(0, len(tasks), MAX_NAMED):
        found = Task.objects.filter(pk__in=tasks[start : start + MAX_NAMED].tolist()).select_related("suite")
        named |= {task.pk: task for task in found}
    by_group = {
        group.identity: np.array([own is group for own, _ in means])
        for group in groups
        if group in [own for own, _ in means]
    }
    baselines = {baseline.identity for _, baseline in comparison.groups.pairs}
    items = []
    for place, task in enumerate(tasks.tolist()):
        column = values[:, place]
        of_groups = {key: _mean(column[rows]) for key, rows in by_group.items()}
        bare = _mean(np.array([value for key, value in of_groups.items() if key in baselines and value is not None]))
        others = [
            value - bare
            for key, value in of_groups.items()
            if bare is not None and value is not None and key not in baselines
        ]
        share = _mean(column)
        assert share is not None
        rest = np.delete(values, place, axis=1)
        items.append(
            Item(
                named[task],
                share,
                bare,
                max([0.0, *others]),
                min([0.0, *others]),
                _agree(column, rest),
            )
        )
    yield from sorted(items, key=lambda item: (item.share, item.task.key))


def _mean(values: Floats) -> float | None:
    known = values[~np.isnan(values)]
    return float(known.mean()) if len(known) else None


def _agree(column: Floats, rest: Floats) -> float | None:
    """Correlation over runs of one task, [runs], with the mean of the others, [runs, tasks]; None where either does not vary."""
    known = ~np.isnan(column) & ~np.isnan(rest).all(axis=1)
    if known.sum() < FEWEST_RUNS:
        return None
    own, others = column[known], np.nanmean(rest[known], axis=1)
    if np.ptp(own) <= ZERO or np.ptp(others) <= ZERO:
        return None
    return float(np.corrcoef(own, others)[0, 1])
