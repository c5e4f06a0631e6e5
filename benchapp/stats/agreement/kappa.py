"""Agreement on one code at a time, the codes used in place of each other, and Spearman's correlation of ranks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

import numpy as np

from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.agreement.alpha import A, Unit, alpha, nominal_distance
from benchapp.stats.inference.interval import Floats

COHEN = "Cohen's kappa"
KRIPPENDORFF = "Krippendorff's alpha, nominal"


@dataclass(frozen=True, slots=True)
class Counted(Shaped):
    """k of n."""

    k: int
    n: int

    json_shape = JsonShape("k", "n", "share")

    @property
    def share(self) -> float | None:
        return self.k / self.n if self.n else None


@dataclass(frozen=True, slots=True)
class CodeAgreement(Shaped):
    """agree: pairs of reviews that both use the code, or both do not, of all pairs. both: pairs that both use it, of
    those where at least one does; a rare code agrees mostly by absence, and this does not count that. used: reviews.
    """

    value: float | None
    coefficient: str
    agree: Counted
    both: Counted
    used: Counted
    note: str = ""


def pairs(units: Sequence[Unit[A]]) -> list[tuple[A, A]]:
    """Return the answers of every two reviewers of one unit."""
    return [pair for unit in units for pair in combinations(unit.values(), 2)]


def count_agreed(units: Sequence[Unit[A]]) -> Counted:
    """Count the equal pairs of answers, of all pairs."""
    found = pairs(units)
    return Counted(sum(one == other for one, other in found), len(found))


def code_agreement(units: Sequence[Unit[frozenset[int]]], code: int) -> CodeAgreement:
    """Measure agreement on one code, over units with two answers or more. Kappa where the same two people gave all of
    them, else Krippendorff's nominal alpha, for any number of reviewers and missing answers."""
    double = [{who: code in codes for who, codes in unit.items()} for unit in units if len(unit) > 1]
    found = pairs(double)
    answers = [answer for unit in double for answer in unit.values()]
    both, either = sum(a and b for a, b in found), sum(a or b for a, b in found)
    coefficient, value = coefficient_of(double)
    note = ""
    if value is None:
        always = "use it" if both else "leave it out"
        note = f"all reviews {always}" if double else "no item has two answers"
    return CodeAgreement(
        value, coefficient, count_agreed(double), Counted(both, either), Counted(sum(answers), len(answers)), note
    )


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
