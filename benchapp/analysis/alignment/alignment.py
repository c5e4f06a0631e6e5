"""An alignment as values: rows in order, stretches of one kind, and where the two first part."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import groupby

from benchapp.analysis.alignment.step_signs import Sign


class Kind(StrEnum):
    SAME = "same"  # did the same and got the same
    CHANGED = "changed"  # belong together; the action or the result differs
    LEFT = "left"  # only on the left
    RIGHT = "right"


class Part(StrEnum):
    GIVEN = "given"  # the prompt, or whatever else was not the agent's doing
    ACTION = "action"  # what the agent called, or that it called anything here
    RESULT = "result"
    WORDS = "words"  # what it said in a step that calls nothing


@dataclass(frozen=True, slots=True)
class Row:
    """A pair of steps or a step alone: places from 0. `differs`: in what, empty where the row is the same."""

    left: int | None
    right: int | None
    kind: Kind
    differs: tuple[Part, ...] = ()


@dataclass(frozen=True, slots=True)
class Stretch:
    """Rows `first` to `last`, both included. Steps alone on either side form one stretch with `kind` None: there the
    two went their own ways."""

    kind: Kind | None
    first: int
    last: int

    @property
    def length(self) -> int:
        return self.last - self.first + 1


@dataclass(frozen=True, slots=True)
class Parting:
    """The first row at which each part differs; None where it never does."""

    given: int | None
    action: int | None
    result: int | None
    words: int | None

    @property
    def first(self) -> int | None:
        """Where the agents first acted differently; where they never did, the first difference of any kind."""
        others = [row for row in (self.given, self.result, self.words) if row is not None]
        return self.action if self.action is not None else min(others, default=None)


@dataclass(frozen=True, slots=True)
class Alignment:
    """`rows` have every step of both sides once, in order on both. `cells`: pairs that were weighed. `is_banded`: a stretch
    was too long for all its pairs to be weighed, so that steps far apart in it were never held against each other."""

    rows: tuple[Row, ...]
    cells: int = 0
    is_banded: bool = False

    def count(self, kind: Kind) -> int:
        return sum(row.kind is kind for row in self.rows)

    def parting(self) -> Parting:
        firsts = {part: next((at for at, row in enumerate(self.rows) if part in row.differs), None) for part in Part}
        return Parting(firsts[Part.GIVEN], firsts[Part.ACTION], firsts[Part.RESULT], firsts[Part.WORDS])

    def stretches(self) -> list[Stretch]:
        found, at = [], 0
        for kind, rows in groupby(row.kind if row.kind in (Kind.SAME, Kind.CHANGED) else None for row in self.rows):
            length = sum(1 for _ in rows)
            found.append(Stretch(kind, at, at + length - 1))
            at += length
        return found


def rows_of(left: Sequence[Sign], right: Sequence[Sign], pairs: Iterable[tuple[int, int]]) -> tuple[Row, ...]:
    """Every step once: the pairs, and between two of them what is only on the left, then only on the right."""
    rows: list[Row] = []
    at, beside = 0, 0
    for one, other in [*pairs, (len(left), len(right))]:
        rows += (Row(place, None, Kind.LEFT, (_part_of(left[place]),)) for place in range(at, one))
        rows += (Row(None, place, Kind.RIGHT, (_part_of(right[place]),)) for place in range(beside, other))
        if one < len(left):
            rows.append(_make_row(one, other, left[one], right[other]))
        at, beside = one + 1, other + 1
    return tuple(rows)


def _part_of(sign: Sign) -> Part:
    """What the step is, where it stands alone or differs."""
    return Part.GIVEN if sign.is_given else Part.ACTION if sign.tools else Part.WORDS


def _make_row(left: int, right: int, one: Sign, other: Sign) -> Row:
    differs = []
    if one.action != other.action or one.tools != other.tools:
        differs.append(_part_of(one))
    if one.result != other.result:
        differs.append(Part.RESULT)
    return Row(left, right, Kind.CHANGED if differs else Kind.SAME, tuple(differs))
