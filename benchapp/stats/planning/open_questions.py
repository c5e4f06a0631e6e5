"""The plans behind "What would settle it": spreads and costs of the runs that a comparison holds."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property

import numpy as np

from benchapp.stats.comparing.comparison import GroupComparison
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.interval import Floats
from benchapp.stats.inference.sides import Paired, pair
from benchapp.stats.metrics.metric import TrialMetric
from benchapp.stats.metrics.outcomes import Outcomes
from benchapp.stats.metrics.spending import RunSpending, spending_of
from benchapp.stats.planning.power import Design
from benchapp.stats.planning.settling import DesignCost, RunCost, Settling
from benchapp.stats.planning.spread import Measured, average_measured, measure_pair


class OpenQuestions:
    """Of all groups judged in one metric, each with its baseline."""

    def __init__(self, comparison: GroupComparison, metric: TrialMetric, pairs: Sequence[tuple[Group, Group]]) -> None:
        self.comparison, self.metric, self.pairs = comparison, metric, tuple(pairs)
        self._settling: dict[tuple[object, object], Settling | None] = {}

    def settle(self, group: Group, baseline: Group) -> Settling | None:
        """None for a metric that is no share, and where the two share no task."""
        key = group.identity, baseline.identity
        if key not in self._settling:
            paired = self._pair(group, baseline) if self.metric.is_share else None
            found = self._describe(group, baseline, paired) if paired else None
            self._settling[key] = found
        return self._settling[key]

    def _pair(self, group: Group, baseline: Group) -> Paired | None:
        return pair(*self.comparison.sides(group, baseline, self.metric), by_family=self.metric.macro)

    def _describe(self, group: Group, baseline: Group, paired: Paired) -> Settling:
        design = self._design(group, baseline, paired)
        cost = DesignCost(self._cost(group), self._cost(baseline), self._counted(group, baseline))
        return Settling(design, self._measure(baseline, paired.replicates), cost)

    def _design(self, group: Group, baseline: Group, paired: Paired) -> Design:
        sides = self.comparison.sides(group, baseline, self.metric)
        samples = np.concatenate([np.asarray(each.samples) for side in sides for each in side])
        weights = tuple(paired.shares.round(9).tolist()) if self.metric.macro else None
        tasks = tuple(np.bincount(paired.cluster).tolist())
        return Design(tasks, paired.replicates, max(1, int(np.median(samples))), weights)

    def _measure(self, baseline: Group, replicates: tuple[int, int]) -> Measured:
        """Over all groups held against this baseline with as many replicates: one pair alone shows little of what reruns do."""
        if (baseline.identity, replicates) not in self._measured:
            alike = [
                (group, found)
                for group, other in self.pairs
                if other is baseline and (found := self._pair(group, other)) and found.replicates == replicates
            ]
            measured = average_measured([measure_pair(found) for _, found in alike], replicates[1])
            self._measured[baseline.identity, replicates] = measured
        return self._measured[baseline.identity, replicates]

    @cached_property
    def _measured(self) -> dict[tuple[object, object], Measured]:
        return {}

    # --- what it took ----------------------------------------------------------------------------------------------

    @cached_property
    def _spending(self) -> dict[int, RunSpending]:
        return spending_of(self.comparison.runs, self.comparison.choices.as_of)

    def _cost(self, group: Group) -> RunCost:
        """Of one replicate, its authors and replays included."""
        runs = [
            RunCost(len(outcomes), _bill(self._spending[run.pk]), _sum(outcomes.seconds))
            for run, outcomes in zip(group.runs, self.comparison.of_group(group), strict=True)
        ]
        return sum(runs, RunCost()).times(1 / len(runs))

    def _counted(self, group: Group, baseline: Group) -> RunCost:
        return sum(
            (self._count(each) for side in (group, baseline) for each in self.comparison.of_group(side)), RunCost()
        )

    def _count(self, outcomes: Outcomes) -> RunCost:
        counted = self.metric.select_covered(outcomes)
        return RunCost(len(counted), _sum(counted.cost_usd), _sum(counted.seconds))


def _bill(spending: RunSpending) -> float | None:
    parts = (spending.agent, spending.author)
    if any(part.cost_known < part.things for part in parts):
        return None
    return sum(part.cost_usd or 0.0 for part in parts)


def _sum(values: Floats) -> float | None:
    """None where one is not known."""
    return None if np.isnan(values).any() else float(values.sum())
