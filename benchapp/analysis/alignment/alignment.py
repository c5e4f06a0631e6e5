"""An alignment as values: rows in order, stretches of one kind, and where the two sides diverge."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from benchapp.analysis.alignment.step_signs import StepSign


class RowKind(StrEnum):
    """How the two sides of a row relate."""

    SAME = "same"  # did the same and got the same
    CHANGED = "changed"  # belong together; the action or the result differs
    LEFT = "left"  # only on the left
    RIGHT = "right"


class DifferingPart(StrEnum):
    """The part that differs between two steps of a row."""

    GIVEN = "given"  # the prompt, or anything else that the agent did not do
    ACTION = "action"  # what the agent called, or whether it called anything
    RESULT = "result"
    WORDS = "words"  # what it said in a step that calls nothing


@dataclass(frozen=True, slots=True)
class AlignedRow:
    """A pair of steps or a single step: places from 0. `differs`: the parts that differ, empty for the same."""

    left: int | None
    right: int | None
    kind: RowKind
    differs: tuple[DifferingPart, ...] = ()


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows `first` to `last`, both included. Unpaired steps of either side form one stretch with `kind` None."""

    kind: RowKind | None
    first: int
    last: int

    @property
    def length(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Parting:
    """The first row where each part differs; None if it never does."""

    given: int | None
    action: int | None
    result: int | None
    words: int | None

    @property
    def first(self) -> int | None:
        """Return the first row where the agents acted differently, else the first difference of any kind."""
        others = [row for row in (self.given, self.result, self.words) if row is not None]
        return self.action if self.action is not None else min(others, default=None)


@dataclass(frozen=True, slots=True)
class Alignment:
    """`rows` have every step of both sides once, in order on both. `cells`: pairs that were compared. `is_banded`: a
    stretch was too long to compare all its pairs, so steps far apart in it were never compared."""

    rows: tuple[AlignedRow, ...]
    cells: int = 0
    is_banded: bool = False

    def count(self, kind: RowKind) -> int:
        return sum(row.kind is kind for row in self.rows)

    def parting(self) -> Parting:
        firsts = {
            part: next((at for at, row in enumerate(self.rows) if part in row.differs), None) for part in DifferingPart
        }
        return Parting(
            firsts[DifferingPart.GIVEN],
            firsts[DifferingPart.ACTION],
            firsts[DifferingPart.RESULT],
            firsts[DifferingPart.WORDS],
        )

    def stretches(self) -> list[Stretch]:
        found, at = [], 0
        for kind, rows in groupby(
            row.kind if row.kind in (RowKind.SAME, RowKind.CHANGED) else None for row in self.rows
        ):
            length = sum(1 for _ in rows)
            found.append(Stretch(kind, at, at + length - 1))
            at += length
        return found


def build_rows(
    left: Sequence[StepSign], right: Sequence[StepSign], pairs: Iterable[tuple[int, int]]
) -> tuple[AlignedRow, ...]:
    """Return every step once: the pairs, and between two of them the left steps, then the right ones."""
    rows: list[AlignedRow] = []
    at, beside = 0, 0
    for one, other in [*pairs, (len(left), len(right))]:
        rows += (AlignedRow(place, None, RowKind.LEFT, (_choose_part(left[place]),)) for place in range(at, one))
        rows += (
            AlignedRow(None, place, RowKind.RIGHT, (_choose_part(right[place]),)) for place in range(beside, other)
        )
        if one < len(left):
            rows.append(_make_row(one, other, left[one], right[other]))
        at, beside = one + 1, other + 1
    return tuple(rows)


def _choose_part(sign: StepSign) -> DifferingPart:
    """Return the part that an unpaired or different step belongs to."""
    return DifferingPart.GIVEN if sign.is_given else DifferingPart.ACTION if sign.tools else DifferingPart.WORDS


def _make_row(left: int, right: int, one: StepSign, other: StepSign) -> AlignedRow:
    differs = []
    if one.action != other.action or one.tools != other.tools:
        differs.append(_choose_part(one))
    if one.result != other.result:
        differs.append(DifferingPart.RESULT)
    return AlignedRow(left, right, RowKind.CHANGED if differs else RowKind.SAME, tuple(differs))
