"""Read several people's answers about the same items in a handful of queries. They are compared elsewhere."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Iterable
from dataclasses import dataclass
from uuid import UUID

from django.db.models import Count, Q

from benchapp.models import Label, Mark, Queue, Review, User
from benchapp.review.blinding import open_to
from benchapp.review.seeing import informed_reviews

Step = tuple[int | None, int]  # (trajectory, step)


@dataclass(frozen=True, slots=True)
class OverlapAnswer:
    """One submitted review, as far as it can agree with another.

    codes: of all its marks; none means that nothing is wrong. attribution: of the first upstream failure, else the one
    that all marks with an attribution share; None: none, or several. first: where the first upstream failure is.
    carried: made under another version and mapped to this one. informed: its author could read somebody else's answer
    about the unit before.
    """

    review: int
    reviewer: int
    codes: frozenset[int]
    attribution: str | None = None
    first: Step | None = None
    carried: bool = False
    informed: bool = False

    @property
    def counts(self) -> bool:
        """Does it count for agreement? Only an independent answer to the question of this version does."""
        return not self.carried and not self.informed


@dataclass(frozen=True, slots=True)
class Answered:
    """An item with its submitted answers. cluster: the task of a trial, else the episode. skipped: reviews that gave a
    reason and no codes; they are missing, not empty."""

    pk: int
    public_id: UUID
    ordinal: int
    cluster: Hashable
    needed: int
    is_overlap: bool
    skipped: int
    answers: tuple[OverlapAnswer, ...]

    @property
    def is_complete(self) -> bool:
        return len(self.answers) + self.skipped >= self.needed


def answered_items(queue: Queue) -> list[Answered]:
    """Return every item of the overlap, and every other that two people answered; five queries."""
    items = queue.items.alias(finals=_finals()).filter(Q(is_overlap=True) | Q(finals__gt=1))
    keys = ("pk", "public_id", "ordinal", "reviews_needed", "is_overlap")
    rows = list(items.order_by("ordinal").values(*keys, "trial__task", "decision__episode", "episode"))
    answers, skipped = _answers(queue)
    return [
        Answered(
            pk=row["pk"],
            public_id=row["public_id"],
            ordinal=row["ordinal"],
            cluster=("task", row["trial__task"]) if row["trial__task"] else ("episode", _episode(row)),
            needed=row["reviews_needed"],
            is_overlap=row["is_overlap"],
            skipped=skipped[row["pk"]],
            answers=tuple(answers[row["pk"]]),
        )
        for row in rows
    ]


def _finals() -> Count:
    final = Q(reviews__state__in=(Review.State.SUBMITTED, Review.State.SKIPPED))
    return Count("reviews", filter=final, distinct=True)


def _episode(row: dict[str, int | None]) -> int | None:
    return row["decision__episode"] or row["episode"]


def _answers(queue: Queue) -> tuple[dict[int, list[OverlapAnswer]], dict[int, int]]:
    """Return key of item -> its submitted reviews in the order of their people, and how many skipped it.

    Labels of another version are left out: a review of this queue that carries one was not finished under it.
    """
    reviews = Review.objects.filter(item__queue=queue)
    submitted = reviews.filter(state=Review.State.SUBMITTED)
    codes: dict[int, set[int]] = defaultdict(set)
    labels = Label.objects.filter(mark__review__in=submitted, code__version=queue.version_id).order_by()
    for review, code in labels.values_list("mark__review", "code"):
        codes[review].add(code)
    marks: dict[int, list[Mark]] = defaultdict(list)
    for mark in Mark.objects.filter(review__in=submitted).order_by("ordinal", "id"):
        marks[mark.review_id].append(mark)
    answers: dict[int, list[OverlapAnswer]] = defaultdict(list)
    skipped: dict[int, int] = defaultdict(int)
    informed = informed_reviews(queue)
    final = reviews.exclude(state=Review.State.DRAFT).order_by("reviewer")
    for pk, item, reviewer, state, carried in final.values_list("pk", "item", "reviewer", "state", "carried_from"):
        if state == Review.State.SKIPPED:
            skipped[item] += 1
            continue
        told = marks[pk]
        said = (frozenset(codes[pk]), attribution_of(told), first_of(told))
        answers[item].append(OverlapAnswer(pk, reviewer, *said, carried=carried is not None, informed=pk in informed))
    return answers, skipped


def attribution_of(marks: Iterable[Mark]) -> str | None:
    """Return that of the whole review: see OverlapAnswer."""
    marks = list(marks)
    first = next((mark.attribution for mark in marks if mark.is_first_failure and mark.attribution), None)
    named = {mark.attribution for mark in marks if mark.attribution}
    return first or (named.pop() if len(named) == 1 else None)


def first_of(marks: Iterable[Mark]) -> Step | None:
    found = (mark for mark in marks if mark.is_first_failure and mark.step is not None)
    return next(((mark.trajectory_id, mark.step) for mark in found if mark.step is not None), None)


def still_to_review(queue: Queue, user: User) -> int:
    """Count the shared items that this person may still have to answer without knowing the others' answers.

    Above 0 the queue's agreement, disagreements and resolutions are closed to them. One query.
    """
    if not queue.is_open or not queue.hides_labels:
        return 0
    shown = open_to(user).filter(queue=queue).alias(finals=_finals())
    return shown.filter(Q(is_overlap=True) | Q(finals__gt=1)).count()
