"""Hypotheses that an experiment's file declared before its run, found among its runs and corrected together."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import cast

from benchapp.models import Experiment
from benchapp.stats.comparing.choices import NO_SKILL, Choices
from benchapp.stats.comparing.comparison import GroupComparison, comparison_of
from benchapp.stats.comparing.groups import Group
from benchapp.stats.comparing.saved_comparisons import Corrected, Declared, Hypothesis
from benchapp.stats.inference.difference import Difference
from benchapp.stats.metrics.catalogue import METRICS
from benchapp.stats.metrics.metric import TrialMetric

PLACE = "hypotheses"  # in the file, and in a comparison's cache


def correct_hypotheses(comparison: GroupComparison) -> Mapping[int, Corrected]:
    """Return experiment pk -> its hypotheses, for compared experiments that declare some.

    They are about all runs of the experiment at the moment shown, independent of what else a page shows or leaves out.
    """
    kept = cast(Mapping[int, Corrected] | None, comparison.drawn.get(PLACE))
    if kept is None:
        comparison.drawn.put(PLACE, kept := _correct_each(comparison))
    return kept


def find_declared(comparison: GroupComparison, group: Group, baseline: Group, metric: TrialMetric) -> Hypothesis | None:
    """Return this declared difference, judged with all that were; None where its experiment did not declare it."""
    declared = None if group.side else correct_hypotheses(comparison).get(group.first.experiment_id)
    return declared.find(group, baseline, metric) if declared else None


def judge_difference(comparison: GroupComparison, group: Group, metric: TrialMetric) -> Difference | None:
    """Judge a group's difference to its baseline with the declared ones if it is declared, else with its family."""
    baseline = comparison.groups.baseline_of(group)
    declared = find_declared(comparison, group, baseline, metric) if baseline else None
    return declared.difference if declared else comparison.difference(group, metric)


def list_unknown_metrics(experiment: Experiment) -> list[str]:
    """List metrics that were declared and are not computed by this version."""
    return sorted({metric for metric, _, _ in _read(experiment)} - METRICS.keys())


def _correct_each(comparison: GroupComparison) -> dict[int, Corrected]:
    declaring = {run.experiment_id: run.experiment for run in comparison.runs if run.experiment.spec.get(PLACE)}
    found = {}
    for pk, experiment in declaring.items():
        asked = Choices(experiment=(experiment.public_id,), as_of=comparison.choices.as_of)
        whole = comparison if comparison.choices.key() == asked.key() else comparison_of(asked)
        each = [
            list(_find_declared(whole, *hypothesis)) for hypothesis in _read(experiment) if hypothesis[0] in METRICS
        ]
        declared = [one for some in each for one in some]
        found[pk] = Corrected.of_declared(whole, declared, missing=sum(not some for some in each))
    return found


def _find_declared(whole: GroupComparison, key: str, condition: str, against: str) -> Iterator[Declared]:
    """Yield the hypothesis for every existing agent, model and author."""
    for group in whole.groups.all:
        baseline = whole.groups.find_beside(group, against, group.agent_model)
        if group.condition == condition and baseline is not None:
            yield group, baseline, METRICS[key]


def _read(experiment: Experiment) -> Iterator[tuple[str, str, str]]:
    """Yield (metric, condition, against). A file from an archive may hold anything."""
    stated = experiment.spec.get(PLACE)
    for each in stated if isinstance(stated, list) else []:
        if isinstance(each, dict):
            yield str(each.get("metric")), str(each.get("condition")), str(each.get("against") or NO_SKILL)
