"""What would settle an open difference: more replicates, more episodes, or more samples, and the cost of each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import lru_cache

from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.planning.power import POWER, Design, count_found, predict_power
from benchapp.stats.planning.spread import Measured, Spread

SOUGHT = 0.10  # shares: what a plan must find; a difference shown to be smaller is settled
FAR = 50  # with more it is not a plan
MOST_SAMPLES = 10


@dataclass(frozen=True, slots=True)
class RunCost(Shaped):
    """Some trials with what was written for them. seconds: of agents, one after another. None: unknown for some."""

    trials: float = 0.0
    usd: float | None = 0.0
    seconds: float | None = 0.0

    def __add__(self, other: RunCost) -> RunCost:
        return RunCost(self.trials + other.trials, _add(self.usd, other.usd), _add(self.seconds, other.seconds))

    def times(self, factor: float) -> RunCost:
        usd, seconds = (None if each is None else each * factor for each in (self.usd, self.seconds))
        return RunCost(self.trials * factor, usd, seconds)


def _add(one: float | None, other: float | None) -> float | None:
    return None if one is None or other is None else one + other


@dataclass(frozen=True, slots=True)
class DesignCost:
    """The cost of both sides' runs. own, other: one replicate. counted: the trials of all that the metric counts."""

    own: RunCost
    other: RunCost
    counted: RunCost


@dataclass(frozen=True, slots=True)
class Route(Shaped):
    """`more` of `unit` ("replicate" a side, "episode", or "sample" of each task) find the difference at this cost."""

    unit: str
    more: int
    cost: RunCost

    json_shape = JsonShape(
        *("unit", "more", ("trials", lambda route: route.trials), "usd=cost.usd", "seconds=cost.seconds")
    )

    @property
    def trials(self) -> int:
        return round(self.cost.trials)

    @property
    def units(self) -> str:
        return self.unit if self.more == 1 else f"{self.unit}s"


@dataclass(frozen=True, slots=True)
class Settling(Shaped):
    """One design with the measured spread. power: how often it finds a true difference of SOUGHT, 0..1."""

    design: Design
    measured: Measured
    cost: DesignCost
    difference: float = SOUGHT

    json_shape = JsonShape("difference", "power", "measured", "routes")

    @property
    def power(self) -> float | None:
        return predict_power(self.design, self.measured.spread, self.difference)

    @property
    def is_enough(self) -> bool:
        """Can these runs find it already? Then an open difference is smaller."""
        return (self.power or 0.0) >= POWER

    @property
    def least(self) -> int:
        """Replicates of the smaller side."""
        return min(self.design.replicates)

    @property
    def is_uneven(self) -> bool:
        return self.least < max(self.design.replicates)

    @property
    def finds(self) -> int:
        return count_found(self.power)

    @property
    def routes(self) -> list[Route]:
        """The routes by their cost, or by their trials where one's cost is unknown."""
        found = [route for unit in ADDED if (route := self.find_route(unit)) is not None]
        is_priced = all(route.cost.usd is not None for route in found)
        return sorted(found, key=lambda route: (route.cost.usd or 0.0) if is_priced else route.cost.trials)

    @property
    def in_vain(self) -> list[str]:
        """What does not find it in any number, within a plan's limits: "50 more episodes"."""
        if self.is_enough:
            return []
        most = {"sample": f"{MOST_SAMPLES} samples of each task"}
        return [most.get(unit, f"{FAR} more {unit}s") for unit in ADDED if self.find_route(unit) is None]

    def find_route(self, unit: str) -> Route | None:
        """Return the route; None where no plan of this kind finds it, and where nothing has to be added."""
        if self.is_enough:
            return None
        more = count_added(self.design, self.measured.spread, self.difference, unit)
        return None if more is None else Route(unit, more, self._price(unit, more))

    def _price(self, unit: str, more: int) -> RunCost:
        (own, other), cost = self.design.replicates, self.cost
        if unit == "replicate":
            least = min(own, other) + more
            return cost.own.times(max(0, least - own)) + cost.other.times(max(0, least - other))
        if unit == "episode":
            return (cost.own.times(own) + cost.other.times(other)).times(more / len(self.design.tasks))
        return cost.counted.times(more / self.design.samples)


def _add_replicates(design: Design, more: int) -> Design:
    """Add to the smaller side first."""
    own, other = design.replicates
    least = min(own, other) + more
    return replace(design, replicates=(max(own, least), max(other, least)))


def _add_episodes(design: Design, more: int) -> Design:
    """Add episodes of the same sizes in turn."""
    places = [place % len(design.tasks) for place in range(len(design.tasks) + more)]
    weights = None if design.weights is None else tuple(design.weights[place] for place in places)
    return replace(design, tasks=tuple(design.tasks[place] for place in places), weights=weights)


def _add_samples(design: Design, more: int) -> Design:
    return replace(design, samples=design.samples + more)


ADDED: dict[str, Callable[[Design, int], Design]] = {
    "replicate": _add_replicates,
    "episode": _add_episodes,
    "sample": _add_samples,
}


@lru_cache(maxsize=2_000)
def count_added(design: Design, spread: Spread, difference: float, unit: str) -> int | None:
    """Return the fewest to add for 80 % power; None where FAR more (of samples MOST_SAMPLES in total) are too few."""
    most = MOST_SAMPLES - design.samples if unit == "sample" else FAR

    def finds(more: int) -> bool:
        return (predict_power(ADDED[unit](design, more), spread, difference) or 0.0) >= POWER

    low, high = 0, most
    if most < 1 or not finds(most):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if finds(middle) else (middle, high)
    return high
