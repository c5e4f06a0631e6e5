"""Split the trials of a comparison by environment, by family, or by an attribute of their tasks.

Every chart and table that splits trials uses a `Split`. Groups of tasks are not columns of `Outcomes`: a task's
attributes may change, while the numbers of its trials stay the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from benchapp.stats.inference.interval import Ints
from benchapp.stats.metrics.outcomes import CORPORA, Mask, Outcomes

NAMES = {"gap": "knowledge gap", "rank": "difficulty rank"}
PLACES = ("environment", "family")  # columns of Outcomes that hold keys of the record
GRADES = ("trivial", "easy", "medium", "moderate", "hard", "difficult", "expert")
# Values with an order of their own; others are sorted alphabetically.
ORDERED = {value: place for values in (GRADES, CORPORA) for place, value in enumerate(values)}


@dataclass(frozen=True, eq=False)
class Piece:
    """One part of a run: the key of its place or the number of its value, and its trials as a mask [n] of `whole`."""

    key: int
    mask: Mask
    whole: Outcomes

    @cached_property
    def outcomes(self) -> Outcomes:
        """Its trials alone, for when few metrics are needed."""
        return self.whole.where(self.mask)


@dataclass(frozen=True, slots=True)
class Split:
    """`by`: one of PLACES, or an attribute; then `members` has the tasks (keys) of each of its values, in order. A task
    with several values counts in each of them, one without any in none."""

    by: str
    members: Mapping[str, tuple[int, ...]] | None = None

    @property
    def values(self) -> list[str]:
        """The values of an attribute: part n of the split is the nth."""
        return list(self.members or ())

    @property
    def overlaps(self) -> bool:
        """Is a task in several parts?"""
        every = [task for tasks in (self.members or {}).values() for task in tasks]
        return len(set(every)) < len(every)

    def parts(self, outcomes: Outcomes) -> Iterator[tuple[int, Mask]]:
        """Yield (key of the place or number of the value, mask [n]) of every part that may have a trial."""
        if self.members is None:
            places: Ints = getattr(outcomes, self.by)
            for place in np.unique(places[places >= 0]).tolist():
                yield place, places == place
        else:
            for number, members in enumerate((self.members or {}).values()):
                mask = np.isin(outcomes.task, members)
                if mask.any():
                    yield number, mask

    def cut(self, outcomes: Outcomes) -> list[Piece]:
        """Cut the outcomes once for all metrics."""
        return [Piece(key, mask, outcomes) for key, mask in self.parts(outcomes)]


def order_value(value: str) -> tuple[int, float, str]:
    """Return a sort key: numbers by size, then what has an order of its own, then the rest by name."""
    if re.fullmatch(r"\d{1,15}(\.\d{1,15})?", value, re.ASCII):
        return 0, float(value), value
    return (1, ORDERED[value], value) if value in ORDERED else (2, 0, value.casefold())


def name_attribute(attribute: str) -> str:
    """Return the attribute's name on pages, in the singular."""
    return NAMES.get(attribute, attribute.replace("_", " "))
