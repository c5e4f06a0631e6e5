"""Where the people of a queue differ, item by item, and what was decided there."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations

from benchapp.models import Code, Queue, Resolution
from benchapp.review.coding.answer_overlap import Answered, answered_items
from benchapp.review.queues.statuses import differ
from benchapp.stats.agreement.kappa import Cell, cells_of


class About(StrEnum):
    """What an item's answers can differ in."""

    CODES = "codes"
    ATTRIBUTION = "attribution"
    STEP = "step"  # of the first upstream failure


class Standing(StrEnum):
    OPEN = "open"  # a dispute: codes differ, and nobody has decided
    RESOLVED = "resolved"
    AGREED = "agreed"  # the same codes, even if the rest differs


@dataclass(frozen=True, slots=True)
class Compared:
    """An item with two answers or more. differs: in what. resolution: the current one."""

    item: Answered
    differs: frozenset[About]
    resolution: Resolution | None

    @property
    def standing(self) -> Standing:
        if self.resolution:
            return Standing.RESOLVED
        return Standing.OPEN if About.CODES in self.differs else Standing.AGREED

    def stands_in(self, cell: Cell) -> bool:
        """Does some pair of its reviews count in that cell of the confusion matrix?"""
        sets = [answer.codes for answer in self.item.answers if answer.counts]
        either = {cell, cell[::-1]}
        return any(either.intersection(cells_of(one, other)) for one, other in combinations(sets, 2))


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which items to list. cell: a cell of the confusion matrix, by keys of codes; one on the diagonal lists items that
    agree. about: None lists everything that was answered twice."""

    about: About | None = About.CODES
    standing: Standing | None = None
    cell: Cell | None = None

    def takes(self, each: Compared) -> bool:
        if self.standing and each.standing != self.standing:
            return False
        if self.cell is not None:
            return each.item.is_overlap and each.stands_in(self.cell)
        return self.about is None or self.about in each.differs


def compared_items(queue: Queue) -> list[Compared]:
    """Return all items of the queue with two submitted reviews or more, in its order; also those outside the overlap
    that got a second review because a reservation ran out."""
    resolutions = Resolution.objects.filter(item__queue=queue, superseded_at=None).select_related("adjudicator")
    standing = {each.item_id: each for each in resolutions.prefetch_related("codes")}
    return [
        Compared(item, differences(item), standing.get(item.pk))
        for item in answered_items(queue)
        if len(item.answers) > 1
    ]


def differences(item: Answered) -> frozenset[About]:
    """Compare the answers. A missing attribution is not a difference; a missing first failure is."""
    answers = item.answers
    found = set()
    if differ(answer.codes for answer in answers):
        found.add(About.CODES)
    if len({answer.attribution for answer in answers if answer.attribution}) > 1:
        found.add(About.ATTRIBUTION)
    if len({answer.first for answer in answers}) > 1:
        found.add(About.STEP)
    return frozenset(found)


def after(rows: Sequence[Compared], ordinal: int) -> Compared | None:
    """Return the next item without a resolution after that place in the queue, else the first one before it."""
    undecided = [each for each in rows if each.resolution is None and each.item.ordinal != ordinal]
    later = (each for each in undecided if each.item.ordinal > ordinal)
    return next(later, undecided[0] if undecided else None)


def count_open(rows: Sequence[Compared]) -> int:
    return sum(each.standing == Standing.OPEN for each in rows)


def code_names(queue: Queue) -> dict[int, Code]:
    return {code.pk: code for code in queue.version.codes.all()}
