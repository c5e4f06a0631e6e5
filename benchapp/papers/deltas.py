"""Recompute printed deltas from the columns of their own table. Computed, never stored."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction

from benchapp.papers.published_rows import PrintedNumber, count_decimals, half_unit

RELATIVE = ", relative in %"  # end of a `reference` whose delta is a share of it, not a difference


@dataclass(frozen=True, slots=True)
class Recomputed:
    """A delta by the numbers behind the columns, which may be anything from `low` to `high`; in the delta's unit.

    `of_prints`: the delta of the numbers exactly as printed, rounded to the places of the printed delta. `text`: the
    best estimate, rounded and signed likewise.
    """

    printed: Fraction
    low: Fraction
    high: Fraction
    of_prints: str
    text: str
    room: Fraction

    @property
    def adds_up(self) -> bool:
        """Do some numbers that round to the columns have a difference that rounds to the printed delta?"""
        return self.low - self.room <= self.printed <= self.high + self.room

    @property
    def needs_unrounded(self) -> bool:
        """Does the delta add up only with other numbers that round to the printed ones?"""
        return self.adds_up and self.low < self.high and Fraction(self.of_prints) != self.printed


class References:
    """Finds the reference of a printed delta: by table, harness, model, group, condition and metric."""

    def __init__(self, rows: Iterable[PrintedNumber]) -> None:
        self._cells = {_key(row, row.condition, row.metric): row for row in rows if row.value is not None}

    def recompute(self, row: PrintedNumber) -> Recomputed | None:
        """Recompute a row's delta, None where none is printed. LookupError where the table lacks its reference."""
        if not row.printed_delta:
            return None
        return _recompute(row, self.find(row), relative=row.reference.endswith(RELATIVE))

    def find(self, row: PrintedNumber) -> PrintedNumber:
        """Find the reference of a row's printed delta. LookupError where the table does not have it."""
        wanted = row.reference.removesuffix(RELATIVE)
        condition, _, metric = wanted.partition(" ")
        reference = self._cells.get(_key(row, condition, metric))
        if reference is None:
            raise LookupError(f"{row.paper}, {row.table}, {row.model}: no {wanted!r} for the delta of {row.metric}")
        return reference


def _key(row: PrintedNumber, condition: str, metric: str) -> tuple[str, ...]:
    place = row.row if row.table == "Text" else ""
    return row.paper, row.table, place, row.harness, row.model, row.group, condition, metric


def _recompute(row: PrintedNumber, reference: PrintedNumber, *, relative: bool) -> Recomputed:
    (low, high), (from_low, from_high) = row.possible, reference.possible
    if relative:
        span = (100 * (low / from_high - 1), 100 * (high / from_low - 1))
        of_prints = 100 * (row.number / reference.number - 1)
    else:
        span = (low - from_high, high - from_low)
        of_prints = row.number - reference.number
    best = span[0] if span[0] == span[1] else of_prints
    places = count_decimals(row.printed_delta)
    return Recomputed(
        Fraction(row.printed_delta),
        *span,
        format_signed(of_prints, places),
        format_signed(best, places),
        half_unit(row.printed_delta),
    )


def format_signed(value: Fraction, places: int) -> str:
    """Format a number as papers print deltas: "+3.3", "-6.7", "0.0". Half-way cases round away from zero."""
    steps = int(abs(value) * 10**places + Fraction(1, 2))
    text = f"{steps // 10**places}" + (f".{steps % 10**places:0{places}d}" if places else "")
    return ("+" if value > 0 else "-") + text if steps else text
