"""Find printed numbers that do not add up: the checks for every paper. A paper's own are in a module named after it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from fractions import Fraction

from benchapp.papers.published_rows import Cells, Erratum, PrintedNumber, References, count_decimals, format_signed


@dataclass(frozen=True, slots=True)
class TracedErratum(Erratum):
    """A recomputed finding with the cells it is about (`name_of`): first those at fault,
    then those that contradict them."""

    cells: tuple[str, ...]


def erratum(cell: PrintedNumber, recomputed: str, kind: str, sentence: str, *others: PrintedNumber) -> TracedErratum:
    """What is wrong with the number a cell prints, by the `others`."""
    cells = names_of([cell, *others])
    return TracedErratum(cell.paper, cell.table, place_of(cell), cell.printed, recomputed, kind, sentence, cells)


class WatchedCells(Cells):
    """The same cells, remembering which were read."""

    def __init__(self, cells: Cells) -> None:
        self._cells = cells
        self.read: dict[PrintedNumber, None] = {}

    def many(self, table: str, metric: str, **where: str) -> list[PrintedNumber]:
        found = self._cells.many(table, metric, **where)
        self.read.update(dict.fromkeys(found))
        return found


def names_of(cells: Iterable[PrintedNumber]) -> tuple[str, ...]:
    return tuple(dict.fromkeys(f"{cell.table}: {place_of(cell)}" for cell in cells))


def place_of(row: PrintedNumber) -> str:
    """Where a number stands, for a reader: model, condition, group and metric, each once."""
    where = (row.row if row.table == "Text" else "", row.model, row.condition or row.row, row.group, row.metric)
    return ", ".join(dict.fromkeys(part for part in where if part))


def is_no_count(row: PrintedNumber) -> bool:
    """True where n is known and no k of n rounds to the printed number."""
    return row.n is not None and row.value is not None and row.k is None


def delta_findings(rows: Iterable[PrintedNumber]) -> Iterator[TracedErratum]:
    """Every printed delta that its own columns contradict, by the counts behind them where these are known.

    Also one that only unrounded numbers give: its columns do not contradict it, but nobody gets it from them.
    """
    rows = list(rows)
    references = References(rows)
    for row in rows:
        delta = references.recompute(row)
        if delta is None:
            continue
        # Only other numbers that round to the printed ones may give it.
        needs_unrounded = delta.adds_up and delta.low < delta.high and Fraction(delta.of_prints) != delta.printed
        if delta.adds_up and not needs_unrounded:
            continue
        if needs_unrounded:
            kind = "unrounded numbers"
            reach = " to ".join(
                format_signed(end, count_decimals(row.printed_delta)) for end in (delta.low, delta.high)
            )
            sentence = f"The columns as printed give {delta.text}; numbers that round to them give {reach}."
        elif delta.of_prints == row.printed_delta:
            kind = "rounded before subtracting"
            sentence = f"It is the difference of the rounded columns; the counts behind them give {delta.text}."
        else:
            kind = "delta"
            sentence = f"Against {row.reference} its columns give {delta.text}."
        found = erratum(row, delta.text, kind, sentence, references.find(row))
        yield replace(found, printed=row.printed_delta)


def count_findings(rows: Iterable[PrintedNumber]) -> Iterator[TracedErratum]:
    """Every percentage that is no k of its n."""
    for row in rows:
        if is_no_count(row):
            assert row.n is not None
            near = int(row.number * row.n / 100)
            around = " and ".join(f"{k}/{row.n} = {100 * k / row.n:.2f}" for k in (near, near + 1))
            sentence = f"No count of {row.n} attempts gives it; the nearest are {around}."
            yield erratum(row, around, "no k of n", sentence)
