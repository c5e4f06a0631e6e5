"""A comparison in words: one plain sentence per difference."""

from __future__ import annotations

from dataclasses import replace

from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.difference import Difference
from benchapp.stats.inference.sentences import SHARES, DifferenceWording, amounts, sentence
from benchapp.stats.metrics.metric import MetricUnit, TrialMetric
from benchapp.stats.metrics.metric_names import name_metric

DIGITS = {MetricUnit.USD: 4, MetricUnit.TOKENS: 0, MetricUnit.SCORE: 2}


def difference_in_words(
    difference: Difference, group: Group, baseline: Group, metric: TrialMetric, verdict: str = ""
) -> str:
    own, other = _name_apart(group, baseline)
    return sentence(
        difference, own=own, other=other, metric=name_metric(metric).title, verdict=verdict, wording=wording_of(metric)
    )


def wording_of(metric: TrialMetric) -> DifferenceWording:
    unit = "" if metric.unit is MetricUnit.SCORE else metric.unit.value  # nobody says "0.35 score"
    wording = SHARES if metric.is_share else amounts(unit, DIGITS.get(metric.unit, 1))
    if metric.macro:
        return replace(wording, verb=None, over="families")
    return replace(wording, verb=name_metric(metric).did) if metric.is_share else wording


def _name_apart(group: Group, baseline: Group) -> tuple[str, str]:
    """Return names that distinguish the two: their conditions if these differ, else their agent models."""
    if group.condition != baseline.condition:
        return name_condition(group.condition).title, name_condition(baseline.condition).title
    return group.agent_model, baseline.agent_model
