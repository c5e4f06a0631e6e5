"""Shares of a population from a coded sample of it, with the two intervals they can have. Pure numpy.

Every unit has the weight 1 / (probability that it was taken). The share is Hajek's (1971), a ratio of two weighted
sums, which needs no knowledge of the population's size and never leaves 0..1. Its variance comes from linearising that
ratio (Saerndal, Swensson & Wretman 1992, section 5.7). A domain (one condition, say) keeps all units of the sample and
counts those outside it as zero, because a domain's own size is random too (the same, section 10.3).

With a judge's answers on many items, and people's on some of these, a share is corrected. People find one share of
carriers among the items where the judge answers yes, and another where it answers no. The result is the two shares,
weighted by how often the judge answers yes and no (Tenenbein 1970, double sampling; for a yes-or-no judge it is the
prediction-powered estimate with its best weight, Angelopoulos, Duchi & Zrnic 2023). It is right with any judge, as long
as the choice of items that people settled does not depend on what they carry, within a stratum; a good judge makes it
sharper. Rogan & Gladen (1978) correct with rates that may come from elsewhere, and know less where people looked at the
judge's own items: `lab/corrected_coverage.py` compares them.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from numpy.typing import NDArray

from benchapp.record.json_shape import Shaped
from benchapp.stats.inference.interval import LEVEL, TAIL, ZERO, Floats, Interval, Ints
from benchapp.stats.inference.shares import MIN_FOR_INTERVAL, Z_95
from benchapp.stats.numerics import t_value

Flags = NDArray[np.bool_]
MIN_CLUSTERS = 6  # with fewer the spread between clusters is hardly known; lab/review_coverage.py shows it
ANEW = "Wilson on the effective number of units; clusters as drawn anew"
SAMPLING = "Wilson on the effective number of units; strata, finite population"


@dataclass(frozen=True, slots=True, eq=False)
class CodedSample:
    """The coded units. weights: [n], > 0; strata, clusters: [n], numbers from 0; sizes: [strata], units of the
    population in each stratum."""

    weights: Floats
    strata: Ints
    clusters: Ints
    sizes: Floats

    def __len__(self) -> int:
        return len(self.weights)


@dataclass(frozen=True, slots=True)
class Share:
    """The part of a population that carries a code, 0..1, or scaled by `times`.

    k: units that carry it, a fraction where reviewers of one unit disagree; n: units coded; both unweighted. interval:
    what other clusters of the same kind would show; sampling: what coding every unit of this population would. note:
    why `interval` is missing.
    """

    value: float | None
    k: float
    n: int
    clusters: int
    interval: Interval | None = None
    sampling: Interval | None = None
    note: str = ""

    @property
    def shown(self) -> float | None:
        """`value` where it is more useful than k of n: from ten units on. All pages, charts and tables use this."""
        return self.value if self.n >= MIN_FOR_INTERVAL else None

    def times(self, factor: float | None) -> Share:
        """Return the share per unit of a larger whole. `factor`: the population's part of it; None: unknown."""
        if factor is None:
            return replace(self, value=None, interval=None, sampling=None, note="the total is unknown")
        value = None if self.value is None else self.value * factor
        return replace(
            self, value=value, interval=_scale(self.interval, factor), sampling=_scale(self.sampling, factor)
        )


def shares(sample: CodedSample, carried: Floats, domain: Flags | None = None) -> list[Share]:
    """Return one share per column of `carried` ([n, m]: how far each unit carries each code, 0..1), over `domain`.

    Intervals are given from ten units on; the one over clusters from six clusters on.
    """
    inside = np.ones(len(sample), dtype=bool) if domain is None else domain
    n, m = int(inside.sum()), carried.shape[1]
    clusters = len(np.unique(sample.clusters[inside]))
    counted = carried[inside].sum(axis=0)
    if not n:
        return [Share(None, 0.0, 0, 0, note="nothing coded") for _ in range(m)]
    weights = np.where(inside, sample.weights, 0.0)
    total = weights.sum()
    values = np.clip(weights @ carried / total, 0.0, 1.0)
    parts = weights[:, np.newaxis] * (carried - values) / total
    note = _why_none(n, clusters)
    # Over newly drawn clusters: the sums of linearised values add up to 0. Strata reduce nothing, so it is too wide
    # if they differ.
    sums = _sums(parts, sample.clusters, int(sample.clusters.max()) + 1)
    between = np.asarray(np.square(sums).sum(axis=0) * clusters / max(clusters - 1, 1))
    within, most = _within_strata(sample, parts, inside)
    strata = len(np.unique(sample.strata[inside]))
    return [
        Share(
            float(value),
            float(counted[place]),
            n,
            clusters,
            None if note else _interval(value, between[place], count_effective(weights), clusters - 1, ANEW),
            _interval(value, within[place], most, n - strata, SAMPLING) if n >= MIN_FOR_INTERVAL else None,
            note,
        )
        for place, value in enumerate(values)
    ]


def _why_none(n: int, clusters: int, *, settled: bool = False) -> str:
    if n < MIN_FOR_INTERVAL:
        return f"{n} {'settled' if settled else 'coded'}, too few for an interval"
    if clusters < MIN_CLUSTERS:
        noun = "cluster" if clusters == 1 else "clusters"
        return f"{clusters} {noun}{' settled' if settled else ''}, too few for an interval"
    return ""


def _within_strata(sample: CodedSample, parts: Floats, inside: Flags) -> tuple[Floats, float]:
    """Return variances of m shares over other units of the same population, and the largest number of independent units
    that can be claimed: that for an equal share in all strata. A stratum of few units may show no spread at all by
    luck; infinite where every unit was taken."""
    strata = len(sample.sizes)
    taken = np.bincount(sample.strata, minlength=strata).astype(float)
    means = _sums(parts, sample.strata, strata) / np.maximum(taken, 1)[:, np.newaxis]
    squares = _sums(np.square(parts - means[sample.strata]), sample.strata, strata)
    left = np.clip(1 - taken / np.maximum(sample.sizes, taken), 0.0, 1.0)
    variances = (left * taken / np.maximum(taken - 1, 1)) @ squares
    weight = np.bincount(sample.strata[inside], sample.weights[inside], minlength=strata)
    found = np.bincount(sample.strata[inside], minlength=strata)
    lost = float((np.square(weight / weight.sum()) * left / np.maximum(found, 1)).sum())
    return np.asarray(variances), 1 / lost if lost > 0 else np.inf


def _sums(values: Floats, groups: Ints, count: int) -> Floats:
    """Sum [n, m] -> [count, m]."""
    sums = np.zeros((count, values.shape[1]))
    np.add.at(sums, groups, values)
    return sums


def count_effective(weights: Floats) -> float:
    """Return how many units of equal weight carry as much information (Kish 1965, section 11.7)."""
    return float(weights.sum() ** 2 / np.square(weights).sum())


def _interval(value: float, variance: float, most: float, freedom: int, method: str) -> Interval:
    """Return Wilson's interval for the number of independent units with this variance (Korn & Graubard 1998; Franco et
    al. 2019), widened for few degrees of freedom. Never more than `most`: units that all agree show no variance."""
    if np.isinf(most):
        return Interval(float(value), float(value), LEVEL, "every unit was coded")
    spread = value * (1 - value)
    number = spread / variance if spread > ZERO and variance > ZERO * spread else most
    t = t_value(max(freedom, 1), 1 - TAIL)
    low, high = wilson_of_share(float(value), max(1.0, min(number, most) * (Z_95 / t) ** 2))
    return Interval(low, high, LEVEL, method)


def wilson_of_share(p: float, n: float) -> tuple[float, float]:
    """Return Wilson's score interval for a share p of n units, where n is any number from 1 on."""
    scale = 1 + Z_95**2 / n
    middle = (p + Z_95**2 / (2 * n)) / scale
    half = Z_95 * np.sqrt(p * (1 - p) / n + Z_95**2 / (4 * n * n)) / scale
    return max(0.0, float(middle - half)) if p > 0 else 0.0, min(1.0, float(middle + half)) if p < 1 else 1.0


def _scale(interval: Interval | None, factor: float) -> Interval | None:
    return None if interval is None else replace(interval, low=interval.low * factor, high=interval.high * factor)


def horvitz_thompson(sample: CodedSample, carried: Floats) -> Floats:
    """Estimate the units of the population that carry each code, [m]: the sum of the weights of those that do (Horvitz
    & Thompson 1952)."""
    return np.asarray(sample.weights @ carried)


# --- corrected with a judge's answers --------------------------------------------------------------------------------

METHOD = "Wilson in each part, joined by MOVER; other clusters of the same kind"


@dataclass(frozen=True, slots=True)
class CorrectedShare(Shaped):
    """Shares of the population. judge: by the judge alone; people: by the settled items alone; value: both together,
    with a 95 % interval that covers the sampling of the items and the judge's errors. read, settled: items; settled are
    part of read. note: why something is missing."""

    judge: float | None
    people: float | None
    value: float | None
    interval: Interval | None
    read: int
    settled: int
    note: str = ""


@dataclass(frozen=True, slots=True)
class _Part:
    """Items with the same answer of the judge: their part of the population, and the share that carries the code. That
    comes from the `settled` ones, which are worth `effective` ones of equal weight."""

    size: float
    carrying: float
    settled: int
    effective: float


def correct_share(sample: CodedSample, judged: Flags, settled: Flags, carried: Flags) -> CorrectedShare:
    """Correct one code's share. sample: items the judge read; all flags [n]; `carried` counts where `settled`."""
    read, known = len(sample), int(settled.sum())
    if not read or not known:
        value = _mean(sample.weights, judged) if read else None
        return CorrectedShare(value, None, None, None, read, known, "people settled none of the items it read")
    weights = np.where(settled, sample.weights * _fill_strata(sample, settled), 0.0)
    judge, people = _mean(sample.weights, judged), _mean(weights, carried & settled)
    parts = [_part(sample, answer, settled, carried, weights) for answer in (judged, ~judged)]
    note = _why_no_value(sample, settled, parts)
    if note:
        return CorrectedShare(judge, people, None, None, read, known, note)
    yes, no = _fill_empty(parts)
    value = yes.size * yes.carrying + no.size * no.carrying
    note = _why_none(known, len(np.unique(sample.clusters[settled])), settled=True)
    interval = None if note else _corrected_interval(sample, judged, settled, carried, weights, (yes, no))
    return CorrectedShare(judge, people, value, interval, read, known, note)


def _mean(weights: Floats, flags: Flags) -> float:
    return float(weights @ flags / weights.sum())


def _fill_strata(sample: CodedSample, settled: Flags) -> Floats:
    """Return [n]: the factor of each settled item, so that those of a stratum represent all that were read there."""
    size = len(sample.sizes)
    whole = np.bincount(sample.strata, sample.weights, minlength=size)
    known = np.bincount(sample.strata, sample.weights * settled, minlength=size)
    return np.asarray((whole / np.where(known > 0, known, 1.0))[sample.strata])


def _part(sample: CodedSample, answer: Flags, settled: Flags, carried: Flags, weights: Floats) -> _Part:
    inside = answer & settled
    found = int(inside.sum())
    return _Part(
        _mean(sample.weights, answer),
        float(weights[inside] @ carried[inside] / weights[inside].sum()) if found else 0.0,
        found,
        count_effective(weights[inside]) if found else 0.0,
    )


def _why_no_value(sample: CodedSample, settled: Flags, parts: list[_Part]) -> str:
    if len(np.unique(sample.strata)) > len(np.unique(sample.strata[settled])):
        return "people settled nothing in a stratum that it read"
    if any(part.size > 0 and not part.settled for part in parts):
        answer = "yes" if not parts[0].settled else "no"
        return f"people settled no item where it says {answer}"
    return ""


def _fill_empty(parts: list[_Part]) -> tuple[_Part, _Part]:
    """Replace an empty part. A judge that always gives the same answer leaves one part, which represents both."""
    yes, no = parts
    if not yes.settled:
        return _Part(0.0, no.carrying, no.settled, no.effective), no
    if not no.settled:
        return yes, _Part(0.0, yes.carrying, yes.settled, yes.effective)
    return yes, no


def _corrected_interval(
    sample: CodedSample, judged: Flags, settled: Flags, carried: Flags, weights: Floats, parts: tuple[_Part, _Part]
) -> Interval:
    """Combine Wilson's errors of the two parts and of how often the judge answers yes, as squares on each side (MOVER;
    Zou & Donner 2008). So a judge that agreed by luck on few items still has an interval with width."""
    yes, no = parts
    value = yes.size * yes.carrying + no.size * no.carrying
    clusters = len(np.unique(sample.clusters[settled]))
    t = t_value(clusters - 1, 1 - TAIL)
    shrunk = (Z_95 / t) ** 2 / _design_effect(sample, judged, settled, carried, weights, parts)
    size = count_effective(sample.weights) * shrunk
    gap = yes.carrying - no.carrying
    low, high = 0.0, 0.0
    for share, number, slope in (
        (yes.carrying, yes.effective * shrunk, yes.size),
        (no.carrying, no.effective * shrunk, no.size),
        (yes.size, size, gap),
    ):
        least, most = wilson_of_share(share, max(1.0, number))
        down, up = (share - least, most - share) if slope >= 0 else (most - share, share - least)
        low, high = low + (slope * down) ** 2, high + (slope * up) ** 2
    return Interval(max(0.0, value - low**0.5), min(1.0, value + high**0.5), LEVEL, METHOD)


def _design_effect(
    sample: CodedSample, judged: Flags, settled: Flags, carried: Flags, weights: Floats, parts: tuple[_Part, _Part]
) -> float:
    """Return the factor of the variance over as many unclustered items, at least 1. From each item's contribution to
    the linearised share."""
    yes, no = parts
    value = yes.size * yes.carrying + no.size * no.carrying
    expected = np.where(judged, yes.carrying, no.carrying)
    totals = np.where(judged, weights[judged].sum(), weights[~judged].sum())
    sizes = np.where(judged, yes.size, no.size)
    known = np.where(settled, weights * sizes / np.where(totals > 0, totals, 1.0) * (carried - expected), 0.0)
    adds = sample.weights / sample.weights.sum() * (expected - value) + known
    alone = float(np.square(adds).sum())
    together = np.bincount(sample.clusters, adds)
    count = len(np.unique(sample.clusters))
    return max(1.0, float(np.square(together).sum()) * count / (count - 1) / alone) if alone > ZERO**2 else 1.0
