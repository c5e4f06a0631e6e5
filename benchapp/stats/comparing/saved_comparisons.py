"""Differences declared to be corrected together, and saved comparisons: what was looked at, as of when, and what it declares."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

from django.http import QueryDict
from django.utils import timezone

from benchapp.models import Comparison, User
from benchapp.stats.comparing.choices import Choices, parse_choices
from benchapp.stats.comparing.comparison import GroupComparison, comparison_of, count_added_since
from benchapp.stats.comparing.comparison_sentences import LEVEL, difference_in_words
from benchapp.stats.comparing.condition_names import SEPARATOR
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.clusters import clusters_for
from benchapp.stats.inference.correction import Correction, correct
from benchapp.stats.inference.difference import Difference
from benchapp.stats.inference.holm import holm
from benchapp.stats.inference.interim import InterimEvidence
from benchapp.stats.inference.replicates import MIN_REPLICATES
from benchapp.stats.inference.sentences import say_p
from benchapp.stats.metrics.catalogue import METRICS
from benchapp.stats.metrics.metric import TrialMetric
from benchapp.stats.metrics.metric_names import say_metric


@dataclass(frozen=True, slots=True)
class Hypothesis:
    """One declared difference. `difference` is None where no task was scored on both sides. `holm`, `joint`: its p, corrected by
    either method; `joint` decides where it is there. `waiting`: trials of both sides that have not ended; `interim`: until then."""

    group: Group
    baseline: Group
    metric: TrialMetric
    difference: Difference | None
    holm: float | None
    joint: float | None
    waiting: int = 0
    interim: InterimEvidence | None = None

    @property
    def corrected(self) -> float | None:
        """The p that decides."""
        return self.holm if self.joint is None else self.joint

    @property
    def is_found(self) -> bool:
        """Before the end only by evidence that may be looked at at any time."""
        is_over = self.interim.is_enough if self.interim else not self.waiting
        return is_over and self.corrected is not None and self.corrected <= LEVEL

    @property
    def p(self) -> float | None:
        return self.difference.p if self.difference else None

    @property
    def title(self) -> str:
        return self.group.label.split(SEPARATOR)[0]

    @property
    def lines(self) -> list[str]:
        """What distinguishes the group beyond its condition."""
        return self.group.label.split(SEPARATOR)[1:]

    @property
    def against(self) -> str:
        """The baseline by the name in which it differs: everything else is equal."""
        same = self.baseline.condition == self.group.condition
        return self.baseline.agent_model if same else self.baseline.condition

    @property
    def says(self) -> str:
        if self.difference is None:
            return f"{say_metric(self.metric)}: no task was scored on both sides, so there is nothing to compare."
        said = difference_in_words(self.difference, self.group, self.baseline, self.metric)
        return (
            said if self.corrected is None else f"{said} Corrected for all that was declared: {say_p(self.corrected)}."
        )


Declared = tuple[Group, Group, TrialMetric]  # a group, what it is held against, and in what


@dataclass(frozen=True, slots=True)
class Corrected:
    """Declared differences, corrected together. `missing`: declared as well, and no run of them is here."""

    hypotheses: tuple[Hypothesis, ...]
    correction: Correction
    missing: int = 0
    _by_place: Mapping[tuple[object, ...], int] = field(default_factory=dict)

    @classmethod
    def of(
        cls, comparison: GroupComparison, metrics: Iterable[TrialMetric], method: str = Comparison.CorrectedBy.JOINT
    ) -> Corrected:
        """Every group that has a baseline x every declared metric."""
        groups = comparison.groups
        pairs = [(group, baseline) for group in groups.all if (baseline := groups.baseline_of(group)) is not None]
        return cls.of_declared(comparison, [(*pair, metric) for metric in metrics for pair in pairs], method)

    @classmethod
    def of_declared(
        cls,
        comparison: GroupComparison,
        declared: Sequence[Declared],
        method: str = Comparison.CorrectedBy.JOINT,
        missing: int = 0,
    ) -> Corrected:
        """`method`: what was declared. With joint flips Holm decides where they cannot be made. What is missing takes its part of a
        correction by Holm and of evidence, as everything declared does that has nothing to compare."""
        differences = [comparison.between(*each) for each in declared]
        every = [*differences, *[None] * missing]
        correction = correct(every, joint=method == Comparison.CorrectedBy.JOINT)
        joint = correction.joint or (None,) * len(every)
        found = tuple(
            Hypothesis(
                *(*named, difference, by_holm, jointly),
                comparison.count_waiting(*named[:2]),
                comparison.evidence(*named, len(every)),
            )
            for named, difference, by_holm, jointly in zip(declared, differences, correction.holm, joint, strict=False)
        )
        return cls(found, correction, missing, {_place(*named): at for at, named in enumerate(declared)})

    @property
    def futile(self) -> str:
        """Why no outcome of these differences could be significant; empty if one could be, or if none is tested."""
        tested = [each.difference for each in self.hypotheses if each.difference is not None]
        if not tested or self._least() <= LEVEL:
            return ""
        clusters, best = max(found.clusters for found in tested), min(map(_find_least_p, tested))
        said = (
            f"with {clusters} episode{'' if clusters == 1 else 's'} the sign-flip test reaches p = {best:.2g} at best"
        )
        count = 1 if self.correction.joint else len(self.hypotheses)
        if count > 1:
            said += f", which is {self._least():.2g} after Holm's correction over {count} differences"
        return f"No result here could be distinguished from chance: {said}. {_explain_needed(count)}"

    def _least(self) -> float:
        """The smallest corrected p that any outcome could give. By Holm with every test at the smallest p it can reach. By joint
        flips that of one test alone: where it stands out from all others in every pattern, they take nothing from it."""
        best = [_find_least_p(each.difference) if each.difference else None for each in self.hypotheses]
        if not self.correction.joint:
            best = [*holm({str(place): p for place, p in enumerate(best)}).values()]
        return min(p for p in best if p is not None)

    def find(self, group: Group, baseline: Group, metric: TrialMetric) -> int | None:
        """The place of this difference, between the very same runs; None where it was not declared."""
        return self._by_place.get(_place(group, baseline, metric))

    @property
    def total(self) -> int:
        return len(self.hypotheses) + self.missing

    @property
    def found(self) -> int:
        return sum(each.is_found for each in self.hypotheses)

    @property
    def tested(self) -> int:
        """Those with a task scored on both sides."""
        return sum(each.p is not None for each in self.hypotheses)

    @property
    def untested(self) -> int:
        return len(self.hypotheses) - self.tested

    @property
    def untested_in_words(self) -> str:
        """What has nothing to compare, and whether the correction counts it; empty where everything has something."""
        if not (out := self.untested):
            return ""
        is_counted = self.correction.counted > self.tested
        have, counts = ("has", "counts") if out == 1 else ("have", "count")
        but = (
            f"{counts} in the correction all the same"
            if is_counted
            else f"{'does' if out == 1 else 'do'} not count in it"
        )
        return f"{out} of {len(self.hypotheses)} {have} no task scored on both sides, and {but}."


def _find_least_p(difference: Difference) -> float:
    """The smallest that any outcome could give. Welch's test, which two replicates a side have, can give any: that their
    replicates have the same means, so that episodes decided, is an outcome."""
    return 0.0 if min(difference.replicates) >= MIN_REPLICATES else difference.smallest_p or 0.0


def _place(group: Group, baseline: Group, metric: TrialMetric) -> tuple[object, ...]:
    """Either way round: a difference and its reverse have one p value."""
    return frozenset(frozenset(run.pk for run in side.runs) for side in (group, baseline)), metric.key


def _explain_needed(differences: int) -> str:
    episodes = clusters_for(LEVEL / differences)
    fewer = ", or fewer differences" if differences > 1 else ""
    more = "More episodes do not help" if episodes is None else f"It takes {episodes} episodes"
    return f"{more}{fewer}, or two replicates or more on both sides."


def save_comparison(
    choices: Choices, metrics: Iterable[TrialMetric], *, name: str, user: User | None = None
) -> Comparison:
    """Save a new comparison. Pin the choices to now unless they are pinned; replace the link's fingerprint by today's."""
    pinned = choices if choices.pins else choices.but(as_of=timezone.now())
    fingerprint = comparison_of(pinned).fingerprint
    return Comparison.objects.create(
        name=name,
        query=pinned.query(seen=fingerprint),
        metrics=[metric.key for metric in metrics],
        correction=Comparison.CorrectedBy.JOINT,
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
        """Declared then, and not computed by this version."""
        return [key for key in self.saved.metrics if key not in METRICS]

    @cached_property
    def corrected(self) -> Corrected:
        """By the method that it was saved with."""
        return Corrected.of(self.comparison, self.metrics, self.saved.correction)

    @cached_property
    def added(self) -> int:
        return count_added_since(self.choices)

    @property
    def same_numbers(self) -> bool:
        return self.comparison.fingerprint == self.saved.fingerprint

    def moved_on(self) -> list[str]:
        """One sentence for each way in which the record is no longer what was saved; empty: everything is as it was."""
        said = []
        if self.added:
            came = f"{self.added} {'run that matches' if self.added == 1 else 'runs that match'} came later"
            said.append(f"{came}, and {'is' if self.added == 1 else 'are'} left out here.")
        if self.comparison.revised:
            trials = self.comparison.revised
            said.append(
                f"{trials} trial{'' if trials == 1 else 's'} of these runs {'has' if trials == 1 else 'have'} new or changed"
                " results since; they are left out here."
            )
        if not self.same_numbers:
            said.append(
                f"The numbers differ from the saved ones (fingerprint {self.comparison.fingerprint}, then"
                f" {self.saved.fingerprint}): results were changed or runs deleted."
            )
        return said
