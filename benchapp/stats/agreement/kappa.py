"""Agreement on one code at a time: used or not used."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.agreement.alpha import Unit, alpha
from benchapp.stats.agreement.distances import A, nominal_distance

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
