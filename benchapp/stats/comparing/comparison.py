"""Compare groups of runs: their cells, their differences to a baseline, and what makes them hard to compare."""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Collection, Hashable, Sequence
from copy import copy
from dataclasses import replace
from functools import wraps
from itertools import compress
from statistics import fmean
from typing import Concatenate, Generic, ParamSpec, TypeVar, cast

import numpy as np

from benchapp.models import Run, Task, TaskGroup
from benchapp.models.stand_ins import StandIn, join_stand_ins
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.columns import MAX_NAMED, outcomes_of, read_settled_after
from benchapp.stats.comparing.effects import NO_VERDICT_YET
from benchapp.stats.comparing.groups import Group, Groups
from benchapp.stats.comparing.selection import MAX_RUNS, filter_added, select_runs
from benchapp.stats.inference.difference import (
    Difference,
    InterimEvidence,
    MissingBounds,
    compare,
    correct_together,
    difference_of_means,
)
from benchapp.stats.inference.interval import mean_interval
from benchapp.stats.inference.model import RunFactor, measure_run_factor
from benchapp.stats.inference.shares import Rate
from benchapp.stats.inference.sides import Paired, TaskMeans, pair
from benchapp.stats.judged import ChosenJudge, choose_judge, read_retests, with_judgements
from benchapp.stats.learning.computed_runs import forget_runs
from benchapp.stats.learning.replay_gains import ReplayResult, replay_of
from benchapp.stats.metrics.catalogue import DEFAULT_METRIC, METRICS, TABLES, pick_primary, table_for
from benchapp.stats.metrics.comparability import Comparability
from benchapp.stats.metrics.metric import TrialMetric
from benchapp.stats.metrics.noise import Noise, noise_of
from benchapp.stats.metrics.outcomes import MEASURED, Outcomes, pool
from benchapp.stats.metrics.run_metrics import RunFacts, RunMetric, RunValue, facts_of, mean_of
from benchapp.stats.metrics.splits import PLACES, Split, order_value
from benchapp.stats.metrics.tally import TrialTally
from runner.base.recent import Recent
from runner.base.types import Phase

P = ParamSpec("P")
V = TypeVar("V")

# Columns of a trial that are the same in every database: no keys. Columns newer than saved comparisons are left out, so
# that these keep their fingerprint.
FINGERPRINTED = (
    *("phase", "role", "sample", "ordinal", "tainted"),
    *(name for name in MEASURED if name not in ("skills_invoked", "finished")),
)


class MetricCell(Shaped):
    """One metric of one group. `rate` adds the replicates' counts up; `value` is the mean of the replicates' means.

    interval: of `value`, of a single run: Wilson's for k of n independent trials, from ten on; for a mean over families
    Student's over these, from six on. Several replicates have differences instead.
    """

    json_shape = JsonShape(
        "value",
        ("passed", lambda cell: cell.rate.passed if cell.metric.is_share else None),
        "scored=rate.scored planned=rate.planned",
        ("low", lambda cell: cell.interval and cell.interval[0]),
        ("high", lambda cell: cell.interval and cell.interval[1]),
        "replicates",
    )

    def __init__(self, metric: TrialMetric, outcomes: Sequence[Outcomes]) -> None:
        self.metric = metric
        rates, self.replicates = zip(*map(metric.measure, outcomes), strict=True)
        self.rate = sum(rates, Rate())
        known = [mean for mean in self.replicates if mean is not None]
        self.value = fmean(known) if known else None
        self.interval = metric.interval(outcomes[0]) if len(outcomes) == 1 else None

    @property
    def spread(self) -> tuple[float, float] | None:
        """The interval to draw about `value`: of a single run its own, of several Student's over their means."""
        if self.interval is not None or len(self.replicates) == 1:
            return self.interval
        found = mean_interval(np.array([mean for mean in self.replicates if mean is not None]))
        if found is None:
            return None
        return (max(0.0, found.low), min(1.0, found.high)) if self.metric.is_share else (found.low, found.high)


def _kept(method: Callable[Concatenate[GroupComparison, P], V]) -> Callable[Concatenate[GroupComparison, P], V]:
    """Call once for the same arguments and cache as `once` does. A group is known by its identity, a metric by its
    key."""

    @wraps(method)
    def get(self: GroupComparison, /, *args: P.args, **kwargs: P.kwargs) -> V:
        known = [
            each.identity if isinstance(each, Group) else each.key if isinstance(each, TrialMetric) else each
            for each in args
        ]
        return self.once((method.__name__, *known), lambda: method(self, *args, **kwargs))

    return get


class _Shared(Generic[V]):
    """A property that is computed once, as `once` does."""

    def __init__(self, compute: Callable[[GroupComparison], V]) -> None:
        self.compute, self.__doc__ = compute, compute.__doc__

    def __get__(self, comparison: GroupComparison, owner: object = None) -> V:
        return comparison.once(self.compute.__name__, lambda: self.compute(comparison))


class GroupComparison:
    """Everything the compare pages and charts show, computed on demand and cached.

    One query for the runs, one for trials whose columns are not cached; all else is arithmetic.
    """

    def __init__(self, choices: Choices, runs: Sequence[Run], truncated: int = 0, *, with_judge: bool = True) -> None:
        self.choices = choices
        self.runs = tuple(runs)
        self.truncated = truncated  # runs that match and are not shown: too many
        self.with_judge = with_judge  # one more query, for metrics from a judging model
        self._computed: dict[Hashable, object] = {}  # shared under all choices with the same numbers
        self._drawn: Recent[Hashable, tuple[object]] = Recent(24)

    def under(self, choices: Choices) -> GroupComparison:
        """Return the same numbers and their cache under choices that need no others: another metric, table or
        option."""
        if choices == self.choices:
            return self
        other = copy(self)
        other.choices = choices
        return other

    def once(self, key: Hashable, make: Callable[[], V]) -> V:
        """Return what was made of these numbers, made at the first call and cached as long as they are."""
        if key not in self._computed:
            self._computed[key] = make()
        return cast(V, self._computed[key])

    def draw(self, key: Hashable, make: Callable[[], V]) -> V:
        """Return what one page makes of these numbers under some choices. Only the last few are cached."""
        if (found := self._drawn.get(key)) is None:
            self._drawn.put(key, found := (make(),))
        return cast(V, found[0])

    @_Shared
    def groups(self) -> Groups:
        """The groups. A cancelled run gets no further trials: its current ones are all."""
        going = (run for run in self.runs if run.status != Run.Status.CANCELLED)
        unfinished = {run.pk for run in going if not TrialTally.of(self.outcomes[run.pk]).is_over}
        return Groups.chosen(self.runs, self.choices, unfinished)

    # --- outcomes ------------------------------------------------------------------------------------------------

    @_Shared
    def outcomes(self) -> dict[int, Outcomes]:
        """run pk -> its trials, as the record knew them at the pin."""
        found = with_judgements(outcomes_of(self.runs), self.judge, self.choices.as_of)
        return {pk: outcomes.without(self._later) for pk, outcomes in found.items()} if self._later else found

    @_Shared
    def judge(self) -> ChosenJudge | None:
        """The judge whose scores are the judged metrics."""
        found = choose_judge(self.runs, self.choices.as_of) if self.with_judge else None
        return read_retests(found, self.choices.as_of) if found else None

    @property
    def judged_by(self) -> str:
        """Return one sentence, for every place with a judged metric; empty if nobody judged these runs."""
        return self.judge.say(len(self.judge.passes), len(self.runs)) if self.judge else ""

    @_Shared
    def _later(self) -> set[int]:
        pin = self.choices.as_of
        return read_settled_after(self.runs, pin) if pin else set()

    @property
    def revised(self) -> int:
        """Number of trials that were settled, first or again, after the pin. Their results are left out."""
        return len(self._later)

    @_kept
    def of_group(self, group: Group) -> list[Outcomes]:
        """Return one per replicate. If a side pools runs, their trials together."""
        parts = [[self.outcomes[run.pk] for run in part] for part in group.parts]
        return [pool(part) if len(part) > 1 else part[0] for part in parts]

    @_Shared
    def fingerprint(self) -> str:
        """Twelve hex characters that change with the runs, their names and the results of their trials. Author calls
        and libraries are not part of it: only numbers of whole runs use them."""
        whole = hashlib.sha256()
        for run in sorted(self.runs, key=lambda run: run.public_id):
            agent = (run.author_agent,) if run.author_agent else ()  # so that others keep their fingerprint
            named = (run.condition, run.agent_model, run.author_model, run.harness, run.replicate, *agent)
            whole.update(run.public_id.bytes + repr(named).encode())
            outcomes = self.outcomes[run.pk]
            for name in FINGERPRINTED:
                whole.update(getattr(outcomes, name).tobytes())
        return whole.hexdigest()[:12]

    # --- groups of tasks -----------------------------------------------------------------------------------------

    @_Shared
    def suites(self) -> tuple[int, ...]:
        """Keys of the suites whose tasks these runs tried. An imported experiment itself names none."""
        tasks = np.unique(np.concatenate([each.task for each in self.outcomes.values()] or [np.empty(0, np.int64)]))
        found: set[int] = set()
        for start in range(0, len(tasks), MAX_NAMED):
            named = Task.objects.filter(pk__in=tasks[start : start + MAX_NAMED].tolist()).order_by()
            found |= set(named.values_list("suite", flat=True).distinct())
        return tuple(sorted(found))

    @_Shared
    def attributes(self) -> list[str]:
        """Attributes of the tasks of these suites, to split trials by: one query."""
        return TaskGroup.objects.of_suites(self.suites).list_attributes()

    def split(self, by: str) -> Split:
        """Split by a place, or by one of the attributes: one query."""
        if by in PLACES:
            return Split(by)
        found: dict[str, list[int]] = {}
        rows = TaskGroup.objects.of_suites(self.suites).filter(attribute=by)
        for value, task in rows.values_list("value", "task"):
            found.setdefault(value, []).append(task)
        return Split(by, {value: tuple(found[value]) for value in sorted(found, key=order_value)})

    # --- numbers -------------------------------------------------------------------------------------------------

    @_kept
    def cell(self, group: Group, metric: TrialMetric) -> MetricCell:
        return MetricCell(metric, self.of_group(group))

    def family_difference(self, group: Group, metric: TrialMetric) -> Difference | None:
        """Return the difference to the baseline over the tasks scored on both sides, judged together with its family,
        declared or not: see `judge_difference`. None for a baseline and where nothing can be compared."""
        return self._judge(metric).get(group.identity)

    @_kept
    def _judge(self, metric: TrialMetric) -> dict[Hashable, Difference | None]:
        judged: dict[Hashable, Difference | None] = {}
        for family in self.groups.families:
            planned = [pair for pair in family if self.cell(pair[0], metric).rate.planned]
            found = correct_together([self.between(*pair, metric) for pair in planned])
            judged |= zip((group.identity for group, _ in planned), found, strict=True)
        return judged

    @_kept
    def between(self, group: Group, baseline: Group, metric: TrialMetric) -> Difference | None:
        """Return one difference by itself, before it is judged together with others."""
        found = self._compare_replicates(group, baseline, metric)
        if found is None or not metric.is_share:
            return found
        return replace(found, missing=self._bound_missing(group, baseline, metric))

    def shared_value(self, group: Group, metric: TrialMetric) -> float | None:
        """Return the value of a side over the tasks that its difference uses: over all of its trials it may contradict
        the difference. None for conditions, and for a baseline of several sides, each with tasks of its own."""
        pairs = [pair for pair in self.groups.pairs if group.side and group in pair]
        values = self.paired_values(*pairs[0], metric) if len(pairs) == 1 else None
        return None if values is None else values[0 if pairs[0][0] is group else 1]

    def paired_values(self, group: Group, baseline: Group, metric: TrialMetric) -> tuple[float, float] | None:
        """Return the values of both over the tasks that their difference uses, when its error is not needed."""
        paired = self._pair(group, baseline, metric)
        if paired is None:
            return None
        return float(paired.cells(paired.own).mean()), float(paired.cells(paired.other).mean())

    def _pair(
        self, group: Group, baseline: Group, metric: TrialMetric, runs: Collection[int] | None = None
    ) -> Paired | None:
        """Pair scored replicates; for blocks, only those on both sides. runs: keys of those to take; None: all."""
        own, other = self.sides(group, baseline, metric)
        kept = [
            [
                len(means.task) > 0 and (runs is None or all(run.pk in runs for run in part))
                for part, means in zip(side.parts, found, strict=True)
            ]
            for side, found in ((group, own), (baseline, other))
        ]
        if self.are_blocks(group, baseline):
            kept = [[all(both) for both in zip(*kept, strict=True)]] * 2
        own, other = list(compress(own, kept[0])), list(compress(other, kept[1]))
        return pair(own, other, by_family=metric.macro)

    def _compare_replicates(
        self, group: Group, baseline: Group, metric: TrialMetric, runs: Collection[int] | None = None
    ) -> Difference | None:
        paired = self._pair(group, baseline, metric, runs)
        if paired is None:
            return None
        is_block = self.are_blocks(group, baseline)
        factor = self._measure_factor(group, baseline, metric) if min(paired.replicates) > 1 else None
        judged = self.judge.retests.get(metric.column, 0.0) if metric.is_judged and self.judge else 0.0
        return compare(paired, is_share=metric.is_share, is_block=is_block, factor=factor, measured=judged)

    @_kept
    def are_blocks(self, group: Group, baseline: Group) -> bool:
        """Did each replicate of both run interleaved, with one seed? The recorded times decide, for imports too."""
        sizes = {len(group.runs), group.replicates, len(baseline.runs), baseline.replicates}
        if len(sizes) > 1 or len(group.runs) < 2:  # uneven, alone, or pooled on a side
            return False
        return all(
            own.replicate is not None
            and (own.replicate, own.seed) == (other.replicate, other.seed)
            and self.outcomes[own.pk].is_interleaved_with(self.outcomes[other.pk])
            for own, other in zip(group.runs, baseline.runs, strict=True)
        )

    def _measure_factor(self, group: Group, baseline: Group, metric: TrialMetric) -> RunFactor | None:
        """Measure over all groups with this baseline: those that share blocks with it, or all if this one does not.
        Computed once for all of them."""
        is_block = self.are_blocks(group, baseline)

        def measure() -> RunFactor | None:
            members = [own for own, other in self.groups.pairs if other is baseline and own is not group]
            shown = [own for own in (group, *members) if not is_block or self.are_blocks(own, baseline)]
            sides = [self._task_means(each, metric, None) for each in shown]
            sides.append(self._task_means(baseline, metric, self._reference(baseline, metric)))
            every = [means for side in sides for means in side if len(means.task)]
            paired = pair(every, every[:1], by_family=metric.macro) if every else None  # only to align them
            if paired is None:
                return None
            # A replicate without a result keeps its place, so that those of a block stay aligned.
            rows, empty = iter(paired.cells(paired.own)), np.full(paired.clusters, np.nan)
            cells = [np.stack([next(rows) if len(means.task) else empty for means in side]) for side in sides]
            return measure_run_factor(cells, is_block=is_block)

        return self.once(("factor", baseline.identity, metric.key, is_block), measure)

    def count_waiting(self, *groups: Group) -> int:
        """Count the trials that these still wait for."""
        tallies = [self.tally(group) for group in groups if group.is_unfinished]
        return sum(each.total - each.done for each in tallies)

    def evidence(self, group: Group, baseline: Group, metric: TrialMetric, comparisons: int) -> InterimEvidence | None:
        """Return evidence before the end, over replicates complete on both sides. None when the test decides."""
        if not (group.is_unfinished or baseline.is_unfinished):
            return None
        whole = {run.pk for run in (*group.runs, *baseline.runs) if TrialTally.of(self.outcomes[run.pk]).is_over}
        found = self._compare_replicates(group, baseline, metric, whole)
        return InterimEvidence.of(found, comparisons) if found else None

    def _bound_missing(self, group: Group, baseline: Group, metric: TrialMetric) -> MissingBounds | None:
        """Return bounds for missing verdicts. None also for running runs: their trials are still to come."""
        if not metric.is_of_verdicts or group.is_unfinished or baseline.is_unfinished:
            return None
        trials = sum(each.missing for side in self.sides(group, baseline, metric) for each in side)
        if not trials:
            return None
        phases, own, other = self._reference(baseline, metric), self.of_group(group), self.of_group(baseline)

        def fill(verdict: float, verdict_other: float) -> float:
            means = [metric.task_means(each.fill_missing(verdict)) for each in own]
            against = [metric.task_means(each.fill_missing(verdict_other), phases) for each in other]
            return difference_of_means(means, against, by_family=metric.macro)

        return MissingBounds(trials, fill(0, 0), fill(1, 1), fill(0, 1), fill(1, 0))

    def sides(self, group: Group, baseline: Group, metric: TrialMetric) -> tuple[list[TaskMeans], list[TaskMeans]]:
        """Return the basis of a difference: per replicate of each side the means of its tasks."""
        phases = self._reference(baseline, metric)
        return self._task_means(group, metric, None), self._task_means(baseline, metric, phases)

    @_kept
    def _task_means(self, group: Group, metric: TrialMetric, phases: tuple[Phase, ...] | None) -> list[TaskMeans]:
        """Return the means, kept because a baseline is compared with every other group of its model."""
        return [metric.task_means(outcomes, phases) for outcomes in self.of_group(group)]

    def _reference(self, baseline: Group, metric: TrialMetric) -> tuple[Phase, ...] | None:
        """Compare replay with no-skill's first try at the same tasks (the paper's reference), and with the replay of
        any other baseline that has one."""
        if metric.phases != (Phase.REPLAY,):
            return None
        replayed = any(outcomes.covering((Phase.REPLAY,)).any() for outcomes in self.of_group(baseline))
        against_no_skill = self.groups.compares_with_no_skill and baseline.condition == self.groups.baseline
        if against_no_skill or not replayed:
            return (Phase.ACQUISITION,)
        return None

    @_Shared
    def primary_metric(self) -> TrialMetric:
        """Return the metric that may earn a verdict if no other was declared before the run."""
        fitting = TABLES[table_for(self.outcomes.values())]
        return pick_primary([each for each in fitting if each.is_share and self.has(each)]) or METRICS[DEFAULT_METRIC]

    def has(self, metric: TrialMetric) -> bool:
        """Does any trial count for this metric?"""
        return any(self.cell(group, metric).rate.planned for group in self.groups.all)

    # --- numbers of whole runs -----------------------------------------------------------------------------------

    @_Shared
    def facts(self) -> dict[int, RunFacts]:
        """run pk -> its libraries, decisions and bill. Seven queries, only where numbers of whole runs are shown."""
        return facts_of(self.runs, self.outcomes, self.choices.as_of)

    def run_values(self, group: Group, metric: RunMetric) -> list[RunValue]:
        """Return one per replicate."""
        return [metric.compute(self.facts[run.pk]) for run in group.runs]

    def run_value(self, group: Group, metric: RunMetric) -> RunValue:
        return mean_of(self.run_values(group, metric))

    @_kept
    def replay(self, group: Group) -> ReplayResult | None:
        """Return its replay against its acquisition, minus the baseline's replay of the same tasks if it has one."""
        baseline = self.groups.baseline_of(group)
        return replay_of(self.of_group(group), self.of_group(baseline) if baseline else [])

    @_Shared
    def noise(self) -> Noise:
        return noise_of(self.runs, self.outcomes)

    # --- obstacles to comparing ---------------------------------------------------------------------------------------

    @_Shared
    def setups(self) -> Comparability:
        return Comparability(self.runs)

    @property
    def scripted(self) -> bool:
        return any(run.scripted for run in self.runs)

    @property
    def stand_ins(self) -> frozenset[StandIn]:
        return join_stand_ins(self.runs)

    @property
    def is_without_model(self) -> bool:
        """Did solutions run, or nothing? Then tasks were tried, not skills."""
        return bool(self.runs) and all(run.works_without_model for run in self.runs)

    def tally(self, group: Group) -> TrialTally:
        """Count all trials of its runs, as the record knew them at the pin."""
        return sum((TrialTally.of(outcomes) for outcomes in self.of_group(group)), TrialTally())

    @_Shared
    def unfinished(self) -> str:
        """Return a sentence if runs compared here have unfinished trials; empty if every planned one has ended."""
        still = [group for group in self.groups.all if group.is_unfinished]
        if not still:
            return ""
        tally, groups = sum(map(self.tally, still), TrialTally()), len(self.groups.all)
        which = f"{len(still)} of {groups} groups {'is' if len(still) == 1 else 'are'}"
        if len(still) == groups:
            which = "The only group is" if groups == 1 else f"All {groups} groups are"
        ended = f"{tally.done:,} of {tally.total:,} planned trials have ended"
        return f"{which} unfinished: {ended}. {NO_VERDICT_YET.capitalize()}."

    @_Shared
    def tainted(self) -> int:
        """Count the episodes left out because an operator skipped a trial that later ones were to learn from."""
        return sum(len(np.unique(each.episode[each.tainted])) for each in self.outcomes.values())


def comparison_of(choices: Choices) -> GroupComparison:
    runs = list(select_runs(choices)[: MAX_RUNS + 1])
    truncated = select_runs(choices).count() - MAX_RUNS if len(runs) > MAX_RUNS else 0
    shown = runs[:MAX_RUNS]
    key = choices.key(), tuple((run.public_id, run.revision) for run in shown)
    return RECENT.get_or_make(key, lambda: GroupComparison(choices, shown, truncated)).under(choices)


def count_added_since(choices: Choices) -> int:
    """Count runs that match and came after the pin: announced, and not mixed in."""
    return filter_added(choices).count()


# The last few comparisons of this process: a page, its charts and its exports ask for the same one in turn.
RECENT: Recent[Hashable, GroupComparison] = Recent(8)


def forget() -> None:
    """Clear the cache of this process."""
    RECENT.clear()
    forget_runs()
