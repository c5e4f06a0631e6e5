"""One printed number of a paper, and how exactly its print fixes it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import ROUND_HALF_EVEN, ROUND_HALF_UP, Decimal
from fractions import Fraction

# Attempts behind a percentage where a paper says how many there are, by (paper, metric).
DENOMINATORS: Mapping[tuple[str, str], int] = {
    # SkillEvolBench, sections 3.1 and 4.5: 30 families, each with three learning roles and three deployment roles
    ("skillevolbench", "LSR"): 90,
    ("skillevolbench", "RSR"): 90,
    ("skillevolbench", "ESR"): 90,
    ("skillevolbench", "CSSR"): 30,
    ("skillevolbench", "ARSR"): 30,
    ("skillevolbench", "CompSR"): 30,
    # SkillFlow, section 3: 166 tasks
    ("skillflow", "completion"): 166,
}


@dataclass(frozen=True, slots=True)
class Printed:
    """A cell of a table (`table` "Table 1") or a number of the running text (`table` "Text").

    `row`: its label as printed, short. `condition` and `metric`: the words of this project. `group`: environment, domain
    or category, "" for all together. `value` is in `unit`; None where a dash or a blank is printed (`note` says why).
    `printed` and `printed_delta` are exactly what the paper shows; `reference` says what the delta is against: a
    condition and a metric of the same table, harness, model and group ("no-skill LSR").
    """

    paper: str
    table: str
    row: str
    harness: str
    model: str
    condition: str
    group: str
    metric: str
    unit: str
    value: float | None
    printed: str
    printed_delta: str = ""
    reference: str = ""
    note: str = ""

    @property
    def places(self) -> int:
        """Decimal digits of the print."""
        return decimals(self.printed)

    @property
    def n(self) -> int | None:
        """Attempts behind a percentage over all groups; None where the paper fixes no such number."""
        return DENOMINATORS.get((self.paper, self.metric)) if self.unit == "%" and not self.group else None

    @property
    def k(self) -> int | None:
        """The successes that round to the print: k of n. None where n is unknown or no k fits."""
        if self.n is None or self.value is None:
            return None
        k = round(self.value * self.n / 100)
        return k if self.value in roundings(Fraction(100 * k, self.n), self.places) else None

    @property
    def is_no_count(self) -> bool:
        """Whether n is known and no k of n rounds to what is printed."""
        return self.n is not None and self.value is not None and self.k is None


def decimals(printed: str) -> int:
    """Digits after the point of a printed number: 1 of "+38.9", 0 of "727K"."""
    return sum(letter.isdigit() for letter in printed.partition(".")[2])


def roundings(exact: Fraction, places: int) -> set[float]:
    """What an exact number may be printed as: two values where it lies half-way, else one."""
    # 30 digits tell a tie from its neighbours for every denominator below 10**20
    value = Decimal(exact.numerator * 10**30 // exact.denominator).scaleb(-30)
    unit = Decimal(1).scaleb(-places)
    return {float(value.quantize(unit, rounding=way)) for way in (ROUND_HALF_UP, ROUND_HALF_EVEN)}
