"""Krippendorff's alpha for any distance, any number of reviewers and missing answers.

Krippendorff, "Content Analysis", 3rd edition (2013), chapter 12: alpha = 1 - observed / expected disagreement, over the
units that at least two reviewers answered. 1: all agree. 0: as far apart as randomly dealt answers. Below: further.
"""

from __future__ import annotations

from collections.abc import Hashable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from benchapp.stats.agreement.distances import A, Distance
from benchapp.stats.inference.interval import ZERO, Floats

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
    if not found.varies:
        return None
    weights = np.ones((1, found.clusters))
    return float(alpha_many(found, weights)[0])


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
