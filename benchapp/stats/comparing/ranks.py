"""The ranks that the data leave open to each condition of one model, for all of them at once.

A condition is surely above another where the deciding test finds it better, with all pairs corrected together. Its best
rank is one more than those surely above it, its worst leaves room for those surely below (Mogstad, Romano, Shaikh and
Wilhelm 2024). In 95 % of comparisons no pair is called wrongly, so no rank is excluded wrongly.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import cast

from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.comparing.comparison import GroupComparison
from benchapp.stats.comparing.effects import Effect, judge_effect
from benchapp.stats.comparing.groups import Group
from benchapp.stats.inference.difference import correct_together
from benchapp.stats.metrics.metric import Better, TrialMetric

FEWEST = 3  # two conditions have a verdict with the same meaning
MOST_PAIRS = 300  # of all models shown: about a second


@dataclass(frozen=True, slots=True)
class RankRange(Shaped):
    """From the best rank, 1 at the top, to the worst that the data leave open, of all conditions of one model."""

    group: Group
    best: int
    worst: int
    of: int

    json_shape = JsonShape("label=group.label", "best", "worst", "of")

    @property
    def says(self) -> str:
        return f"{self.best} of {self.of}" if self.best == self.worst else f"{self.best} to {self.worst} of {self.of}"


@dataclass(frozen=True, slots=True)
class Ranks(Shaped):
    """`pairs`: the number behind them, over all models. No ranges with too many."""

    pairs: int
    models: int
    ranges: tuple[RankRange, ...]

    json_shape = JsonShape("pairs", "ranges")

    @property
    def by_group(self) -> dict[tuple[object, ...], RankRange]:
        return {each.group.identity: each for each in self.ranges}


def rank_groups(comparison: GroupComparison, metric: TrialMetric) -> Ranks | None:
    """Rank every model with at least three scored conditions; None without one. Cached with the comparison."""
    arms = [arm for arm in _list_arms(comparison, metric) if len(arm) >= FEWEST]
    if not arms or metric.better is Better.NEITHER:
        return None
    key = "ranks", metric.key
    found = cast(Ranks | None, comparison.drawn.get(key))
    if found is None:
        pairs = sum(len(arm) * (len(arm) - 1) // 2 for arm in arms)
        ranges = (each for arm in arms for each in _rank_arm(comparison, metric, arm)) if pairs <= MOST_PAIRS else ()
        comparison.drawn.put(key, found := Ranks(pairs, len(arms), tuple(ranges)))
    return found


def _list_arms(comparison: GroupComparison, metric: TrialMetric) -> list[list[Group]]:
    """Return the groups with a value, by what is listed together, in the order of every list."""
    arms: dict[tuple[object, ...], list[Group]] = {}
    for group in sorted(comparison.groups.all, key=lambda group: group.order):
        if comparison.cell(group, metric).value is not None:
            arms.setdefault(group.arm, []).append(group)
    return list(arms.values())


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
