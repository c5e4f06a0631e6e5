"""Draw items from a population: which, in what order, which twice, and with what probability. Pure; no database.

Every choice ranks the candidates by a hash of (seed, purpose, public id) and takes the first ones. A hash of something
nobody chose behaves like a fresh random number, so the first n of N are a simple random sample. Unlike a generator it
does not depend on the order of rows, on the database, or on the version of a library.
"""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from uuid import UUID

ALL, RANDOM, STRATIFIED = "all", "random", "stratified"
EQUAL, PROPORTIONAL = "equal", "proportional"
Strata = Mapping[str, Collection[UUID]]


class Undrawable(ValueError):
    """The draw is impossible; the text says why and what would work."""


@dataclass(frozen=True, slots=True)
class Draw:
    """How to draw. `size`: items in total; per stratum where strata get equal numbers. `controls`: additional passes.

    `overlap`: share of the items (0..1) that get `reviews` reviews each; the others get one.
    """

    sampling: str = ALL
    size: int = 0
    facet: str = ""
    allocation: str = EQUAL
    controls: int = 0
    reviews: int = 1
    overlap: float = 1.0
    seed: int = 0


@dataclass(frozen=True, slots=True)
class Drawn:
    """One item. `inclusion`: the probability that this draw takes it, n/N of its stratum, > 0 and <= 1."""

    public_id: UUID
    stratum: str
    inclusion: float
    is_control: bool = False
    is_overlap: bool = False
    reviews: int = 1


def draw(strata: Strata, how: Draw, passes: Strata | None = None) -> list[Drawn]:
    """Draw items in the order of review, which mixes strata and controls. `passes`: control candidates by stratum.

    Undrawable where a number makes no sense, or where a stratum would be left out: what can never be drawn cannot be
    weighted for.
    """
    if not any(strata.values()):
        raise Undrawable("Nothing is selected: the population is empty.")
    if how.sampling != ALL and how.size < 1:
        raise Undrawable("At least one item must be drawn.")
    if how.reviews < 1:
        raise Undrawable("Every item needs at least one review.")
    if not 0 <= how.overlap <= 1:
        raise Undrawable("The overlap is a share of the items, from 0 to 1.")
    sizes = allot({stratum: len(ids) for stratum, ids in strata.items()}, how)
    items = [
        Drawn(public_id, stratum, sizes[stratum] / len(ids))
        for stratum, ids in strata.items()
        for public_id in rank_ids(ids, how.seed, "draw")[: sizes[stratum]]
    ]
    items += _controls(passes or {}, how)
    items.sort(key=lambda item: _rank(item.public_id, how.seed, "order"))
    return _with_overlap(items, how)


def allot(sizes: Mapping[str, int], how: Draw) -> dict[str, int]:
    """Return stratum -> how many are drawn from it; at least one, never more than there are."""
    total = sum(sizes.values())
    if how.sampling == ALL:
        return dict(sizes)
    if how.sampling == STRATIFIED and how.allocation == EQUAL:
        return {stratum: min(how.size, size) for stratum, size in sizes.items()}
    size = min(how.size, total)
    if size < len(sizes):
        raise Undrawable(
            f"{size} items cannot hold one of each of the {len(sizes)} strata: draw at least {len(sizes)}."
        )
    return _proportional(sizes, size)


def rank_ids(ids: Iterable[UUID], seed: int, purpose: str) -> list[UUID]:
    """Return the ids ranked, the same for any input order."""
    return sorted(ids, key=lambda public_id: _rank(public_id, seed, purpose))


def _rank(public_id: UUID, seed: int, purpose: str) -> bytes:
    return hashlib.sha256(f"{seed} {purpose} {public_id.hex}".encode()).digest()


def _proportional(sizes: Mapping[str, int], size: int) -> dict[str, int]:
    """Allot at least one each, the rest in proportion by largest remainders. `size` is at most the sum of `sizes`."""
    total = sum(sizes.values())
    quotas = {stratum: Fraction(size * n, total) for stratum, n in sizes.items()}
    found = {stratum: max(1, int(quota)) for stratum, quota in quotas.items()}
    while (short := size - sum(found.values())) != 0:
        step = 1 if short > 0 else -1
        movable = [stratum for stratum in sizes if 1 <= found[stratum] + step <= sizes[stratum]]
        # the one farthest on the wrong side of its quota; of equals the first by name
        chosen = min(movable, key=lambda stratum: (step * (found[stratum] - quotas[stratum]), stratum))
        found[chosen] += step
    return found


def _controls(passes: Strata, how: Draw) -> list[Drawn]:
    if not how.controls:
        return []
    stratum_of = {public_id: stratum for stratum, ids in passes.items() for public_id in ids}
    if not stratum_of:
        raise Undrawable("This selection has no passed trial to use as a control.")
    taken = rank_ids(stratum_of, how.seed, "controls")[: how.controls]
    inclusion = len(taken) / len(stratum_of)
    return [Drawn(public_id, stratum_of[public_id], inclusion, is_control=True) for public_id in taken]


def _with_overlap(items: Sequence[Drawn], how: Draw) -> list[Drawn]:
    """Mark at least one item where any overlap is asked for, so that agreement can be measured at all."""
    if how.reviews == 1 or not how.overlap:
        return list(items)
    size = max(1, round(Fraction(how.overlap).limit_denominator(10_000) * len(items)))
    twice = set(rank_ids((item.public_id for item in items), how.seed, "overlap")[:size])
    return [replace(item, is_overlap=True, reviews=how.reviews) if item.public_id in twice else item for item in items]
