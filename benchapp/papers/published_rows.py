"""One printed number of a paper, and the exact numbers that its rounding allows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cache

MEAN_OF_MODELS = "average of "  # prefix of `model` where a number is a mean over models

# Attempts of one model behind a percentage, where a paper gives their number, by (paper, metric).
DENOMINATORS: Mapping[tuple[str, str], int] = {
    # SkillEvolBench, sections 3.1 and 4.5: 30 families, each with three acquisition and three deployment roles
    ("skillevolbench", "LSR"): 90,
    ("skillevolbench", "RSR"): 90,
    ("skillevolbench", "ESR"): 90,
    ("skillevolbench", "CSSR"): 30,
    ("skillevolbench", "ARSR"): 30,
    ("skillevolbench", "CompSR"): 30,
    # SkillFlow, sections 2.1 and C.1: shares of 166 tasks
    ("skillflow", "completion"): 166,
    ("skillflow", "use"): 166,
    # SkillGenBench, section 4.1: 187 tasks, solved in at least one of three trials
    ("skillgenbench", "pass@3"): 187,
}


@dataclass(frozen=True, slots=True)
class PrintedNumber:
    """A cell of a table (`table` "Table 1") or a number of the running text (`table` "Text").

    `row`: its label as printed, short. `condition` and `metric`: the words of this project. `group`: environment,
    domain or category, "" for all together. `value` is in `unit`; None where a dash or a blank is printed (see `note`).
    `printed` and `printed_delta` are exactly what the paper shows. `reference`: what the delta is relative to, a
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
    def number(self) -> Fraction:
        """The value without the error of binary fractions. ValueError for a blank."""
        if self.value is None:
            raise ValueError(f"{self.paper}, {self.table}, {self.row}: {self.metric} is blank")
        return _exact(self.value)

    @property
    def span(self) -> tuple[Fraction, Fraction]:
        """Lowest and highest number that rounds to the print, in `unit`; a tie may go either way."""
        return _span(self.number, self.printed)

    @property
    def possible(self) -> tuple[Fraction, Fraction]:
        """The exact numbers that the printed one may be: k of n where these are known, else the span."""
        if self.k is None or self.n is None:
            return self.span
        return Fraction(100 * self.k, self.n), Fraction(100 * self.k, self.n)

    @property
    def n(self) -> int | None:
        """Attempts behind a percentage of one model over all groups; None where the paper gives no such number."""
        if self.unit != "%" or self.group or not self.model or self.model.startswith(MEAN_OF_MODELS):
            return None
        return DENOMINATORS.get((self.paper, self.metric))

    @property
    def k(self) -> int | None:
        """The successes that round to the print: k of n. None where n is unknown or no k fits."""
        return None if self.n is None or self.value is None else _count(self.number, self.printed, self.n)

    @property
    def is_no_count(self) -> bool:
        """True where n is known and no k of n rounds to the printed number."""
        return self.n is not None and self.value is not None and self.k is None


def count_decimals(printed: str) -> int:
    """Digits after the point of a printed number: 1 of "+38.9", 0 of "727K"."""
    return sum(letter.isdigit() for letter in printed.partition(".")[2])


def half_unit(printed: str) -> Fraction:
    """Half of the last printed place: 0.05 of "+38.9", 0.5 of "727K"."""
    return Fraction(1, 2 * 10 ** count_decimals(printed))


# Cached: pages and checks use the same few thousand cells many times, and exact fractions are slow.
@cache
def _exact(value: float) -> Fraction:
    return Fraction(repr(value))


@cache
def _span(number: Fraction, printed: str) -> tuple[Fraction, Fraction]:
    return number - half_unit(printed), number + half_unit(printed)


@cache
def _count(number: Fraction, printed: str, n: int) -> int | None:
    k = round(number * n / 100)
    low, high = _span(number, printed)
    return k if low <= Fraction(100 * k, n) <= high else None
