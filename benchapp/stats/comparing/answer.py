"""The answer of a comparison: every group judged against its baseline in every primary metric, under one heading; and
the plans behind *To be sure*, with the spreads and costs of the runs that the comparison holds."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import combinations
from math import isclose

import numpy as np

from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.comparing.comparison import GroupComparison
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.comparing.effects import (
    NO_VERDICT_YET,
    Effect,
    answer_question,
    describe_effect,
    difference_in_words,
    judge_effect,
    name_claim,
    name_effect,
)
from benchapp.stats.comparing.groups import MODEL, Group
from benchapp.stats.comparing.hypotheses import correct_hypotheses, find_declared, judge_difference
from benchapp.stats.inference.difference import Claim, Difference, correct_together
from benchapp.stats.inference.model import ClaimTest
from benchapp.stats.inference.pooling import PooledEffect, pool_models
from benchapp.stats.inference.sides import Paired, pair
from benchapp.stats.metrics.metric import Better, TrialMetric
from benchapp.stats.metrics.spending import RunSpending, spending_of
from benchapp.stats.planning import Design, DesignCost, Route, RunCost, Settling, measure_pairs

FEWEST = 3  # two conditions have a verdict with the same meaning
MOST_PAIRS = 300  # of all models shown: about a second
MOST_BASELINES = 4  # with plans in one comparison; beyond, every experiment's own page has them


@dataclass(frozen=True, slots=True)
class RankRange(Shaped):
    """The ranks that the data leave possible for one condition among all of one model, 1 at the top."""

    group: Group
    best: int
    worst: int
    of: int

    json_shape = JsonShape("label=group.label best worst of")

    @property
    def sentence(self) -> str:
        return f"{self.best} of {self.of}" if self.best == self.worst else f"{self.best} to {self.worst} of {self.of}"


@dataclass(frozen=True, slots=True)
class Ranks(Shaped):
    """The ranks of every model.
    `pairs`: the number of comparisons behind them, over all models; with too many there are no ranges."""

    pairs: int
    models: int
    ranges: tuple[RankRange, ...]

    json_shape = JsonShape("pairs ranges")

    @property
    def by_group(self) -> dict[tuple[object, ...], RankRange]:
        return {each.group.identity: each for each in self.ranges}


def rank_groups(comparison: GroupComparison, metric: TrialMetric) -> Ranks | None:
    """Rank every model with at least three scored conditions; None without one. Cached with the comparison."""
    by_arm: dict[tuple[object, ...], list[Group]] = {}
    for group in sorted(comparison.groups.all, key=lambda group: group.order):
        if comparison.cell(group, metric).value is not None:
            by_arm.setdefault(group.arm, []).append(group)
    arms = [arm for arm in by_arm.values() if len(arm) >= FEWEST]
    if not arms or metric.better is Better.NEITHER:
        return None
    pairs = sum(len(arm) * (len(arm) - 1) // 2 for arm in arms)

    def rank() -> Ranks:
        ranges = (each for arm in arms for each in _rank_arm(comparison, metric, arm)) if pairs <= MOST_PAIRS else ()
        return Ranks(pairs, len(arms), tuple(ranges))

    return comparison.once(("ranks", metric.key), rank)


def _rank_arm(comparison: GroupComparison, metric: TrialMetric, arm: Sequence[Group]) -> Iterator[RankRange]:
    # Pairs with a baseline come first, like every difference to it.
    pairs = list(combinations(sorted(arm, key=comparison.groups.is_baseline), 2))
    is_final = not any(group.is_unfinished for group in arm)
    above = dict.fromkeys((group.identity for group in arm), 0)
    below = dict(above)
    differences = correct_together([comparison.between(*pair, metric) for pair in pairs])
    for (own, other), difference in zip(pairs, differences, strict=True):
        effect = judge_effect(difference, metric, is_final=is_final)
        if effect.is_clear:
            better, worse = (own, other) if effect is Effect.BETTER else (other, own)
            above[worse.identity] += 1
            below[better.identity] += 1
    for group in arm:
        yield RankRange(group, 1 + above[group.identity], len(arm) - below[group.identity], len(arm))


@dataclass(frozen=True, slots=True)
class AcrossModels(Shaped):
    """One condition against the baseline over agent models, each counted once. `source`: a paper; empty: own runs."""

    condition: str
    pooled: PooledEffect
    source: str = ""

    json_shape = JsonShape("condition source? *pooled")


def pool_conditions(comparison: GroupComparison, metric: TrialMetric) -> list[AcrossModels]:
    """Pool every condition that at least three agent models were tried with, each once."""
    found: dict[str, dict[str, list[ClaimTest]]] = {}
    for group, baseline in comparison.groups.pairs:
        difference = comparison.between(group, baseline, metric)
        if difference and difference.test and group.agent_model == baseline.agent_model:
            found.setdefault(group.condition, {}).setdefault(group.agent_model, []).append(difference.test)
    pooled = {
        condition: pool_models([test.delta for (test,) in models.values()], [test.error for (test,) in models.values()])
        for condition, models in found.items()
        if all(len(tests) == 1 for tests in models.values())  # of several authors or harnesses none is chosen
    }
    known = sorted(pooled, key=lambda condition: name_condition(condition).order)
    return [AcrossModels(condition, each) for condition in known if (each := pooled[condition])]


class JudgedGroup(Shaped):
    """One group in one metric, against its baseline. `questions`: of all groups judged in this metric. `is_primary`:
    may the metric earn a verdict? `interim`: evidence before the end. `is_declared`: before the run; None where the
    experiment declares nothing."""

    json_shape = JsonShape(
        "label=group.label metric=metric.key delta=difference.delta p_holm=difference.p claim=difference.claim",
        "effect more=route.more? more_of=route.units? *interim *declaration",
    )

    def __init__(
        self,
        comparison: GroupComparison,
        metric: TrialMetric,
        group: Group,
        baseline: Group,
        difference: Difference,
        questions: OpenQuestions,
    ) -> None:
        self.group, self.baseline, self.metric = group, baseline, metric
        self.difference, self.questions = difference, questions
        self.cell = comparison.cell(group, metric)
        self.interim = comparison.evidence(group, baseline, metric, difference.comparisons)
        is_declared = find_declared(comparison, group, baseline, metric) is not None
        can_be_declared = group.first.experiment_id in correct_hypotheses(comparison) and not group.side
        self.is_declared = is_declared if can_be_declared else None
        self.is_primary = is_declared or metric.key == comparison.primary_metric.key

    @cached_property
    def effect(self) -> Effect:
        return judge_effect(self.difference, self.metric, is_final=self.is_primary and not self.is_unfinished)

    @property
    def declaration(self) -> dict[str, bool] | None:
        return None if self.is_declared is None else {"declared_before_run": self.is_declared}

    @property
    def is_unfinished(self) -> bool:
        return self.group.is_unfinished or self.baseline.is_unfinished

    @property
    def words(self) -> str:
        """Return the verdict, or that it is too early for one; empty for a metric without verdicts."""
        if self.is_unfinished:
            return NO_VERDICT_YET
        return "" if self.effect is Effect.ESTIMATE else describe_effect(self.effect, self.difference)

    @property
    def short(self) -> str:
        """Return the verdict without its scope, which is in `claim`."""
        return name_effect(self.effect, self.difference) if self.words and not self.is_unfinished else self.words

    @property
    def claim(self) -> str:
        """Return the scope of the verdict, with whether it also holds for reruns if it is about these runs."""
        claim, rerun = name_claim(self.effect, self.difference), self.difference.rerun_interval
        if not claim or rerun is None or not self.effect.is_clear:
            return claim
        return f"{claim}, and if rerun" if rerun.excludes_zero else f"{claim}; not shown if rerun"

    @property
    def sentence(self) -> str:
        return difference_in_words(self.difference, self.group, self.baseline, self.metric, self.words)

    @property
    def settling(self) -> Settling | None:
        is_asked = self.effect is Effect.OPEN or (self.effect is Effect.TOO_SMALL and self.difference.test is not None)
        return self.questions.settle(self.group, self.baseline) if is_asked else None

    @property
    def route(self) -> Route | None:
        """Return how much more of what the deciding claim counts would settle an open difference of 10 points.
        None if no plan does."""
        if (settling := self.settling) is None:
            return None
        return settling.find_route("episode" if self.difference.claim is Claim.ONE_RUN else "replicate")


def judge_groups(comparison: GroupComparison, metric: TrialMetric) -> list[JudgedGroup]:
    """Judge every group that shares a scored task with its baseline."""
    found = [
        (group, baseline, difference)
        for group, baseline in comparison.groups.pairs
        if (difference := judge_difference(comparison, group, metric)) is not None
    ]
    questions = OpenQuestions(comparison, metric, [(group, baseline) for group, baseline, _ in found])
    return [JudgedGroup(comparison, metric, *each, questions) for each in found]


def can_have_verdict(comparison: GroupComparison, metric: TrialMetric) -> bool:
    """Is the metric the primary one, or one that these experiments declared? All others are estimates."""
    declared = (each for corrected in correct_hypotheses(comparison).values() for each in corrected.hypotheses)
    return metric.key == comparison.primary_metric.key or any(each.metric.key == metric.key for each in declared)


def arrange(groups: Iterable[Group]) -> list[Group]:
    """Sort by condition, never by value, within each model of an experiment, and these as they first occur."""
    found = list(groups)
    arms = {arm: place for place, arm in enumerate(dict.fromkeys(group.arm for group in found))}
    return sorted(found, key=lambda group: (arms[group.arm], group.order))


class Answer:
    """`metric`: the subject of the heading."""

    def __init__(self, comparison: GroupComparison, metric: TrialMetric) -> None:
        self.comparison = comparison
        self.metric = metric

    @cached_property
    def judged(self) -> list[JudgedGroup]:
        return judge_groups(self.comparison, self.metric)

    @cached_property
    def ranks(self) -> Ranks | None:
        return rank_groups(self.comparison, self.metric)

    @property
    def declared(self) -> int | None:
        """Return how many differences of the heading's metric were declared before the run; None if no experiment
        declares any."""
        stated = [each.is_declared for each in self.judged if each.is_declared is not None]
        return sum(stated) if stated else None

    @property
    def tested(self) -> list[JudgedGroup]:
        """Return the groups behind the headline: single trials of one more experiment do not change it."""
        return [each for each in self.judged if each.effect is not Effect.TOO_SMALL]

    @property
    def episodes(self) -> int:
        return max((each.difference.clusters for each in self.judged), default=0)

    @cached_property
    def best(self) -> JudgedGroup | None:
        """Return the group with the largest of the surest gains, or the largest difference if no direction is a gain.
        None without a comparison."""
        better = [each for each in self.judged if each.effect is Effect.BETTER]
        return max(better or self.tested or self.judged, key=self._gain, default=None)

    @property
    def alike(self) -> list[JudgedGroup]:
        """Return the best group and all that equal it by value and by effect, in the order of every list."""
        best = self.best
        found = [
            each
            for each in self.judged
            if best and each.effect is best.effect and isclose(each.difference.delta, best.difference.delta)
        ]
        places = {group.identity: place for place, group in enumerate(arrange(each.group for each in found))}
        return sorted(found, key=lambda each: places[each.group.identity])

    def is_ahead(self, judged: JudgedGroup) -> bool:
        """Is it better than its baseline by value? Never where no direction is better."""
        return self.metric.has_better and self._gain(judged)[0] > 0

    def _gain(self, judged: JudgedGroup) -> tuple[float, tuple[int, int]]:
        """Return a sort key. Equal gains: the one further down the list, which was revised more."""
        delta, name = judged.difference.delta, name_condition(judged.group.condition)
        gain = {Better.LOWER: -delta, Better.HIGHER: delta, Better.NEITHER: abs(delta)}[self.metric.better]
        return gain, name.order if name.origin else (-1, 0)

    def count(self, *effects: Effect) -> int:
        return sum(each.effect in effects for each in self.judged)

    @property
    def asks_for_help(self) -> bool:
        """Is more of the metric help? Not for amounts, nor for how often skills are used."""
        return self.metric.is_share and self.metric.has_better

    @property
    def question(self) -> str:
        baseline = self.comparison.groups.baseline
        if self.comparison.is_without_model:
            solved = all(group.harness == "oracle" for group in self.comparison.groups.all)
            return "Do the tasks’ own solutions pass?" if solved else "What passes without a model?"
        if self.comparison.groups.names_no_condition:
            return "How often did they pass?"
        if self.comparison.groups.compares_with_no_skill:
            return "Did skills help?" if self.asks_for_help else "What did skills change?"
        if baseline.startswith(MODEL):
            return f"How do models differ from {baseline.removeprefix(MODEL)}?"
        return f"How do groups differ from “{name_condition(baseline).title}”?"

    @property
    def is_comparable(self) -> bool:
        """Can one heading cover all groups? Not if setups of several experiments differ in more than is compared."""
        experiments = {run.experiment_id for run in self.comparison.runs}
        if self.comparison.choices.sides:  # their setups differ because somebody put them together
            return True
        return len(experiments) < 2 or not self.comparison.setups.differs

    @property
    def heading(self) -> str:
        """Return one sentence about all groups in the chosen metric."""
        effects = [each.effect for each in self.judged]
        if not effects:
            return "Nothing to compare yet."
        if any(each.is_unfinished for each in self.judged):
            return f"{NO_VERDICT_YET.capitalize()}."
        if not self.is_comparable:
            return "Not comparable as a whole."
        if set(effects) == {Effect.ESTIMATE}:
            return f"{Effect.ESTIMATE.words.capitalize()} in this metric."
        is_asked = self.comparison.groups.compares_with_no_skill and self.asks_for_help
        if is_asked or set(effects) == {Effect.TOO_SMALL}:
            clear = [each.difference.claim for each in self.judged if each.effect is not Effect.TOO_SMALL]
            return answer_question(effects, clear)
        found = {effect: count for effect in (Effect.BETTER, Effect.WORSE) if (count := self.count(effect))}
        if found and len(self.tested) == 1:
            (effect,) = found
            words = describe_effect(effect, self.tested[0].difference)
            return f"{words.capitalize()}." if len(effects) == 1 else f"The one group tested is {words}."
        if found:
            counts = (f"{count} {effect.words}" for effect, count in found.items())
            return f"Of {len(self.tested)} groups: {', '.join(counts)}."
        return f"{Effect.OPEN.words.capitalize()}."

    @cached_property
    def worse(self) -> list[JudgedGroup]:
        """Return every group that is clearly worse in the heading's metric."""
        return [each for each in self.judged if each.effect is Effect.WORSE]

    @cached_property
    def still_open(self) -> list[JudgedGroup]:
        return [each for each in self.judged if each.effect is Effect.OPEN]

    @cached_property
    def widest(self) -> JudgedGroup | None:
        """Return the open difference that the data leave the most room for, else the widest of those too small to
        test."""
        too_small = [each for each in self.judged if each.effect is Effect.TOO_SMALL and each.difference.test]
        return max(self.still_open or too_small, key=_measure_width, default=None)

    @property
    def settling(self) -> Settling | None:
        """Return what would settle the open difference."""
        return self.widest.settling if self.widest else None


def _measure_width(judged: JudgedGroup) -> float:
    interval = judged.difference.interval
    return interval.high - interval.low if interval else 0.0


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
            found = judge_difference(self.comparison, group, self.metric)
            expected, _ = design.expect_error(measured.spread)
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
