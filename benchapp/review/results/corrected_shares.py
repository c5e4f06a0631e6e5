"""How often a code is carried, from a judge's answers on many items and people's on some of these. Pure numpy.

People find one share of carriers among the items where the judge answers yes, and another where it answers no. The
result is the two shares, weighted by how often the judge answers yes and no (Tenenbein 1970, double sampling; for a
yes-or-no judge it is the prediction-powered estimate with its best weight, Angelopoulos, Duchi & Zrnic 2023). It is
right with any judge, as long as the choice of items that people settled does not depend on what they carry, within a
stratum; a good judge makes it sharper. Rogan & Gladen (1978) correct with rates that may come from elsewhere, and know
less where people looked at the judge's own items: `lab/corrected_coverage.py` compares them.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from scipy.special import stdtrit

from benchapp.record.json_shape import Shaped
from benchapp.review.results.population_shares import (
    MIN_CLUSTERS,
    CodedSample,
    Flags,
    count_effective,
    wilson_of_share,
)
from benchapp.stats.inference.interval import LEVEL, TAIL, ZERO, Floats, Interval
from benchapp.stats.inference.shares import MIN_FOR_INTERVAL, Z_95

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


def correct_share(sample: CodedSample, said: Flags, settled: Flags, carried: Flags) -> CorrectedShare:
    """Correct one code's share. sample: items the judge read; all flags [n]; `carried` counts where `settled`."""
    read, known = len(sample), int(settled.sum())
    if not read or not known:
        value = _mean(sample.weights, said) if read else None
        return CorrectedShare(value, None, None, None, read, known, "people settled none of the items it read")
    weights = np.where(settled, sample.weights * _fill_strata(sample, settled), 0.0)
    judge, people = _mean(sample.weights, said), _mean(weights, carried & settled)
    parts = [_part(sample, answer, settled, carried, weights) for answer in (said, ~said)]
    note = _why_no_value(sample, settled, parts)
    if note:
        return CorrectedShare(judge, people, None, None, read, known, note)
    yes, no = _fill_empty(parts)
    value = yes.size * yes.carrying + no.size * no.carrying
    note = _why_no_interval(known, len(np.unique(sample.clusters[settled])))
    interval = None if note else _interval(sample, said, settled, carried, weights, (yes, no))
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


def _why_no_interval(settled: int, clusters: int) -> str:
    if settled < MIN_FOR_INTERVAL:
        return f"{settled} settled, too few for an interval"
    if clusters < MIN_CLUSTERS:
        return f"{clusters} {'cluster' if clusters == 1 else 'clusters'} settled, too few for an interval"
    return ""


def _fill_empty(parts: list[_Part]) -> tuple[_Part, _Part]:
    """Replace an empty part. A judge that always gives the same answer leaves one part, which represents both."""
    yes, no = parts
    if not yes.settled:
        return _Part(0.0, no.carrying, no.settled, no.effective), no
    if not no.settled:
        return yes, _Part(0.0, yes.carrying, yes.settled, yes.effective)
    return yes, no


def _interval(
    sample: CodedSample, said: Flags, settled: Flags, carried: Flags, weights: Floats, parts: tuple[_Part, _Part]
) -> Interval:
    """Combine Wilson's errors of the two parts and of how often the judge answers yes, as squares on each side (MOVER;
    Zou & Donner 2008). So a judge that agreed by luck on few items still has an interval with width."""
    yes, no = parts
    value = yes.size * yes.carrying + no.size * no.carrying
    clusters = len(np.unique(sample.clusters[settled]))
    t = float(stdtrit(clusters - 1, 1 - TAIL))
    shrunk = (Z_95 / t) ** 2 / _design_effect(sample, said, settled, carried, weights, parts)
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
    sample: CodedSample, said: Flags, settled: Flags, carried: Flags, weights: Floats, parts: tuple[_Part, _Part]
) -> float:
    """Return the factor of the variance over as many unclustered items, at least 1. From each item's contribution to
    the linearised share."""
    yes, no = parts
    value = yes.size * yes.carrying + no.size * no.carrying
    expected = np.where(said, yes.carrying, no.carrying)
    totals = np.where(said, weights[said].sum(), weights[~said].sum())
    sizes = np.where(said, yes.size, no.size)
    known = np.where(settled, weights * sizes / np.where(totals > 0, totals, 1.0) * (carried - expected), 0.0)
    adds = sample.weights / sample.weights.sum() * (expected - value) + known
    alone = float(np.square(adds).sum())
    together = np.bincount(sample.clusters, adds)
    count = len(np.unique(sample.clusters))
    return max(1.0, float(np.square(together).sum()) * count / (count - 1) / alone) if alone > ZERO**2 else 1.0
