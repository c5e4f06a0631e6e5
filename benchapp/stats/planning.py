"""How often a design finds a difference: the noncentral t of the deciding claim, with the spread of similar runs.

A spread says how shares of passes vary, in four parts: samples, tasks, episodes, reruns. Stated, or measured on ended
runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from math import sqrt

import numpy as np

from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.inference.difference import Claim
from benchapp.stats.inference.interval import LEVEL, Floats, Ints
from benchapp.stats.inference.model import LEAST_FREEDOM
from benchapp.stats.inference.sides import Paired
from benchapp.stats.metrics.outcomes import Outcomes
from benchapp.stats.numerics import shifted_t_share, t_value

FEW = 4  # degrees of freedom: fewer reruns show hardly anything about their differences
ENDS = 0.005  # shares closer to 0 and 1 have no spread to plan with
MOST = 0.98  # of a share's possible variation: the most for tasks, episodes and reruns


@dataclass(frozen=True, slots=True)
class Spread(Shaped):
    """Standard deviations, as shares, 0..1. share: what passes, halfway between the two sides of a comparison.

    task: between tasks. episode: a library's effect on all tasks that read it. rerun: what all episodes of one learning
    run have in common. sample: the rest, one trial of one task with one library.
    """

    share: float
    task: float
    episode: float
    rerun: float

    json_shape = JsonShape("share sample task episode rerun")

    @property
    def sample(self) -> float:
        left = self.share * (1 - self.share) - self.task**2 - self.episode**2 - self.rerun**2
        return sqrt(max(0.0, left))

    @property
    def in_points(self) -> dict[str, int]:
        return {name: round(100 * getattr(self, name)) for name in ("sample", "task", "episode", "rerun")}


# Between the spreads of the worlds of lab/levels.py and coverage.py; nobody measured it.
GUESS = Spread(share=0.5, task=0.2, episode=0.1, rerun=0.03)


@dataclass(frozen=True, slots=True)
class Measured(Shaped):
    """`spread` as measured on `runs` learning runs, and the degrees of freedom that reruns had. `guessed`: they showed
    nothing about reruns, whose part is a guess."""

    spread: Spread
    runs: int
    freedom: int

    json_shape = JsonShape("spread runs freedom guessed")

    @property
    def guessed(self) -> bool:
        return self.freedom == 0

    @property
    def is_rough(self) -> bool:
        return self.freedom < FEW


def measure_pairs(pairs: Sequence[Paired]) -> Measured:
    """Measure conditions with one common baseline, at least one of them. Averaged, since a difference has the spreads
    of both sides."""
    baseline = len(pairs[0].other)
    share, *parts = np.mean([_measure_pair(each) for each in pairs], axis=0).tolist()
    runs = baseline + sum(len(each.own) for each in pairs)
    return Measured(_make(share, *parts), runs, runs - len(pairs) - 1)


def _measure_pair(paired: Paired) -> tuple[float, ...]:
    """Return share and variances of tasks, episodes and reruns. Near 0 and 1 shares can vary least, so the average of
    two sides is scaled to halfway between them."""
    own, other, cluster = paired.own, paired.other, paired.cluster
    sides = [_vary_by_rerun(side, cluster) for side in (own, other) if len(side) > 1]
    if len(sides) == 2:
        episode, rerun = np.mean(sides, axis=0)
    else:  # the episodes of one difference, with effects that differ between them
        within, across = _products(paired.delta, cluster)
        episode = np.nan_to_num(within - across) / (1 / len(own) + 1 / len(other))
        rerun = sides[0][1] if sides else GUESS.rerun**2
    ends = np.array((own.mean(), other.mean()))
    share, rooms = float(ends.mean()), ends * (1 - ends)
    scales = (share * (1 - share)) ** 2 / np.maximum(1e-6, (rooms.mean() ** 2, np.square(rooms).mean()))
    return share, _vary_by_task(np.concatenate((own, other))) * scales[0], episode * scales[1], rerun * scales[1]


def measure_groups(groups: Sequence[tuple[Floats, Ints]]) -> Measured | None:
    """Measure conditions learned more than once, each `(values [r, n], cluster [n])`; None with too few reruns."""
    several = [(values, cluster) for values, cluster in groups if len(values) > 1 and values.shape[1]]
    freedoms = [len(values) - 1 for values, _ in several]
    if sum(freedoms) < FEW:
        return None
    found = [(values.mean(), _vary_by_task(values), *_vary_by_rerun(values, cluster)) for values, cluster in several]
    share, *parts = np.average(np.array(found), axis=0, weights=freedoms)
    return Measured(_make(float(share), *map(float, parts)), sum(len(values) for values, _ in several), sum(freedoms))


def state_spread(spread: Spread, stated: Mapping[str, float]) -> Spread:
    """Replace the stated fields, with a sum no larger than a share can vary."""
    named = {name: stated.get(name, getattr(spread, name)) for name in ("share", "task", "episode", "rerun")}
    return _make(named.pop("share"), *(each**2 for each in named.values())) if stated else spread


def _make(share: float, task: float, episode: float, rerun: float) -> Spread:
    """Build from variances. Negative ones, by chance, become 0, and together they are no more than a share can vary."""
    share = min(1 - ENDS, max(ENDS, share))
    parts = np.maximum(0.0, (task, episode, rerun))
    parts *= min(1.0, MOST * share * (1 - share) / max(float(parts.sum()), 1e-12))
    return Spread(share, *(sqrt(float(part)) for part in parts))


def _vary_by_task(runs: Floats) -> float:
    """Return the variance between tasks, expected over all runs [r, n]: the covariance of two runs, over all pairs."""
    if runs.shape[1] < 2:
        return 0.0
    products = np.cov(runs)
    return float((products.sum() - np.trace(products)) / (len(runs) * (len(runs) - 1)))


def _vary_by_rerun(values: Floats, cluster: Ints) -> tuple[float, float]:
    """Return variances of episodes and of reruns, from values [r, n]. Tasks of one episode vary together by both, those
    of two episodes by reruns alone. With one episode all of it counts as reruns: more episodes are not promised to
    help."""
    left = values - values.mean(axis=0)
    found = np.array([_products(row, cluster) for row in left])
    both, rerun = (float(each) for each in found.sum(axis=0) / (len(values) - 1))
    if np.isnan(rerun):
        return 0.0, 0.0 if np.isnan(both) else both
    return (0.0 if np.isnan(both) else both - max(0.0, rerun)), rerun


def _products(values: Floats, cluster: Ints) -> tuple[float, float]:
    """Return the mean product of two tasks of one cluster, and of different clusters; NaN without such a pair."""
    sums, sizes = np.bincount(cluster, weights=values), np.bincount(cluster)
    squares, total, n = float(values @ values), float(values.sum()), len(values)
    inside, within = float(sums @ sums), int(sizes @ sizes)
    return (
        (inside - squares) / (within - n) if within > n else np.nan,
        (total**2 - inside) / (n * n - within) if n * n > within else np.nan,
    )


POWER = 0.8
MOST_POINTS = 96  # a larger difference of shares is never planned for


@dataclass(frozen=True, slots=True)
class Design:
    """tasks: of each episode. replicates: of both sides. samples: of each task. weights: of each episode in the
    compared mean, on any scale; None: its number of tasks. is_block: replicates of both sides run interleaved.
    comparisons: judged together. scale: the observed standard error of such runs over the one that their spread
    predicts."""

    tasks: tuple[int, ...]
    replicates: tuple[int, int]
    samples: int = 1
    weights: tuple[float, ...] | None = None
    is_block: bool = True
    comparisons: int = 1
    scale: float = 1.0

    @property
    def shares(self) -> Floats:
        weights = np.asarray(self.tasks if self.weights is None else self.weights, dtype=float)
        return np.asarray(weights / weights.sum())

    @property
    def claim(self) -> Claim:
        if min(self.replicates) < 2:
            return Claim.ONE_RUN
        return Claim.RUN if self.is_block and self.replicates[0] == self.replicates[1] else Claim.RERUN

    def expect_error(self, spread: Spread) -> tuple[float, float]:
        """Return the difference's standard error, a share, and its degrees of freedom, as in `inference.model`."""
        episodes, (own, other) = len(self.tasks), self.replicates
        size = (episodes * self.shares) ** 2  # of what an episode weighs over an equal part
        trial = float((size * spread.sample**2 / (np.asarray(self.tasks) * self.samples)).mean())
        cell = float(size.mean()) * spread.episode**2 + trial
        each = 1 / own + 1 / other
        if self.claim is Claim.ONE_RUN:
            return float(np.sqrt(cell * each / episodes)), episodes - 1.5
        if self.claim is Claim.RUN:  # what moves a whole run moves both sides alike
            return float(np.sqrt(cell * each / episodes)), episodes * (own - 1) - 0.5
        variance = (cell + episodes * spread.rerun**2) * each / episodes
        reruns = own + other - 2
        return float(np.sqrt(variance)), 1 / (1 / reruns + 1 / (episodes * reruns - 0.5))


def predict_power(design: Design, spread: Spread, difference: float) -> float | None:
    """Return how often the design finds a true `difference` of shares, above 0, in its direction: 0..1; None for an
    impossible difference."""
    if difference > 1:
        return None
    expected, freedom = design.expect_error(spread)
    error = expected * design.scale
    if freedom < LEAST_FREEDOM:
        return 0.0
    if error <= 0:
        return 1.0
    level = 1 - LEVEL ** (1 / design.comparisons)
    found = 1 - shifted_t_share(freedom, difference / error, t_value(freedom, 1 - level / 2))
    return min(1.0, max(0.0, found)) if np.isfinite(found) else 1.0


def count_found(power: float | None) -> int:
    """Return how many of 100 comparisons find it; a plan is never sure."""
    return min(99, round(100 * (power or 0.0)))


def find_least(design: Design, spread: Spread) -> float | None:
    """Return the smallest difference in whole points with 80 % power; None where there is none."""
    found = (points / 100 for points in range(1, MOST_POINTS + 1))
    return next((each for each in found if (predict_power(design, spread, each) or 0.0) >= POWER), None)


SOUGHT = 0.10  # shares: what a plan must find; a difference shown to be smaller is settled
FAR = 50  # with more it is not a plan
MOST_SAMPLES = 10


@dataclass(frozen=True, slots=True)
class RunCost(Shaped):
    """Some trials with what was written for them. seconds: of agents, one after another. None: unknown for some."""

    trials: float = 0.0
    usd: float | None = 0.0
    seconds: float | None = 0.0

    @classmethod
    def of(cls, outcomes: Outcomes) -> RunCost:
        """Return what agents spent in these trials."""
        sums = [None if np.isnan(each).any() else float(each.sum()) for each in (outcomes.cost_usd, outcomes.seconds)]
        return cls(len(outcomes), *sums)

    def __add__(self, other: RunCost) -> RunCost:
        usd = None if self.usd is None or other.usd is None else self.usd + other.usd
        seconds = None if self.seconds is None or other.seconds is None else self.seconds + other.seconds
        return RunCost(self.trials + other.trials, usd, seconds)

    def times(self, factor: float) -> RunCost:
        usd, seconds = (None if each is None else each * factor for each in (self.usd, self.seconds))
        return RunCost(self.trials * factor, usd, seconds)


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

    json_shape = JsonShape("unit more trials usd=cost.usd seconds=cost.seconds")

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

    json_shape = JsonShape("difference power measured routes")

    @property
    def power(self) -> float | None:
        return predict_power(self.design, self.measured.spread, self.difference)

    @property
    def is_enough(self) -> bool:
        """Can these runs find it already? Then an open difference is smaller."""
        return (self.power or 0.0) >= POWER

    @property
    def least(self) -> int:
        """Return the replicates of the smaller side."""
        return min(self.design.replicates)

    @property
    def is_uneven(self) -> bool:
        return self.least < max(self.design.replicates)

    @property
    def finds(self) -> int:
        return count_found(self.power)

    @property
    def routes(self) -> list[Route]:
        """Return the routes by their cost, or by their trials if one's cost is unknown."""
        found = [route for unit in UNITS if (route := self.find_route(unit)) is not None]
        is_priced = all(route.cost.usd is not None for route in found)
        return sorted(found, key=lambda route: (route.cost.usd or 0.0) if is_priced else route.cost.trials)

    @property
    def in_vain(self) -> list[str]:
        """Name what would not find it in any number, within a plan's limits: "50 more episodes"."""
        if self.is_enough:
            return []
        most = {"sample": f"{MOST_SAMPLES} samples of each task"}
        return [most.get(unit, f"{FAR} more {unit}s") for unit in UNITS if self.find_route(unit) is None]

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


UNITS = ("replicate", "episode", "sample")


def extend(design: Design, unit: str, more: int) -> Design:
    """Add replicates, to the smaller side first; episodes of the same sizes in turn; or samples of each task."""
    if unit == "replicate":
        least = min(design.replicates) + more
        own, other = (max(each, least) for each in design.replicates)
        return replace(design, replicates=(own, other))
    if unit == "sample":
        return replace(design, samples=design.samples + more)
    places = [place % len(design.tasks) for place in range(len(design.tasks) + more)]
    weights = None if design.weights is None else tuple(design.weights[place] for place in places)
    return replace(design, tasks=tuple(design.tasks[place] for place in places), weights=weights)


@lru_cache(maxsize=2_000)
def count_added(design: Design, spread: Spread, difference: float, unit: str) -> int | None:
    """Return the fewest to add for 80 % power; None where FAR more (of samples MOST_SAMPLES in total) are too few."""
    most = MOST_SAMPLES - design.samples if unit == "sample" else FAR

    def finds(more: int) -> bool:
        return (predict_power(extend(design, unit, more), spread, difference) or 0.0) >= POWER

    low, high = 0, most
    if most < 1 or not finds(most):
        return None
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if finds(middle) else (middle, high)
    return high
