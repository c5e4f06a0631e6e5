"""Krippendorff's alpha for any distance, any number of reviewers and missing answers; its interval resamples tasks.

Krippendorff, "Content Analysis", 3rd edition (2013), chapter 12: alpha = 1 - observed / expected disagreement, over the
units that at least two reviewers answered. 1: all agree. 0: as far apart as randomly dealt answers. Below: further.

Also the agreement on one code at a time, the codes used in place of each other, and Spearman's correlation of ranks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from itertools import combinations
from typing import TypeVar

import numpy as np

from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.inference.interval import TAIL, ZERO, Floats, Interval
from benchapp.stats.numerics import t_value
from runner.base.text import plural

A = TypeVar("A", bound=Hashable)  # an answer
Distance = Callable[[A, A], float]


def nominal_distance(one: Hashable, other: Hashable) -> float:
    """Return 0 for equal answers, else 1."""
    return 0.0 if one == other else 1.0


def masi_distance(one: frozenset[A], other: frozenset[A]) -> float:
    """Return 1 - J * M of two sets (Passonneau 2006, "Measuring Agreement on Set-Valued Items", LREC).

    J is Jaccard's share (common / all). M is 1 for equal sets, 2/3 where one contains the other, 1/3 for any other
    overlap, 0 without one. Two empty sets are equal (0): both mean that nothing is wrong. An empty set has the largest
    distance (1) to any other.
    """
    if one == other:
        return 0.0
    common = len(one & other)
    if not common:
        return 1.0
    monotone = 2 / 3 if common == min(len(one), len(other)) else 1 / 3
    return 1.0 - common / len(one | other) * monotone


Unit = Mapping[int, A]  # reviewer -> the answer; missing answers are left out


@dataclass(frozen=True, slots=True)
class AlphaTally:
    """All that alpha needs, by cluster, so that clusters can be resampled by weighting rows.

    counts: how often each value was given, [clusters, values]. apart: the sum over the cluster's units of the distances
    of all ordered pairs of answers, each unit's divided by its answers less one, [clusters]. distances: [values,
    values]. units: with two answers or more; the others are left out.
    """

    counts: Floats
    apart: Floats
    distances: Floats
    units: int

    @property
    def clusters(self) -> int:
        return len(self.apart)

    @property
    def answers(self) -> int:
        return int(self.counts.sum())

    @property
    def varies(self) -> bool:
        """False where every answer is the same: then nothing shows whether reviewers can distinguish units."""
        return int((self.counts.sum(axis=0) > 0).sum()) > 1


def tally(units: Sequence[Unit[A]], distance: Distance[A], *, clusters: Sequence[Hashable] | None = None) -> AlphaTally:
    """Tally the units. `clusters` names the cluster of each unit; without it each unit is its own."""
    names = list(range(len(units))) if clusters is None else list(clusters)
    if len(names) != len(units):
        raise ValueError(f"tally: expected a cluster for each of {len(units)} units, got {len(names)}")
    paired = [(name, list(unit.values())) for name, unit in zip(names, units, strict=True) if len(unit) > 1]
    values = list(dict.fromkeys(value for _, answers in paired for value in answers))
    place = {value: index for index, value in enumerate(values)}
    rows = {name: index for index, name in enumerate(dict.fromkeys(name for name, _ in paired))}
    distances = np.array([[distance(one, other) for other in values] for one in values], dtype=float)
    counts, apart = np.zeros((len(rows), len(values))), np.zeros(len(rows))
    for name, answers in paired:
        given = [place[answer] for answer in answers]
        np.add.at(counts[rows[name]], given, 1.0)
        apart[rows[name]] += distances[np.ix_(given, given)].sum() / (len(given) - 1)
    return AlphaTally(counts, apart, distances.reshape(len(values), len(values)), len(paired))


def alpha(units: Sequence[Unit[A]], distance: Distance[A]) -> float | None:
    """Return alpha, None where no unit has two answers, or where all answers are the same."""
    return alpha_of(tally(units, distance))


def alpha_of(tally: AlphaTally) -> float | None:
    return float(alpha_many(tally, np.ones((1, tally.clusters)))[0]) if tally.varies else None


def alpha_many(tally: AlphaTally, weights: Floats) -> Floats:
    """Return alpha (no unit, at most 1) of each reweighting of the clusters; NaN where one leaves no variation.

    weights: how often each cluster counts, [k, clusters]. Result: [k].
    """
    observed, expected = disagreements(tally, weights)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(1.0 - observed / np.where(expected > ZERO, expected, np.nan))


def disagreements(tally: AlphaTally, weights: Floats) -> tuple[Floats, Floats]:
    """Return observed and expected disagreement, 0 to 1: means over pairs of answers of one unit, and over all pairs.

    weights: how often each cluster counts, [k, clusters]. Both results: [k].
    """
    counts = weights @ tally.counts
    total = counts.sum(axis=1)
    expected = ((counts @ tally.distances) * counts).sum(axis=1) / (total * (total - 1))
    return (weights @ tally.apart) / total, expected


RESAMPLES = 3_999  # with the sample itself 4,000, so that both tails hold whole numbers
SEED = 20_011  # any number will do as long as it never changes
MIN_TASKS = 6  # below, no interval
MIN_TASKS_DRAWN = 10  # below, resamples say too little: benchmarks/agreement_coverage.py, docs/explanation/agreement.md


@dataclass(frozen=True, slots=True)
class AgreementEstimate(Shaped):
    """An alpha and the data behind it. None where it cannot be computed; `note` gives the reason.

    units: with two answers or more. clusters: tasks (or what else was drawn together). answers: those that count.
    """

    value: float | None
    interval: Interval | None
    units: int
    clusters: int
    answers: int
    note: str = ""

    json_shape = JsonShape("alpha=value interval items=units tasks=clusters answers note")


def estimate(units: Sequence[Unit[A]], clusters: Sequence[Hashable], distance: Distance[A]) -> AgreementEstimate:
    """Estimate alpha and its 95 % interval; `clusters` names the task of each unit."""
    found = tally(units, distance, clusters=clusters)
    value = alpha_of(found)
    note = ""
    if not found.units:
        note = "no item has two answers"
    elif value is None:
        note = f"all {found.answers} answers are the same, so nothing shows whether reviewers can distinguish items"
    elif found.clusters < MIN_TASKS:
        note = f"{plural(found.clusters, 'task')}, too few for an interval"
    elif float(found.apart.sum()) <= ZERO:
        note = "nobody disagreed, and drawing agreement again shows nothing else"
    interval = None if note else interval_of(found)
    return AgreementEstimate(value, interval, found.units, found.clusters, found.answers, note)


def interval_of(tally: AlphaTally, weights: Floats | None = None) -> Interval:
    """Return bootstrap-t from ten tasks on; with fewer or if it fails, Student's t with the same error.

    weights: how often each cluster counts, in place of the resamples, [k, clusters]. Needs some disagreement, and at
    least two clusters.
    """
    drawn = bootstrap_t(tally, weights) if tally.clusters >= MIN_TASKS_DRAWN else None
    return drawn or student(tally)


def bootstrap_t(tally: AlphaTally, weights: Floats | None = None) -> Interval | None:
    """Return the bootstrap-t interval (Efron 1979; Hall 1992, section 3.5) on the scale log(1 - alpha), turned back.

    On this scale alpha is a difference of two logs. Each resample is studentised by its own linearised spread over
    clusters, and no end passes 1. None if resamples without disagreement reach into a tail. weights: how often each
    cluster counts, [k, clusters].
    """
    weights = resamples(tally.clusters) if weights is None else weights
    count = len(weights)
    (centre,), (error,) = log_and_error(tally, np.ones((1, tally.clusters)))
    values, errors = log_and_error(tally, weights)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (values - centre) / errors
    t = np.where(np.isneginf(values), -np.inf, t)  # without disagreement it counts as the lowest, with any spread
    out = round(TAIL * (count + 1))
    ends = np.partition(np.where(np.isnan(t), np.inf, t), (out - 1, count - out))
    low, high = centre - ends[count - out] * error, centre - ends[out - 1] * error
    if not (np.isfinite(low) and np.isfinite(high)):
        return None
    return _back_transform(low, high, f"bootstrap-t over tasks, {count + 1:,} resamples")


def student(tally: AlphaTally) -> Interval:
    """Return Student's t on the scale log(1 - alpha) with its linearised error over clusters; nothing is drawn."""
    centre, error = log_and_error(tally, np.ones((1, tally.clusters)))
    half = t_value(tally.clusters - 1, 1 - TAIL) * error[0]
    return _back_transform(centre[0] - half, centre[0] + half, "Student's t over tasks, on log(1 - alpha)")


def _back_transform(low: float, high: float, method: str) -> Interval:
    return Interval(float(1 - np.exp(high)), float(1 - np.exp(low)), method=method)


def log_and_error(tally: AlphaTally, weights: Floats) -> tuple[Floats, Floats]:
    """Return log(1 - alpha) and its standard error over clusters, from the derivative by each cluster's weight.

    weights: how often each cluster counts, [k, clusters]. Both results: [k], on the log scale.
    """
    observed, expected = disagreements(tally, weights)
    counts = weights @ tally.counts
    total = counts.sum(axis=1, keepdims=True)
    spread = (counts @ tally.distances) @ tally.counts.T  # [k, clusters]
    whole = (weights * spread).sum(axis=1, keepdims=True)
    size = tally.counts.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(observed) - np.log(np.where(expected > ZERO, expected, np.nan))
        slope = size / (total - 1) + tally.apart / (weights @ tally.apart)[:, np.newaxis] - 2 * spread / whole
        mean = (weights * slope).sum(axis=1, keepdims=True) / tally.clusters
        variance = (weights * np.square(slope - mean)).sum(axis=1) * tally.clusters / (tally.clusters - 1)
    return logs, np.sqrt(variance)


@lru_cache(maxsize=16)
def resamples(clusters: int) -> Floats:
    """Draw how often each cluster occurs in each resample: [RESAMPLES, clusters], rows sum to `clusters`."""
    rng = np.random.default_rng((SEED, clusters))
    return rng.multinomial(clusters, np.full(clusters, 1 / clusters), size=RESAMPLES).astype(float)


COHEN = "Cohen's kappa"
KRIPPENDORFF = "Krippendorff's alpha, nominal"


@dataclass(frozen=True, slots=True)
class Counted(Shaped):
    """k of n."""

    k: int
    n: int

    json_shape = JsonShape("k n share")

    @property
    def share(self) -> float | None:
        return self.k / self.n if self.n else None


class CodeAgreement(Shaped):
    """Agreement on one code, over units with two answers or more: kappa where the same two people gave all of them,
    else Krippendorff's nominal alpha, for any number of reviewers and missing answers.

    agree: pairs of reviews that both use the code, or both do not, of all pairs. both: pairs that both use it, of
    those where at least one does; a rare code agrees mostly by absence, and this does not count that. used: reviews.
    """

    json_shape = JsonShape("value coefficient agree both used note")

    def __init__(self, units: Sequence[Unit[frozenset[int]]], code: int) -> None:
        double = [{who: code in codes for who, codes in unit.items()} for unit in units if len(unit) > 1]
        found = pairs(double)
        answers = [answer for unit in double for answer in unit.values()]
        both, either = sum(a and b for a, b in found), sum(a or b for a, b in found)
        self.coefficient, self.value = coefficient_of(double)
        self.agree = count_agreed(double)
        self.both = Counted(both, either)
        self.used = Counted(sum(answers), len(answers))
        self.note = ""
        if self.value is None:
            always = "use it" if both else "leave it out"
            self.note = f"all reviews {always}" if double else "no item has two answers"


def pairs(units: Sequence[Unit[A]]) -> list[tuple[A, A]]:
    """Return the answers of every two reviewers of one unit."""
    return [pair for unit in units for pair in combinations(unit.values(), 2)]


def count_agreed(units: Sequence[Unit[A]]) -> Counted:
    """Count the equal pairs of answers, of all pairs."""
    found = pairs(units)
    return Counted(sum(one == other for one, other in found), len(found))


def coefficient_of(units: Sequence[Unit[A]]) -> tuple[str, float | None]:
    """Return the coefficient that suits these reviewers, and its value; None where the answers do not vary."""
    people = {frozenset(unit) for unit in units}
    if len(people) == 1 and len(next(iter(people))) == 2:
        return COHEN, cohen_kappa(units)
    return KRIPPENDORFF, alpha(units, nominal_distance)


def cohen_kappa(units: Sequence[Unit[A]]) -> float | None:
    """Return Cohen's kappa (1960) for units that the same two people answered: (agreed - by chance) / (1 - by chance),
    with each person's own frequencies. None where chance alone always agrees."""
    if not units:
        return None
    one, other = sorted(units[0], key=str)
    answers, n = [(unit[one], unit[other]) for unit in units], len(units)
    firsts, seconds = Counter(a for a, _ in answers), Counter(b for _, b in answers)
    chance = sum(count * seconds[value] for value, count in firsts.items())
    if chance == n * n:
        return None
    return (sum(a == b for a, b in answers) / n - chance / n**2) / (1 - chance / n**2)


NONE = None  # the row and column for "no code left to pair with"
Cell = tuple[int | None, int | None]  # keys of two codes


def cells_of(one: frozenset[int], other: frozenset[int]) -> Iterator[Cell]:
    """Yield the cells that a pair of code sets counts in, each once.

    A code in both counts on the diagonal. Every code that only one has is paired with every code that only the other
    has. If one has none left, the other's are paired with NONE; two empty sets meet at (NONE, NONE). Codes that agree
    are never paired with others.
    """
    for code in one & other:
        yield code, code
    left, right = one - other, other - one
    if not one and not other:
        yield NONE, NONE
    for a in left or ({NONE} if right else set[None]()):
        for b in right or {NONE}:
            yield a, b


def confusion(units: Sequence[Unit[frozenset[int]]]) -> Counter[Cell]:
    """Count the pairs of reviews in each cell. Reviewers have no order: (a, b) and (b, a) hold the same number."""
    found: Counter[Cell] = Counter()
    for one, other in pairs(units):
        for a, b in cells_of(one, other):
            found[a, b] += 1
            if a != b:
                found[b, a] += 1
    return found


def spearman(first: Sequence[float], second: Sequence[float]) -> float | None:
    """Return Pearson's correlation of the ranks of n pairs, -1..1. None below two pairs or for a constant side."""
    if len(first) != len(second):
        raise ValueError(f"{len(first)} and {len(second)} values: expected pairs")
    if len(first) < 2:
        return None
    x, y = _ranks(first), _ranks(second)
    x, y = x - x.mean(), y - y.mean()
    scale = float(np.sqrt((x * x).sum() * (y * y).sum()))
    return float((x * y).sum()) / scale if scale else None


def _ranks(values: Sequence[float]) -> Floats:
    """Return ranks from 1, [n] -> [n]; equal values share their mean rank."""
    _, place, counts = np.unique(np.asarray(values, dtype=float), return_inverse=True, return_counts=True)
    last = np.cumsum(counts)
    return np.asarray((last - (counts - 1) / 2)[place])
