"""Differences declared together, and saved comparisons: their subject, their moment, and what they declare."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from django.http import QueryDict
from django.utils import timezone

from benchapp.models import Comparison, Experiment, User
from benchapp.stats.comparing.choices import NO_SKILL, Choices, parse_choices
from benchapp.stats.comparing.comparison import GroupComparison, comparison_of, count_added_since
from benchapp.stats.comparing.condition_names import SEPARATOR
from benchapp.stats.comparing.effects import NO_VERDICT_YET, Effect, describe_effect, difference_in_words, judge_effect
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.difference import Difference, InterimEvidence, correct_together
from benchapp.stats.metrics.catalogue import METRICS, name_metric
from benchapp.stats.metrics.metric import TrialMetric
from runner.base.text import plural


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One declared difference, corrected for all declared ones. `difference`: None where no task was scored on both
    sides. `waiting`: unfinished trials of both sides; `interim`: evidence until they end."""

    group: Group
    baseline: Group
    metric: TrialMetric
    difference: Difference | None
    waiting: int = 0
    interim: InterimEvidence | None = None

    @property
    def effect(self) -> Effect:
        return judge_effect(self.difference, self.metric, is_final=not self.waiting)

    @property
    def is_found(self) -> bool:
        """Is the hypothesis confirmed? Before the end only evidence counts that may be checked at any time."""
        if self.waiting:
            return self.interim is not None and self.interim.is_enough
        return self.difference is not None and self.difference.is_clear

    @property
    def p(self) -> float | None:
        return self.difference.p if self.difference else None

    @property
    def title(self) -> str:
        return self.group.label.split(SEPARATOR)[0]

    @property
    def lines(self) -> list[str]:
        """Return what distinguishes the group beyond its condition."""
        return self.group.label.split(SEPARATOR)[1:]

    @property
    def against(self) -> str:
        """Return the baseline by the name that differs: everything else is equal."""
        same = self.baseline.condition == self.group.condition
        return self.baseline.agent_model if same else self.baseline.condition

    @property
    def words(self) -> str:
        return NO_VERDICT_YET if self.waiting else describe_effect(self.effect, self.difference)

    @property
    def sentence(self) -> str:
        if self.difference is None:
            title = name_metric(self.metric).title
            return f"{title}: no task was scored on both sides, so there is nothing to compare."
        return difference_in_words(self.difference, self.group, self.baseline, self.metric, self.words)


Declared = tuple[Group, Group, TrialMetric]  # a group, its baseline, and the metric to compare


@dataclass(frozen=True, slots=True)
class Corrected:
    """Declared differences, corrected together. `missing`: those declared without any run here."""

    hypotheses: tuple[Hypothesis, ...]
    missing: int = 0
    _by_place: Mapping[tuple[object, ...], Hypothesis] = field(default_factory=dict)

    @classmethod
    def of(cls, comparison: GroupComparison, metrics: Iterable[TrialMetric]) -> Corrected:
        """Correct every group that has a baseline x every declared metric."""
        return cls.of_declared(comparison, [(*pair, metric) for metric in metrics for pair in comparison.groups.pairs])

    @classmethod
    def of_declared(cls, comparison: GroupComparison, declared: Sequence[Declared], missing: int = 0) -> Corrected:
        """Correct for everything declared, also for missing differences and those with nothing to compare."""
        planned = len(declared) + missing
        differences = correct_together([comparison.between(*each) for each in declared], planned)
        found = {
            _place(*each): Hypothesis(
                *each,
                difference,
                waiting=comparison.count_waiting(*each[:2]),
                interim=comparison.evidence(*each, planned),
            )
            for each, difference in zip(declared, differences, strict=True)
        }
        return cls(tuple(found.values()), missing, found)

    @property
    def futile(self) -> str:
        """Say why no outcome of these differences could be significant; empty if one could be, or if none is
        compared."""
        compared = [each.difference for each in self.hypotheses if each.difference is not None]
        if not compared or any(each.test is not None for each in compared):
            return ""
        episodes = max(each.clusters for each in compared)
        return (
            f"No result here could be distinguished from chance: {plural(episodes, 'episode')} with one"
            " replicate show too little of it. More episodes, or two replicates of each condition, would."
        )

    def find(self, group: Group, baseline: Group, metric: TrialMetric) -> Hypothesis | None:
        """Return this difference, between the very same runs; None if it was not declared."""
        return self._by_place.get(_place(group, baseline, metric))

    @property
    def total(self) -> int:
        return len(self.hypotheses) + self.missing

    @property
    def found(self) -> int:
        return sum(each.is_found for each in self.hypotheses)

    @property
    def tested(self) -> int:
        return sum(each.p is not None for each in self.hypotheses)

    @property
    def untested_in_words(self) -> str:
        """Name the differences with nothing to compare; empty if all have something."""
        if not (out := sum(each.difference is None for each in self.hypotheses)):
            return ""
        have, counts = ("has", "counts") if out == 1 else ("have", "count")
        return f"{out} of {len(self.hypotheses)} {have} no task scored on both sides, and {counts} all the same."


def _place(group: Group, baseline: Group, metric: TrialMetric) -> tuple[object, ...]:
    """Return a key that ignores direction: a difference and its reverse have one p value."""
    return frozenset(frozenset(run.pk for run in side.runs) for side in (group, baseline)), metric.key


def save_comparison(
    choices: Choices, metrics: Iterable[TrialMetric], *, name: str, user: User | None = None
) -> Comparison:
    """Save a new comparison. Pin the choices to now unless they are pinned;
    replace the link's fingerprint by today's."""
    pinned = choices if choices.pins else choices.but(as_of=timezone.now())
    fingerprint = comparison_of(pinned).fingerprint
    return Comparison.objects.create(
        name=name,
        query=pinned.query(seen=fingerprint),
        metrics=[metric.key for metric in metrics],
        fingerprint=fingerprint,
        created_by=user,
    )


class Reopened:
    """A saved comparison, recomputed from the record, and what has changed in the record since."""

    def __init__(self, saved: Comparison) -> None:
        self.saved = saved
        self.choices, self.problems = parse_choices(QueryDict(saved.query))

    @cached_property
    def comparison(self) -> GroupComparison:
        return comparison_of(self.choices)

    @cached_property
    def metrics(self) -> tuple[TrialMetric, ...]:
        return tuple(METRICS[key] for key in self.saved.metrics if key in METRICS)

    @property
    def unknown_metrics(self) -> list[str]:
        """List the declared metrics that this version does not compute."""
        return [key for key in self.saved.metrics if key not in METRICS]

    @cached_property
    def corrected(self) -> Corrected:
        return Corrected.of(self.comparison, self.metrics)

    @cached_property
    def added(self) -> int:
        return count_added_since(self.choices)

    @property
    def same_numbers(self) -> bool:
        return self.comparison.fingerprint == self.saved.fingerprint

    def moved_on(self) -> list[str]:
        """Return one sentence for each way the record has changed since saving; empty if nothing changed."""
        changes = []
        if self.added:
            came = f"{self.added} {'run that matches' if self.added == 1 else 'runs that match'} came later"
            changes.append(f"{came}, and {'is' if self.added == 1 else 'are'} left out here.")
        if self.comparison.revised:
            trials = self.comparison.revised
            changes.append(
                f"{plural(trials, 'trial')} of these runs {'has' if trials == 1 else 'have'} new or changed"
                " results since; they are left out here."
            )
        if not self.same_numbers:
            changes.append(
                f"The numbers differ from the saved ones (fingerprint {self.comparison.fingerprint}, then"
                f" {self.saved.fingerprint}): results were changed or runs deleted."
            )
        return changes


PLACE = "hypotheses"  # in the file, and in a comparison's cache


def correct_hypotheses(comparison: GroupComparison) -> Mapping[int, Corrected]:
    """Return experiment pk -> its hypotheses, for compared experiments that declare some.

    They are about all runs of the experiment at the moment shown, independent of what else a page shows or leaves out.
    """
    return comparison.once(PLACE, lambda: _correct_each(comparison))


def find_declared(comparison: GroupComparison, group: Group, baseline: Group, metric: TrialMetric) -> Hypothesis | None:
    """Return this declared difference, judged with all that were; None where its experiment did not declare it."""
    declared = None if group.side else correct_hypotheses(comparison).get(group.first.experiment_id)
    return declared.find(group, baseline, metric) if declared else None


def judge_difference(comparison: GroupComparison, group: Group, metric: TrialMetric) -> Difference | None:
    """Judge a group's difference to its baseline with the declared ones if it is declared, else with its family."""
    baseline = comparison.groups.baseline_of(group)
    declared = find_declared(comparison, group, baseline, metric) if baseline else None
    return declared.difference if declared else comparison.family_difference(group, metric)


def list_unknown_metrics(experiment: Experiment) -> list[str]:
    """List metrics that were declared and are not computed by this version."""
    return sorted({metric for metric, _, _ in _read(experiment)} - METRICS.keys())


def _correct_each(comparison: GroupComparison) -> dict[int, Corrected]:
    declaring = {run.experiment_id: run.experiment for run in comparison.runs if run.experiment.spec.get(PLACE)}
    found = {}
    for pk, experiment in declaring.items():
        asked = Choices(experiment=(experiment.public_id,), as_of=comparison.choices.as_of)
        whole = comparison if comparison.choices.key() == asked.key() else comparison_of(asked)
        declared: list[Declared] = []
        missing = 0
        for key, condition, against in _read(experiment):
            if key in METRICS:
                groups = [group for group in whole.groups.all if group.condition == condition]  # each model and author
                pairs = [(group, whole.groups.find_counterpart(group, against, group.agent_model)) for group in groups]
                found_here = [(group, other, METRICS[key]) for group, other in pairs if other is not None]
                declared += found_here
                missing += not found_here
        found[pk] = Corrected.of_declared(whole, declared, missing)
    return found


def _read(experiment: Experiment) -> Iterator[tuple[str, str, str]]:
    """Yield (metric, condition, against). A file from an archive may hold anything."""
    stated = experiment.spec.get(PLACE)
    for each in stated if isinstance(stated, list) else []:
        if isinstance(each, dict):
            yield str(each.get("metric")), str(each.get("condition")), str(each.get("against") or NO_SKILL)
