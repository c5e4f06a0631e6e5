"""The plans behind *To be sure*: spreads and costs of the runs that a comparison holds."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property

import numpy as np

from benchapp.stats.comparing.comparison import GroupComparison
from benchapp.stats.comparing.groups import Group
from benchapp.stats.comparing.hypotheses import judge_difference
from benchapp.stats.inference.interval import Floats
from benchapp.stats.inference.sides import Paired, pair
from benchapp.stats.metrics.metric import TrialMetric
from benchapp.stats.metrics.outcomes import Outcomes
from benchapp.stats.metrics.spending import RunSpending, spending_of
from benchapp.stats.planning.power import Design, DesignCost, RunCost, Settling
from benchapp.stats.planning.spread import Measured, measure_pairs

MOST_BASELINES = 4  # with plans in one comparison; beyond, every experiment's own page has them


class OpenQuestions:
    """All groups judged in one metric, each with its baseline. Groups with one baseline and the same number of
    replicates share their measurements, since one pair shows little about reruns, and the design: one plan for all."""

    def __init__(self, comparison: GroupComparison, metric: TrialMetric, pairs: Sequence[tuple[Group, Group]]) -> None:
        self.comparison, self.metric, self.pairs = comparison, metric, tuple(pairs)

    def settle(self, group: Group, baseline: Group) -> Settling | None:
        """Return the plan. None for metrics other than shares, and with too many baselines."""
        alike = self._families.get(self._family_of(group, baseline), []) if self.metric.is_share else []
        if not alike or len({each.identity for _, each in self.pairs}) > MOST_BASELINES:
            return None
        if group.identity not in self._settled:
            widest = max(alike, key=lambda paired: len(paired.task))
            design = self._design(group, baseline, widest)
            measured = measure_pairs(alike)
            design = self._scale(design, measured, group)
            cost = DesignCost(self._cost(group), self._cost(baseline), self._counted(group, baseline))
            self._settled[group.identity] = Settling(design, measured, cost)
        return self._settled[group.identity]

    @cached_property
    def _settled(self) -> dict[object, Settling]:
        return {}

    @cached_property
    def _paired(self) -> dict[object, Paired]:
        """The pairs by group."""
        by_family = self.metric.macro
        found = {
            group.identity: pair(*self.comparison.sides(group, baseline, self.metric), by_family=by_family)
            for group, baseline in self.pairs
        }
        return {key: each for key, each in found.items() if each is not None}

    @cached_property
    def _families(self) -> dict[object, list[Paired]]:
        found: dict[object, list[Paired]] = {}
        for group, baseline in self.pairs:
            if paired := self._paired.get(group.identity):
                found.setdefault(self._family_of(group, baseline), []).append(paired)
        return found

    def _family_of(self, group: Group, baseline: Group) -> object:
        paired = self._paired.get(group.identity)
        return paired and (baseline.identity, paired.replicates, paired.clusters)

    def _design(self, group: Group, baseline: Group, paired: Paired) -> Design:
        sides = self.comparison.sides(group, baseline, self.metric)
        samples = np.concatenate([np.asarray(each.samples) for side in sides for each in side])
        shares = np.bincount(paired.cluster, weights=paired.weight)
        weights = tuple(shares.round(9).tolist()) if self.metric.macro else None
        tasks = tuple(np.bincount(paired.cluster).tolist())
        is_block = paired.replicates == (1, 1) or self.comparison.are_blocks(group, baseline)
        return Design(tasks, paired.replicates, max(1, int(np.median(samples))), weights, is_block)

    def _scale(self, design: Design, measured: Measured, group: Group) -> Design:
        """Scale to this difference: its own error, and the comparisons it is judged with."""
        found = judge_difference(self.comparison, group, self.metric)
        expected, _ = design.expect_error(measured.spread)
        if found is None or found.test is None or not expected:
            return design
        return replace(design, comparisons=found.comparisons, scale=found.test.error / expected)

    # --- what it took ----------------------------------------------------------------------------------------------

    @cached_property
    def _spending(self) -> dict[int, RunSpending]:
        return spending_of(self.comparison.runs, self.comparison.choices.as_of)

    def _cost(self, group: Group) -> RunCost:
        """Return the cost of one replicate, with its authors and replays."""
        runs = [
            RunCost(len(outcomes), _bill(self._spending[run.pk]), _sum(outcomes.seconds))
            for run in group.runs
            for outcomes in [self.comparison.outcomes[run.pk]]
        ]
        return sum(runs, RunCost()).times(1 / group.replicates)

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
    """Return the sum, None where one value is unknown."""
    return None if np.isnan(values).any() else float(values.sum())
