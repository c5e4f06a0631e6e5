"""What a comparison answers: every group judged against its baseline in every primary metric, and one heading over it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property
from math import isclose

from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.comparing.comparison import GroupComparison, MetricCell
from benchapp.stats.comparing.comparison_sentences import difference_in_words
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.comparing.declared_hypotheses import correct_hypotheses
from benchapp.stats.comparing.effects import CLEAR, LIKELY, Effect, answer_question, judge_effect, say_so_far
from benchapp.stats.comparing.groups import MODEL, Group
from benchapp.stats.comparing.ranks import Ranks, rank_groups
from benchapp.stats.inference.correction import Correction, correct
from benchapp.stats.inference.difference import Difference
from benchapp.stats.inference.interim import InterimEvidence
from benchapp.stats.inference.sentences import say_p
from benchapp.stats.metrics.metric import Better, TrialMetric
from benchapp.stats.planning.open_questions import OpenQuestions
from benchapp.stats.planning.settling import Route, Settling

ORDER = (
    Effect.UP,
    Effect.LIKELY_UP,
    Effect.DIFFERENT,
    Effect.LIKELY_DIFFERENT,
)  # what the best is looked for among, before all others


@dataclass(frozen=True, slots=True)
class Declaration(Shaped):
    """Whether an experiment that declares hypotheses declared this difference."""

    is_declared: bool

    json_shape = JsonShape("declared_before_run=is_declared")


@dataclass(frozen=True, slots=True)
class JudgedGroup(Shaped):
    """One group in one metric, against its baseline. `correction`: over its family, this one at `place` of it. `more`: further
    replicates (or episodes, `more_of`) that would settle a difference of 10 points, of an open one; None where no plan does.
    `questions`: of all groups judged in this metric. `interim`: of runs that have not ended, what may be looked at at any time.
    `declaration`: None where the experiment declares nothing."""

    group: Group
    baseline: Group
    metric: TrialMetric
    cell: MetricCell
    difference: Difference
    correction: Correction
    place: int
    questions: OpenQuestions
    interim: InterimEvidence | None = None
    declaration: Declaration | None = None

    json_shape = JsonShape(
        *("label=group.label", "metric=metric.key", "delta=difference.delta", "p_holm=holm", "p_joint=joint"),
        *(("effect", lambda judged: judged.effect.value), "more?", "more_of?", "*interim", "*declaration"),
    )

    @property
    def holm(self) -> float | None:
        return self.correction.holm[self.place]

    @property
    def joint(self) -> float | None:
        return self.correction.joint[self.place] if self.correction.joint else None

    @property
    def corrected(self) -> float | None:
        """The p that decides."""
        return self.correction.decides[self.place]

    @property
    def effect(self) -> Effect:
        return judge_effect(self.difference, self.corrected, self.metric)

    @property
    def says(self) -> str:
        """One sentence, and what is left of its p after the correction."""
        said = difference_in_words(self.difference, self.group, self.baseline, self.metric)
        if self.corrected is None or self.effect is Effect.UNTESTED or len(self.correction.holm) == 1:
            return said
        how = self.correction.says
        return f"{said} {how[0].upper()}{how[1:]}: {say_p(self.corrected)}."

    @property
    def settling(self) -> Settling | None:
        return self.questions.settle(self.group, self.baseline) if self.effect is Effect.OPEN else None

    @property
    def _route(self) -> Route | None:
        """More of what the test that decided counts."""
        if (settling := self.settling) is None:
            return None
        return settling.find_route("replicate" if self.difference.method == "welch" else "episode")

    @property
    def more(self) -> int | None:
        return self._route.more if self._route else None

    @property
    def more_of(self) -> str | None:
        return self._route.units if self._route else None


def judge_groups(comparison: GroupComparison, metric: TrialMetric) -> list[JudgedGroup]:
    """Every group that shares a scored task with its baseline, corrected over its family; what was declared before the run, over
    what was declared."""
    groups = comparison.groups
    pairs = [(group, baseline) for group in groups.all if (baseline := groups.baseline_of(group)) is not None]
    found = [
        (*pair, difference) for pair in pairs if (difference := comparison.difference(pair[0], metric)) is not None
    ]
    questions = OpenQuestions(comparison, metric, [(group, baseline) for group, baseline, _ in found])
    judged, hypotheses = {}, correct_hypotheses(comparison)
    planned = {pairs[at][0].identity: len(family) for family in split_families(pairs) for at in family}
    for family in split_families([pair[:2] for pair in found]):
        correction = correct([found[at][2] for at in family])
        for place, at in enumerate(family):
            own = hypotheses.get(found[at][0].first.experiment_id)
            listed = own.find(*found[at][:2], metric) if own else None
            corrected = (correction, place) if own is None or listed is None else (own.correction, listed)
            group, baseline, difference = found[at]
            interim = (
                comparison.evidence(group, baseline, metric, planned[group.identity])
                if own is None or listed is None
                else own.hypotheses[listed].interim
            )
            judged[at] = JudgedGroup(
                *(group, baseline, metric, comparison.cell(group, metric), difference, *corrected, questions, interim),
                Declaration(listed is not None) if own else None,
            )
    return [judged[at] for at in range(len(found))]


def split_families(pairs: Sequence[tuple[Group, Group]]) -> list[list[int]]:
    """The places of what is corrected together: the groups of one experiment, and those of experiments that share a group or
    use a baseline of each other. Each experiment asks a question of its own, so that what else is shown beside it changes no
    verdict."""
    reached = [{run.experiment_id for group in pair for run in group.runs} for pair in pairs]
    families: list[set[int]] = []
    for own in reached:
        joined = own.union(*(each for each in families if each & own))
        families = [*(each for each in families if not each & own), joined]
    return [[at for at, own in enumerate(reached) if own <= family] for family in families]


def arrange(groups: Iterable[Group]) -> list[Group]:
    """By condition in the order of every list, never by value, within each model of an experiment as it first comes."""
    found = list(groups)
    arms = {arm: place for place, arm in enumerate(dict.fromkeys(map(_arm, found)))}
    return sorted(found, key=lambda group: (arms[_arm(group)], name_condition(group.condition).order))


def _arm(group: Group) -> tuple[object, ...]:
    return group.first.experiment_id, group.agent_model, group.harness


class Answer:
    """`metric`: the one the heading is about. `metrics`: the primary ones, all shares of the table shown."""

    def __init__(self, comparison: GroupComparison, metrics: Sequence[TrialMetric], metric: TrialMetric) -> None:
        self.comparison = comparison
        self.metric = metric
        self.metrics = tuple(each for each in metrics if each.is_share) or (metric,)

    @cached_property
    def by_metric(self) -> dict[str, list[JudgedGroup]]:
        asked = {each.key: each for each in (*self.metrics, self.metric)}
        return {key: judge_groups(self.comparison, each) for key, each in asked.items()}

    @property
    def judged(self) -> list[JudgedGroup]:
        return self.by_metric[self.metric.key]

    @cached_property
    def ranks(self) -> Ranks | None:
        return rank_groups(self.comparison, self.metric)

    @property
    def corrections(self) -> list[Correction]:
        """Of the heading's metric, one for each family."""
        return list({id(each.correction): each.correction for each in self.judged}.values())

    @property
    def declared(self) -> int | None:
        """How many of the heading's metric were declared before the run; None where no experiment declares any."""
        stated = [each.declaration for each in self.judged if each.declaration]
        return sum(each.is_declared for each in stated) if stated else None

    @property
    def is_joint(self) -> bool:
        """Whether joint flips decide in every family with a p value."""
        return all(each.joint is not None for each in self.corrections if any(each.holm))

    @property
    def tested(self) -> list[JudgedGroup]:
        """The headline is about these: single trials of one more experiment do not change it."""
        return [each for each in self.judged if each.effect is not Effect.UNTESTED]

    @property
    def every(self) -> list[JudgedGroup]:
        """All groups in all primary metrics."""
        return [each for judged in self.by_metric.values() for each in judged]

    @property
    def episodes(self) -> int:
        return max((each.difference.clusters for each in self.judged), default=0)

    @property
    def is_few(self) -> bool:
        """One learning run a side over fewer than six episodes: trials are drawn then, and no intervals."""
        alone = all(group.replicates == 1 for group in self.comparison.groups.all)
        return alone and bool(self.judged) and all(each.effect is Effect.UNTESTED for each in self.judged)

    @cached_property
    def best(self) -> JudgedGroup | None:
        """Of those with the surest gain the one with the largest; None where nothing could be compared. Where no direction is a
        gain, the largest difference."""
        for effect in ORDER:
            if sure := [each for each in self.judged if each.effect is effect]:
                return max(sure, key=self._gain)
        return max(self.tested or self.judged, key=self._gain, default=None)

    @property
    def alike(self) -> list[JudgedGroup]:
        """The best and all that are no worse than it by value and by effect, in the order of every list."""
        best = self.best
        found = [
            each
            for each in self.judged
            if best and each.effect is best.effect and isclose(each.difference.delta, best.difference.delta)
        ]
        places = {group.identity: place for place, group in enumerate(arrange(each.group for each in found))}
        return sorted(found, key=lambda each: places[each.group.identity])

    def is_ahead(self, judged: JudgedGroup) -> bool:
        """Whether it does better than its baseline by value; never where no direction is better."""
        return self.metric.has_better and self._gain(judged)[0] > 0

    def _gain(self, judged: JudgedGroup) -> tuple[float, int]:
        """Equal gains: the one further down the list, which was revised more."""
        delta, name = judged.difference.delta, name_condition(judged.group.condition)
        gain = {Better.LOWER: -delta, Better.HIGHER: delta, Better.NEITHER: abs(delta)}[self.metric.better]
        return gain, name.order if name.origin else -1

    def of_best(self, metric: TrialMetric) -> JudgedGroup | None:
        """The group that is best in the heading's metric, in this one."""
        best = self.best
        found = (each for each in self.by_metric[metric.key] if best and each.group.identity == best.group.identity)
        return next(found, None)

    def count(self, *effects: Effect) -> int:
        return sum(each.effect in effects for each in self.judged)

    @property
    def asks_for_help(self) -> bool:
        """Whether more of the metric is help: not of amounts, nor of how often skills are used."""
        return self.metric.is_share and self.metric.has_better

    @property
    def question(self) -> str:
        baseline = self.comparison.choices.baseline
        if self.comparison.is_without_model:
            solved = all(group.harness == "oracle" for group in self.comparison.groups.all)
            return "Do the tasks’ own solutions pass?" if solved else "What passes without a model?"
        if self.comparison.groups.compares_with_no_skill:
            return "Did skills help?" if self.asks_for_help else "What did skills change?"
        if baseline.startswith(MODEL):
            return f"How do models differ from {baseline.removeprefix(MODEL)}?"
        return f"How do groups differ from “{name_condition(baseline).title}”?"

    @property
    def heading(self) -> str:
        """One sentence about all groups in the metric asked for."""
        is_early = bool(self.comparison.unfinished) or any(each.interim for each in self.judged)
        is_found = any(each.effect.is_found for each in self.judged)
        return say_so_far(self._conclusion) if is_early and is_found else self._conclusion

    @property
    def _conclusion(self) -> str:
        effects = [each.effect for each in self.judged]
        if not effects:
            return "Nothing to compare yet."
        is_asked = self.comparison.groups.compares_with_no_skill and self.asks_for_help
        if is_asked or set(effects) == {Effect.UNTESTED}:
            return answer_question(effects, self.episodes)
        found = {effect: count for effect in CLEAR if (count := self.count(effect))}
        if found and len(self.tested) == 1:
            (effect,) = found
            return f"{effect.value.capitalize()}." if len(effects) == 1 else f"The one group tested is {effect.value}."
        if found:
            counts = (f"{count} {effect.value}" for effect, count in found.items())
            return f"Of {len(self.tested)} groups: {', '.join(counts)}."
        if any(effect.is_likely for effect in effects):
            return "A likely difference, but not beyond doubt."
        return "Not clear yet."

    @property
    def elsewhere(self) -> list[tuple[TrialMetric, dict[Effect, int]]]:
        """Other primary metrics with a difference that leaves out zero, and how many groups show each effect."""
        found = []
        for metric in self.metrics:
            if metric.key != self.metric.key:
                effects = [each.effect for each in self.by_metric[metric.key]]
                counts = {effect: effects.count(effect) for effect in (*CLEAR, *LIKELY) if effect in effects}
                found += [(metric, counts)] if counts else []
        return found

    @cached_property
    def worse(self) -> list[JudgedGroup]:
        """Every group that got worse, clearly or likely, in the heading's metric, else in another primary one."""
        first = {self.metric.key: self.judged, **self.by_metric}
        found: dict[tuple[object, ...], JudgedGroup] = {}
        for effect in (Effect.DOWN, Effect.LIKELY_DOWN):
            for judged in (each for group in first.values() for each in group if each.effect is effect):
                found.setdefault(judged.group.identity, judged)
        return list(found.values())

    @cached_property
    def still_open(self) -> list[JudgedGroup]:
        return [each for each in self.judged if each.effect is Effect.OPEN]

    @cached_property
    def widest(self) -> JudgedGroup | None:
        """The open difference that the data leave the most room for; None where none is open."""
        return max(self.still_open, key=_measure_width, default=None)

    @property
    def settling(self) -> Settling | None:
        """What would settle what is still open."""
        return self.widest.settling if self.widest else None


def _measure_width(judged: JudgedGroup) -> float:
    interval = judged.difference.interval
    return interval.high - interval.low if interval else 0.0
