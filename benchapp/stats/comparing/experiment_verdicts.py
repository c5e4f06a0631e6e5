"""Did skills help? One answer for each finished experiment of a list, computed once and kept until a number changes."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass

from benchapp.models import Experiment, Run
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.columns import outcomes_of
from benchapp.stats.comparing.comparison import GroupComparison
from benchapp.stats.comparing.declared_hypotheses import correct_hypotheses
from benchapp.stats.comparing.effects import Effect, answer_question, judge_effect, say_so_far
from benchapp.stats.comparing.groups import Group
from benchapp.stats.comparing.selection import MAX_RUNS
from benchapp.stats.inference.correction import correct
from benchapp.stats.inference.difference import Difference
from benchapp.stats.learning.computed_runs import Recent
from benchapp.stats.learning.kept_files import keep_fact, take_fact
from benchapp.stats.metrics.catalogue import DEFAULT_METRIC, METRICS, TABLES, table_for
from benchapp.stats.metrics.metric import TrialMetric

TELLING = (Effect.UP, Effect.LIKELY_UP, Effect.DOWN, Effect.LIKELY_DOWN)  # the first of these is the headline


@dataclass(frozen=True, slots=True)
class JudgedWay(Shaped):
    """One way to remember against no skill with all else equal. `own`, `other`: means over the tasks both were scored on."""

    condition: str
    label: str
    effect: Effect
    delta: float
    own: float
    other: float
    low: float | None
    high: float | None

    json_shape = JsonShape("condition", "label", "effect", "delta", "own", "other", "low", "high")


@dataclass(frozen=True, slots=True)
class ExperimentVerdict(Shaped):
    """`ways`: those that could be held against no skill, effects corrected together. Empty where nothing could."""

    answer: str
    metric: str
    ways: tuple[JudgedWay, ...]
    has_baseline: bool
    is_baseline_alone: bool  # every run is without a skill: skills are missing, not a baseline
    episodes: int  # of which the difference with the most is about

    json_shape = JsonShape("answer", "metric", "ways")

    @property
    def headline(self) -> JudgedWay | None:
        """The way that tells most: clearly better before likely better before worse, the largest first."""
        for effect in TELLING:
            if found := [way for way in self.ways if way.effect is effect]:
                return max(found, key=lambda way: abs(way.delta))
        return None

    @property
    def effect(self) -> Effect:
        """Of the whole row, where no way stands out."""
        effects = {way.effect for way in self.ways}
        if self.headline:
            return self.headline.effect
        if effects == {Effect.SAME}:
            return Effect.SAME
        return Effect.OPEN if effects - {Effect.UNTESTED} else Effect.UNTESTED

    @property
    def gain(self) -> float | None:
        """The largest gain, for sorting."""
        return max((way.delta for way in self.ways), default=None)

    def count(self, *effects: Effect) -> int:
        return sum(way.effect in effects for way in self.ways)

    @property
    def better(self) -> int:
        return self.count(Effect.UP)

    @property
    def worse(self) -> int:
        return self.count(Effect.DOWN)


KEPT: Recent[Hashable, ExperimentVerdict] = Recent(5_000)
FACT = "verdict"  # its name on disk


def judge_experiments(experiments: Mapping[Experiment, Sequence[Run]]) -> dict[int, ExperimentVerdict]:
    """Experiment pk -> verdict, of every one given; they must have ended. Reads the trials of those not at hand together."""
    found = {each: _take(each, runs) for each, runs in experiments.items()}
    missing = {each: list(experiments[each])[:MAX_RUNS] for each, verdict in found.items() if verdict is None}
    if missing:
        outcomes_of([run for runs in missing.values() for run in runs])  # at hand from here on
    return {each.pk: verdict or _judge_and_keep(each, experiments[each]) for each, verdict in found.items()}


def _take(experiment: Experiment, runs: Sequence[Run]) -> ExperimentVerdict | None:
    """What is at hand in this process or on its disk."""
    key = _make_key(experiment, runs)
    if (kept := KEPT.get(key)) or (fact := take_fact(experiment, FACT, key)) is None:
        return kept
    ways = tuple(JudgedWay(**{**way, "effect": Effect(way["effect"])}) for way in fact["ways"])
    verdict = ExperimentVerdict(**{**fact, "ways": ways})
    KEPT.put(key, verdict)
    return verdict


def _judge_and_keep(experiment: Experiment, runs: Sequence[Run]) -> ExperimentVerdict:
    verdict, key = _judge(experiment, list(runs)[:MAX_RUNS]), _make_key(experiment, runs)
    KEPT.put(key, verdict)
    keep_fact(experiment, FACT, key, asdict(verdict))
    return verdict


def _make_key(experiment: Experiment, runs: Iterable[Run]) -> Hashable:
    return experiment.public_id, tuple((run.public_id, run.revision) for run in runs)


def _judge(experiment: Experiment, runs: Sequence[Run]) -> ExperimentVerdict:
    comparison = GroupComparison(Choices(experiment=(experiment.public_id,)), runs, with_judge=False)
    metric = choose_metric(comparison)
    groups = comparison.groups
    others = [group for group in groups.all if groups.baseline_of(group)]
    pairs = [(group, found) for group in others if (found := comparison.difference(group, metric)) is not None]
    hypotheses = correct_hypotheses(comparison).get(experiment.pk)
    corrected = list(correct([found for _, found in pairs]).decides)
    for at, (group, _) in enumerate(pairs):
        baseline = groups.baseline_of(group)
        if hypotheses and baseline and (listed := hypotheses.find(group, baseline, metric)) is not None:
            corrected[at] = hypotheses.correction.decides[listed]
    ways = tuple(_judge_way(*pair, p, metric) for pair, p in zip(pairs, corrected, strict=True))
    episodes = max((found.clusters for _, found in pairs), default=0)
    answer = answer_question([way.effect for way in ways], episodes)
    if any(way.effect.is_found for way in ways) and _is_early(comparison, [group for group, _ in pairs], metric):
        answer = say_so_far(answer)
    alone = all(map(groups.is_baseline, groups.all))
    return ExperimentVerdict(answer, metric.key, ways, bool(others), alone, episodes)


def _is_early(comparison: GroupComparison, groups: Iterable[Group], metric: TrialMetric) -> bool:
    """Whether one of them was stopped before its end."""
    pairs = ((group, comparison.groups.baseline_of(group)) for group in groups)
    return any(baseline and comparison.evidence(group, baseline, metric, 1) for group, baseline in pairs)


def choose_metric(comparison: GroupComparison) -> TrialMetric:
    """Deployment success; where nothing was deployed, the first share of the table that fits these trials."""
    metric = METRICS[DEFAULT_METRIC]
    if comparison.has(metric):
        return metric
    fitting = TABLES[table_for(comparison.outcomes.values())]
    return next((each for each in fitting if each.is_share and comparison.has(each)), metric)


def _judge_way(group: Group, found: Difference, corrected: float | None, metric: TrialMetric) -> JudgedWay:
    interval = found.interval
    return JudgedWay(
        condition=group.condition,
        label=group.label,
        effect=judge_effect(found, corrected, metric),
        delta=found.delta,
        own=found.own,
        other=found.other,
        low=interval.low if interval else None,
        high=interval.high if interval else None,
    )
