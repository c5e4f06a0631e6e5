"""Krippendorff's alpha for any distance, any number of reviewers and missing answers; its interval resamples tasks.

Krippendorff, "Content Analysis", 3rd edition (2013), chapter 12: alpha = 1 - observed / expected disagreement, over the
units that at least two reviewers answered. 1: all agree. 0: as far apart as randomly dealt answers. Below: further.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import TypeVar

import numpy as np

from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.inference.interval import TAIL, ZERO, Floats, Interval
from benchapp.stats.numerics import t_value

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


def alpha_of(found: AlphaTally) -> float | None:
    return float(alpha_many(found, np.ones((1, found.clusters)))[0]) if found.varies else None


def alpha_many(found: AlphaTally, weights: Floats) -> Floats:
    """Return alpha (no unit, at most 1) of each reweighting of the clusters; NaN where one leaves no variation.

    weights: how often each cluster counts, [k, clusters]. Result: [k].
    """
    observed, expected = disagreements(found, weights)
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.asarray(1.0 - observed / np.where(expected > ZERO, expected, np.nan))


def disagreements(found: AlphaTally, weights: Floats) -> tuple[Floats, Floats]:
    """Return observed and expected disagreement, 0 to 1: means over pairs of answers of one unit, and over all pairs.

    weights: how often each cluster counts, [k, clusters]. Both results: [k].
    """
    counts = weights @ found.counts
    total = counts.sum(axis=1)
    expected = ((counts @ found.distances) * counts).sum(axis=1) / (total * (total - 1))
    return (weights @ found.apart) / total, expected


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

    json_shape = JsonShape("alpha=value", "interval", "items=units", "tasks=clusters", "answers", "note")


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
        note = f"{found.clusters} {'task' if found.clusters == 1 else 'tasks'}, too few for an interval"
    elif float(found.apart.sum()) <= ZERO:
        note = "nobody disagreed, and drawing agreement again shows nothing else"
    interval = None if note else interval_of(found)
    return AgreementEstimate(value, interval, found.units, found.clusters, found.answers, note)


def interval_of(found: AlphaTally, weights: Floats | None = None) -> Interval:
    """Return bootstrap-t from ten tasks on; with fewer or if it fails, Student's t with the same error.

    weights: how often each cluster counts, in place of the resamples, [k, clusters]. Needs some disagreement, and at
    least two clusters.
    """
    drawn = bootstrap_t(found, weights) if found.clusters >= MIN_TASKS_DRAWN else None
    return drawn or student(found)


def bootstrap_t(found: AlphaTally, weights: Floats | None = None) -> Interval | None:
    """Return the bootstrap-t interval (Efron 1979; Hall 1992, section 3.5) on the scale log(1 - alpha), turned back.

    On this scale alpha is a difference of two logs. Each resample is studentised by its own linearised spread over
    clusters, and no end passes 1. None if resamples without disagreement reach into a tail. weights: how often each
    cluster counts, [k, clusters].
    """
    weights = resamples(found.clusters) if weights is None else weights
    count = len(weights)
    (centre,), (error,) = log_and_error(found, np.ones((1, found.clusters)))
    values, errors = log_and_error(found, weights)
    with np.errstate(divide="ignore", invalid="ignore"):
        t = (values - centre) / errors
    t = np.where(np.isneginf(values), -np.inf, t)  # without disagreement it counts as the lowest, with any spread
    out = round(TAIL * (count + 1))
    ends = np.partition(np.where(np.isnan(t), np.inf, t), (out - 1, count - out))
    low, high = centre - ends[count - out] * error, centre - ends[out - 1] * error
    if not (np.isfinite(low) and np.isfinite(high)):
        return None
    return _back_transform(low, high, f"bootstrap-t over tasks, {count + 1:,} resamples")


def student(found: AlphaTally) -> Interval:
    """Return Student's t on the scale log(1 - alpha) with its linearised error over clusters; nothing is drawn."""
    centre, error = log_and_error(found, np.ones((1, found.clusters)))
    half = t_value(found.clusters - 1, 1 - TAIL) * error[0]
    return _back_transform(centre[0] - half, centre[0] + half, "Student's t over tasks, on log(1 - alpha)")


def _back_transform(low: float, high: float, method: str) -> Interval:
    return Interval(float(1 - np.exp(high)), float(1 - np.exp(low)), method=method)


def log_and_error(found: AlphaTally, weights: Floats) -> tuple[Floats, Floats]:
    """Return log(1 - alpha) and its standard error over clusters, from the derivative by each cluster's weight.

    weights: how often each cluster counts, [k, clusters]. Both results: [k], on the log scale.
    """
    observed, expected = disagreements(found, weights)
    counts = weights @ found.counts
    total = counts.sum(axis=1, keepdims=True)
    spread = (counts @ found.distances) @ found.counts.T  # [k, clusters]
    whole = (weights * spread).sum(axis=1, keepdims=True)
    size = found.counts.sum(axis=1)
    with np.errstate(divide="ignore", invalid="ignore"):
        logs = np.log(observed) - np.log(np.where(expected > ZERO, expected, np.nan))
        slope = size / (total - 1) + found.apart / (weights @ found.apart)[:, np.newaxis] - 2 * spread / whole
        mean = (weights * slope).sum(axis=1, keepdims=True) / found.clusters
        variance = (weights * np.square(slope - mean)).sum(axis=1) * found.clusters / (found.clusters - 1)
    return logs, np.sqrt(variance)


@lru_cache(maxsize=16)
def resamples(clusters: int) -> Floats:
    """Draw how often each cluster occurs in each resample: [RESAMPLES, clusters], rows sum to `clusters`."""
    rng = np.random.default_rng((SEED, clusters))
    return rng.multinomial(clusters, np.full(clusters, 1 / clusters), size=RESAMPLES).astype(float)
