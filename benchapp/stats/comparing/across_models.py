"""A condition's effect over agent models: the unit that papers argue about."""

from __future__ import annotations

from dataclasses import dataclass

from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.comparing.comparison import GroupComparison
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.inference.model import ClaimTest
from benchapp.stats.inference.pooling import PooledEffect, pool_models
from benchapp.stats.metrics.metric import TrialMetric


@dataclass(frozen=True, slots=True)
class AcrossModels(Shaped):
    """One condition against the baseline over agent models, each counted once. `source`: a paper; empty: own runs."""

    condition: str
    pooled: PooledEffect
    source: str = ""

    json_shape = JsonShape("condition", "source?", "*pooled")


def pool_conditions(comparison: GroupComparison, metric: TrialMetric) -> list[AcrossModels]:
    """Pool every condition that at least three agent models were tried with, each once."""
    found: dict[str, dict[str, list[ClaimTest]]] = {}
    for group, baseline in comparison.groups.pairs:
        difference = comparison.difference(group, metric)
        if difference and difference.test and group.agent_model == baseline.agent_model:
            found.setdefault(group.condition, {}).setdefault(group.agent_model, []).append(difference.test)
    pooled = {
        condition: pool_models([test.delta for (test,) in models.values()], [test.error for (test,) in models.values()])
        for condition, models in found.items()
        if all(len(tests) == 1 for tests in models.values())  # of several authors or harnesses none is chosen
    }
    known = sorted(pooled, key=lambda condition: name_condition(condition).order)
    return [AcrossModels(condition, each) for condition in known if (each := pooled[condition])]
