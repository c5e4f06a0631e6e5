"""Refusals counted by class: SkillGenBench's figure 6 has a row per source, and counts with shares in its cells."""

from __future__ import annotations

from collections import Counter
from collections.abc import Hashable, Iterable, Sequence
from dataclasses import dataclass

from benchapp.analysis.failures.failure_classes import FailureClass
from benchapp.analysis.failures.failure_reading import RefusedRow
from benchapp.record.json_shape import JsonShape, Shaped

UNCLASSIFIED = "unclassified"
COLUMNS: tuple[str, ...] = (*(failure.value for failure in FailureClass), UNCLASSIFIED)


@dataclass(frozen=True, slots=True)
class FailureRow(Shaped):
    """`counts`: one per column, by the primary class. `further`: refusals that show the class beside another primary one."""

    key: str
    title: str
    counts: tuple[int, ...]
    further: tuple[int, ...]

    json_shape = JsonShape(
        *("key", "title"),
        ("primary", lambda row: dict(zip(COLUMNS, row.counts, strict=True))),
        ("beside_another", lambda row: dict(zip(COLUMNS, row.further, strict=True))),
        "total",
    )

    @property
    def total(self) -> int:
        return sum(self.counts)


def choose_column(refused: RefusedRow) -> str:
    primary = refused.classified.primary
    return primary.value if primary else UNCLASSIFIED


def count_row(key: str, title: str, refused: Iterable[RefusedRow]) -> FailureRow:
    counts: Counter[Hashable] = Counter()
    further: Counter[Hashable] = Counter()
    for each in refused:
        counts[choose_column(each)] += 1
        further.update(failure.value for failure in each.classified.others)
    return FailureRow(key, title, tuple(counts[name] for name in COLUMNS), tuple(further[name] for name in COLUMNS))


def count_by_source(refused: Sequence[RefusedRow], names: dict[str, str]) -> list[FailureRow]:
    """One row per source that has a refusal, in the order of `names`, which are their titles."""
    found = [(key, title, [each for each in refused if each.source == key]) for key, title in names.items()]
    return [count_row(key, title, own) for key, title, own in found if own]
