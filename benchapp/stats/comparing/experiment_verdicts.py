"""Did skills help? One answer for each finished experiment of a list, computed once and kept until a number changes."""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import asdict, dataclass

from benchapp.models import Experiment, Run
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.comparing.answer import Answer
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.columns import outcomes_of
from benchapp.stats.comparing.comparison import GroupComparison
from benchapp.stats.comparing.effects import Effect
from benchapp.stats.comparing.selection import MAX_RUNS
from benchapp.stats.learning.computed_runs import keep_fact, take_fact
from benchapp.stats.metrics.amounts import render_signed
from runner.base.recent import Recent

HEADLINES = (Effect.BETTER, Effect.WORSE)


@dataclass(frozen=True, slots=True)
class JudgedWay(Shaped):
    """One way to remember against no skill with all else equal."""

    condition: str
    label: str
    effect: Effect
    words: str
    delta: float
    # own, other: means over the tasks both were scored on
    own: float
    other: float
    low: float | None
    high: float | None

    @property
    def around(self) -> str:
        """Return its interval in points; empty without one."""
        if self.low is None or self.high is None:
            return ""
        return f"{render_signed(100 * self.low, 0)} to {render_signed(100 * self.high, 0)}"


@dataclass(frozen=True, slots=True)
class ExperimentVerdict(Shaped):
    """`ways`: those that could be compared with no skill, effects corrected together. Empty if none could."""

    answer: str
    metric: str
    ways: tuple[JudgedWay, ...]
    has_baseline: bool
    is_baseline_alone: bool  # every run is without a skill: skills are missing, not a baseline
    episodes: int  # behind the difference with the most

    json_shape = JsonShape("answer metric ways")

    @property
    def headlines(self) -> list[JudgedWay]:
        """Return the ways to name first: the largest clear gain and the largest clear loss."""
        clear = ([way for way in self.ways if way.effect is effect] for effect in HEADLINES)
        return [max(found, key=lambda way: abs(way.delta)) for found in clear if found]

    @property
    def effect(self) -> Effect:
        """Return the effect of the whole row, if no way is clear."""
        effects = {way.effect for way in self.ways}
        if self.headlines:
            return self.headlines[0].effect
        if effects == {Effect.SAME}:
            return Effect.SAME
        return next((each for each in (Effect.OPEN, Effect.ESTIMATE) if each in effects), Effect.TOO_SMALL)

    @property
    def gain(self) -> float | None:
        """The largest gain, for sorting."""
        return max((way.delta for way in self.ways), default=None)

    def count(self, *effects: Effect) -> int:
        return sum(way.effect in effects for way in self.ways)


KEPT: Recent[Hashable, ExperimentVerdict] = Recent(5_000)
FACT = "answer"  # its name on disk


def judge_experiments(experiments: Mapping[Experiment, Sequence[Run]]) -> dict[int, ExperimentVerdict]:
    """Return experiment pk -> verdict for each; they must have ended. Reads the uncached ones' trials together."""
    keys = {
        each: (each.public_id, tuple((run.public_id, run.revision) for run in runs))
        for each, runs in experiments.items()
    }
    found = {each: _take(each, key) for each, key in keys.items()}
    missing = {each: list(experiments[each])[:MAX_RUNS] for each, verdict in found.items() if verdict is None}
    if missing:
        outcomes_of([run for runs in missing.values() for run in runs])  # cached from here on
    for each, runs in missing.items():
        found[each] = verdict = _judge(each, runs)
        KEPT.put(keys[each], verdict)
        keep_fact(each, FACT, keys[each], asdict(verdict))
    return {each.pk: verdict for each, verdict in found.items() if verdict}


def _take(experiment: Experiment, key: Hashable) -> ExperimentVerdict | None:
    """Return what is cached in this process or on its disk."""
    if (kept := KEPT.get(key)) or (fact := take_fact(experiment, FACT, key)) is None:
        return kept
    ways = tuple(JudgedWay(**{**way, "effect": Effect(way["effect"])}) for way in fact["ways"])
    verdict = ExperimentVerdict(**{**fact, "ways": ways})
    KEPT.put(key, verdict)
    return verdict


def _judge(experiment: Experiment, runs: Sequence[Run]) -> ExperimentVerdict:
    comparison = GroupComparison(Choices(experiment=(experiment.public_id,)), runs, with_judge=False)
    metric, groups = comparison.primary_metric, comparison.groups
    answer, ways = Answer(comparison, metric), []
    for judged in answer.judged:
        found, interval = judged.difference, judged.difference.interval
        way = JudgedWay(
            condition=judged.group.condition,
            label=judged.group.label,
            effect=judged.effect,
            words=judged.words,
            delta=found.delta,
            own=found.own,
            other=found.other,
            low=interval.low if interval else None,
            high=interval.high if interval else None,
        )
        ways.append(way)
    return ExperimentVerdict(
        answer=answer.heading,
        metric=metric.key,
        ways=tuple(ways),
        has_baseline=bool(groups.pairs),
        is_baseline_alone=all(map(groups.is_baseline, groups.all)),
        episodes=answer.episodes,
    )
