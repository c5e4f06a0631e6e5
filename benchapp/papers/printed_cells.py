"""Printed numbers of one paper, found by table and column, and what their rounding allows. Pure arithmetic.

A printed number means every number that rounds to it: "30.44" is 30.435 to 30.445.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from fractions import Fraction

from benchapp.papers.published_rows import PrintedNumber


class Cells:
    """Rows of one paper by (table, metric) and any of row, model, condition and group."""

    def __init__(self, rows: Iterable[PrintedNumber]) -> None:
        self._columns: dict[tuple[str, str], list[PrintedNumber]] = {}
        self._of_condition: dict[tuple[str, str, str], list[PrintedNumber]] = {}
        for row in rows:
            self._columns.setdefault((row.table, row.metric), []).append(row)
            self._of_condition.setdefault((row.table, row.metric, row.condition), []).append(row)

    def many(self, table: str, metric: str, **where: str) -> list[PrintedNumber]:
        """Return the cells of a column that print a number, in the order of the paper."""
        if "condition" in where:
            column = self._of_condition.get((table, metric, where.pop("condition")), [])
        else:
            column = self._columns.get((table, metric), [])
        return [
            row
            for row in column
            if row.value is not None and all(getattr(row, field) == wanted for field, wanted in where.items())
        ]

    def one(self, table: str, metric: str, **where: str) -> PrintedNumber:
        """Return the only such cell. LookupError where there is none or more than one."""
        found = self.many(table, metric, **where)
        if len(found) != 1:
            raise LookupError(f"{table}, {metric}, {where}: expected one number, found {len(found)}")
        return found[0]

    def metrics(self, table: str) -> list[str]:
        """List the metrics of a table in the order of its columns."""
        return [metric for of, metric in self._columns if of == table]


def rounds_to(exact: Fraction, cell: PrintedNumber) -> bool:
    """Does the exact number round to the printed one? A tie may go either way."""
    low, high = cell.span
    return low <= exact <= high


def find_count(cell: PrintedNumber, n: int) -> int | None:
    """Return the k where k of n is the printed percentage, None where there is no such k."""
    k = round(cell.number * n / 100)
    return k if rounds_to(Fraction(100 * k, n), cell) else None


def counts_make(shares: Sequence[PrintedNumber], n: int) -> bool:
    """Can n things be split so that each part's percentage is as printed?"""
    counts = [find_count(share, n) for share in shares]
    return None not in counts and sum(k for k in counts if k is not None) == n
