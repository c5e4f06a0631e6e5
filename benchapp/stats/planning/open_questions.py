"""The plans behind *To be sure*: spreads and costs of the runs that a comparison holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from benchapp.stats.comparing.comparison import GroupComparison
from benchapp.stats.comparing.groups import Group
from benchapp.stats.comparing.hypotheses import judge_difference
from benchapp.stats.inference.sides import Paired, pair
from benchapp.stats.metrics.metric import TrialMetric
from benchapp.stats.metrics.spending import RunSpending, spending_of
from benchapp.stats.planning.power import Design, DesignCost, RunCost, Settling
from benchapp.stats.planning.spread import measure_pairs

MOST_BASELINES = 4  # with plans in one comparison; beyond, every experiment's own page has them


class OpenQuestions:
    """All groups judged in one metric, each with its baseline. Groups with one baseline and the same number of
    replicates share their measurements, since one pair shows little about reruns, and the design: one plan for all."""

    def __init__(self, comparison: GroupComparison, metric: TrialMetric, pairs: Sequence[tuple[Group, Group]]) -> None:
        self.comparison, self.metric, self.pairs = comparison, metric, tuple(pairs)
        self._settled: dict[object, Settling] = {}

    def settle(self, group: Group, baseline: Group) -> Settling | None:
        """Return the plan. None for metrics other than shares, and with too many baselines."""
        if not self.metric.is_share or len({each.identity for _, each in self.pairs}) > MOST_BASELINES:
            return None
        if group.identity not in self._settled:
            if (alike := self._alike.get(group.identity)) is None:
                return None
            measured = measure_pairs(alike)
            design = self._design(group, baseline, max(alike, key=lambda paired: len(paired.task)))
            found, (expected, _) = (
                judge_difference(self.comparison, group, self.metric),
                design.expect_error(measured.spread),
            )
            if found is not None and found.test is not None and expected:  # its own error, and what it is judged with
                design = replace(design, comparisons=found.comparisons, scale=found.test.error / expected)
            trials = [each for side in (group, baseline) for each in self.comparison.of_group(side)]
            counted = [RunCost.of(self.metric.select_covered(outcomes)) for outcomes in trials]
            cost = DesignCost(self._cost(group), self._cost(baseline), sum(counted, RunCost()))
            self._settled[group.identity] = Settling(design, measured, cost)
        return self._settled[group.identity]

    @cached_property
    def _alike(self) -> dict[object, list[Paired]]:
        """Group -> the pairs of all groups with its baseline, replicates and clusters."""
        of_groups: dict[object, list[Paired]] = {}
        families: dict[object, list[Paired]] = {}
        for group, baseline in self.pairs:
            paired = pair(*self.comparison.sides(group, baseline, self.metric), by_family=self.metric.macro)
            if paired is not None:
                family = families.setdefault((baseline.identity, paired.replicates, paired.clusters), [])
                family.append(paired)
                of_groups[group.identity] = family
        return of_groups

    def _design(self, group: Group, baseline: Group, paired: Paired) -> Design:
        sides = self.comparison.sides(group, baseline, self.metric)
        samples = np.concatenate([np.asarray(each.samples) for side in sides for each in side])
        shares = np.bincount(paired.cluster, weights=paired.weight)
        weights = tuple(shares.round(9).tolist()) if self.metric.macro else None
        tasks = tuple(np.bincount(paired.cluster).tolist())
        is_block = paired.replicates == (1, 1) or self.comparison.are_blocks(group, baseline)
        return Design(tasks, paired.replicates, max(1, int(np.median(samples))), weights, is_block)

    @cached_property
    def _spending(self) -> dict[int, RunSpending]:
        return spending_of(self.comparison.runs, self.comparison.choices.as_of)

    def _cost(self, group: Group) -> RunCost:
        """Return the cost of one replicate, with its authors and replays."""
        total = RunCost()
        for run in group.runs:
            total += replace(RunCost.of(self.comparison.outcomes[run.pk]), usd=_bill(self._spending[run.pk]))
        return total.times(1 / group.replicates)


def _bill(spending: RunSpending) -> float | None:
    parts = (spending.agent, spending.author)
    if any(part.cost_known < part.things for part in parts):
        return None
    return sum(part.cost_usd or 0.0 for part in parts)
