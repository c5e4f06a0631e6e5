"""Which codes occur together. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchapp.review.results.queue_results import Coded


@dataclass(frozen=True, slots=True)
class Together:
    """Items that carry both of two codes, and that carry at least one; fractions where reviewers of an item disagree."""

    both: float
    either: float

    @property
    def share(self) -> float | None:
        """Jaccard's index: of the items with either, those with both."""
        return self.both / self.either if self.either else None


def count_together(items: Iterable[Coded], codes: Sequence[frozenset[int]]) -> dict[tuple[int, int], Together]:
    """Return (place of one, place of the other) -> items; places in `codes`, each a code with all beneath it. The
    diagonal is the number of items with the code. Unweighted: these are counts of items coded, not of a population."""
    both = {(row, column): 0.0 for row in range(len(codes)) for column in range(row + 1)}
    either = dict(both)
    for item in items:
        for voice in item.voices:
            part = 1 / len(item.voices)
            has = [bool(voice.codes & each) for each in codes]
            for row, column in both:
                both[row, column] += part * (has[row] and has[column])
                either[row, column] += part * (has[row] or has[column])
    found = {pair: Together(both[pair], either[pair]) for pair in both}
    return found | {(column, row): value for (row, column), value in found.items()}
