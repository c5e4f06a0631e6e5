"""Carry labels from one version of a codebook over to a later one. Readers are asked only what they must decide.

A label follows its code automatically where the code was kept, renamed or merged. It must be looked at where the code
was
- split: only a reader can say which part it belongs to; until then it is on the first part;
- redefined: it was made under another meaning; it is on the code as it is now;
- retired: nothing replaced the code; it stays on the retired code, which the new version does not have, so that the
  reviewer sees what they had chosen. A review that still carries it cannot be submitted.

A merge often rewrites the definition. Its labels follow all the same: the person who merged saw the old texts and the
new one and decided that they belong together.

The old queue is closed and otherwise unchanged: its reviews, drafts and skips stay where they are.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from django.db import transaction
from django.db.models import Count, QuerySet
from django.db.models.functions import Coalesce, Now

from benchapp.models import Code, CodebookVersion, Label, Mark, Queue, QueueItem, Resolution, Review, Slot, User
from benchapp.record.writing.human_acts import note_activity
from benchapp.review.codebooks.codebook_versions import CodebookRefused
from benchapp.review.codebooks.codes import RETIRED, VersionDiff
from benchapp.review.queues.queue_making import copy_queue

BATCH = 500  # reviews carried together
OF_LABELS = frozenset({"labels", "touched", "reviews_to_look_at"})  # counts that follow from the reviewers' answers


@dataclass(frozen=True, slots=True)
class Fate:
    """What happens to every label of one old code. `code`: the label's new code; `kind`: how that follows."""

    code: Code
    kind: str
    must_look: bool


class CarryPlan:
    """A preview of carrying a queue over to a version. Raises CodebookRefused where it cannot be carried."""

    def __init__(self, queue: Queue, version: CodebookVersion) -> None:
        if not version.is_frozen:
            raise CodebookRefused("Freeze the version first, then carry the queue over.")
        self.queue, self.version = queue, version
        self.diff = VersionDiff(queue.version, version)
        self.fates = {code.pk: Fate(code, RETIRED, must_look=True) for code in self.diff.old_codes}
        for link in reversed(self.diff.links):  # of a split the first part comes last, and stays
            self.fates[link.before.pk] = Fate(link.after, link.kind, link.must_look)

    @property
    def labels(self) -> QuerySet[Label]:
        """Select the labels of submitted reviews: what is carried."""
        return Label.objects.filter(mark__review__in=self.reviews)

    @property
    def reviews(self) -> QuerySet[Review]:
        return self.queue_reviews.filter(state=Review.State.SUBMITTED)

    @property
    def touched(self) -> QuerySet[Label]:
        """Return the labels that must be looked at again, and no others."""
        keys = [key for key, fate in self.fates.items() if fate.must_look]
        return self.labels.filter(code__in=keys)

    @cached_property
    def counts(self) -> dict[str, int]:
        """Return counts of submitted reviews, their labels, those to look at, and what stays in the old queue."""
        states = dict(self.queue_reviews.order_by().values_list("state").annotate(Count("pk")))
        return {
            "labels": self.labels.count(),
            "touched": self.touched.count(),
            "reviews": states.get(Review.State.SUBMITTED, 0),
            "reviews_to_look_at": self.reviews.filter(marks__labels__in=self.touched).distinct().count(),
            "drafts_left": states.get(Review.State.DRAFT, 0),
            "skipped_left": states.get(Review.State.SKIPPED, 0),
        }

    @property
    def queue_reviews(self) -> QuerySet[Review]:
        return Review.objects.filter(item__queue=self.queue)

    def by_code(self) -> list[tuple[Code, Fate, int]]:
        """List (old code, what happens to its labels, how many there are), in the old version's order."""
        totals = dict(self.labels.order_by().values_list("code").annotate(Count("pk")))
        return [(code, self.fates[code.pk], totals.get(code.pk, 0)) for code in self.diff.old_codes]


def carry(queue: Queue, version: CodebookVersion, user: User | None) -> Queue:
    """Create a queue of the same items under `version` with every submitted review in it. The old queue is closed.

    Reviews without a touched label count as submitted, at their old time. The others become drafts, and their reviewers
    keep their slots, without a limit of time, until they come back to them. Raises CodebookRefused.
    """
    plan = CarryPlan(queue, version)
    with transaction.atomic():
        if not Queue.objects.filter(pk=queue.pk).update(closed_at=Coalesce("closed_at", Now())):
            raise CodebookRefused("This queue no longer exists.")
        if queue.carried_to.filter(version=version).exists():
            raise CodebookRefused(f"“{queue.name}” is already carried over to {version}.")
        ending = f" (v{version.number})"
        name = queue.name.removesuffix(f" (v{queue.version.number})")[: 200 - len(ending)] + ending
        carried = _Carried(plan, *copy_queue(queue, name, user, version_id=version.pk, carried_from=queue))
        carried.write()
        kept = {name: count for name, count in plan.counts.items() if name not in OF_LABELS}  # the log is read by many
        detail = {"from": str(queue.public_id), "to": version.number, **kept, "resolutions": carried.resolutions}
        note_activity(user, "queue.carried", carried.queue, detail=detail)
    queue.refresh_from_db()
    return carried.queue


class _Carried:
    """The rows of one carrying, written so that each exists before others point at it."""

    def __init__(self, plan: CarryPlan, queue: Queue, items: dict[int, QueueItem]) -> None:
        self.plan, self.queue = plan, queue
        self.items = items  # by the key of the old one
        self.resolutions = 0
        self.staying = {user.pk for user in queue.reviewers.filter(is_active=True)}

    def write(self) -> None:
        reviews = self.plan.reviews.select_related("slot").order_by("pk")
        keys = list(reviews.values_list("pk", flat=True))
        for start in range(0, len(keys), BATCH):
            self._copy_reviews(list(reviews.filter(pk__in=keys[start : start + BATCH])))
        self._copy_resolutions()

    def _copy_reviews(self, old: Sequence[Review]) -> None:
        """Copy as drafts first: a submitted review takes no more marks."""
        kept = ("reviewer_id", "memo", "confidence", "seconds", "guess", "guessed_at")
        made = Review.objects.bulk_create(
            Review(
                item=self.items[review.item_id],
                revision=1,
                carried_from=review,
                **{name: getattr(review, name) for name in kept},
            )
            for review in old
        )
        new = {review.pk: copy for review, copy in zip(old, made, strict=True)}
        looks = self._copy_labels(self._copy_marks(new))
        for review, copy in zip(old, made, strict=True):
            copy.started_at = review.started_at
            if copy.pk not in looks:
                copy.state, copy.submitted_at = Review.State.SUBMITTED, review.submitted_at
        Review.objects.bulk_update(made, ["started_at", "state", "submitted_at"])
        self._seat(new, {review.pk: review.slot.place for review in old if hasattr(review, "slot")})

    def _copy_marks(self, new: dict[int, Review]) -> dict[int, Mark]:
        """Return new marks by the keys of the old ones."""
        kept = ("public_id", "ordinal", "trajectory_id", *Mark.ANCHOR, "attribution", "is_first_failure", "memo")
        old = list(Mark.objects.filter(review__in=list(new)).order_by("pk"))
        made = Mark.objects.bulk_create(
            Mark(review=new[mark.review_id], **{name: getattr(mark, name) for name in kept}) for mark in old
        )
        return {mark.pk: copy for mark, copy in zip(old, made, strict=True)}

    def _copy_labels(self, marks: dict[int, Mark]) -> set[int]:
        """Return the keys of the new reviews that must be looked at.

        Two labels of a mark whose codes were merged become one. It must be looked at if either must, and records that
        one as its origin.
        """
        made: dict[tuple[int, int], Label] = {}
        for label in Label.objects.filter(mark__in=list(marks)).order_by("pk"):
            fate, mark = self.plan.fates[label.code_id], marks[label.mark_id]
            known = made.get((mark.pk, fate.code.pk))
            if known is None or (fate.must_look and not known.needs_look):
                made[mark.pk, fate.code.pk] = Label(
                    mark=mark, code=fate.code, needs_look=fate.must_look, carried_from=label
                )
        Label.objects.bulk_create(made.values())
        return {label.mark.review_id for label in made.values() if label.needs_look}

    def _seat(self, new: dict[int, Review], places: dict[int, int]) -> None:
        """Fill the slots of final reviews again. Hold the others for their reviewers, without a limit of time.

        Somebody who left the queue will not come: their draft stays, their slot is open to others.
        """
        slots = Slot.objects.filter(item__in=[review.item_id for review in new.values()])
        by_place = {(slot.item_id, slot.place): slot for slot in slots}
        taken = []
        for key, place in places.items():
            review = new[key]
            if review.is_final or review.reviewer_id in self.staying:
                slot = by_place[review.item_id, place]
                slot.holder_id, slot.review = review.reviewer_id, review if review.is_final else None
                taken.append(slot)
        Slot.objects.bulk_update(taken, ["holder", "review"])

    def _copy_resolutions(self) -> None:
        """Copy resolutions of items that need no second look: there an adjudicator's answer still applies."""
        current = Resolution.objects.filter(item__queue=self.plan.queue, superseded_at=None)
        open_items = set(self.queue.items.filter(reviews__state=Review.State.DRAFT).values_list("pk", flat=True))
        for old in current.prefetch_related("codes").order_by("pk"):
            item, fates = self.items[old.item_id], [self.plan.fates[code.pk] for code in old.codes.all()]
            if item.pk in open_items or any(fate.must_look for fate in fates):
                continue
            kept = ("adjudicator_id", "category", "attribution", "memo")
            new = Resolution.objects.create(item=item, **{name: getattr(old, name) for name in kept})
            new.codes.set({fate.code.pk for fate in fates})
            Resolution.objects.filter(pk=new.pk).update(resolved_at=old.resolved_at)
            self.resolutions += 1
