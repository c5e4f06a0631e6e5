"""Builders of true rows of reviews for tests, beside tests.worlds.factories."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.utils import timezone

from benchapp.models import (
    Code,
    Codebook,
    CodebookVersion,
    CodeExample,
    Label,
    Mark,
    Queue,
    QueueItem,
    Review,
    Slot,
    Trial,
    User,
)
from tests.worlds.factories import make_trial, number

CODES = ("over-specific", "silent bypass", "misapplied")


def make_version(
    codes: Sequence[str] = CODES, *, frozen: bool = True, codebook: Codebook | None = None, **fields: Any
) -> CodebookVersion:
    """A codebook's version with these codes, all at the top."""
    codebook = codebook or Codebook.objects.create(name=f"Codebook {number()}")
    last = codebook.versions.first()
    version = CodebookVersion.objects.create(
        codebook=codebook,
        **{
            "number": last.number + 1 if last else 1,
            "previous": last,
            "frozen_at": timezone.now() if frozen else None,
            **fields,
        },
    )
    for place, name in enumerate(codes):
        make_code(version, name, ordinal=place)
    return version


def make_code(version: CodebookVersion, name: str, **fields: Any) -> Code:
    """Also in a version that is frozen already, which no rule of the project allows."""
    code = Code(version=version, name=name, **{"definition": f"What {name} means.", **fields})
    code.save_base(force_insert=True)
    return code


def make_example(code: Code, **fields: Any) -> CodeExample:
    """As `make_code`."""
    example = CodeExample(code=code, **fields)
    example.save_base(force_insert=True)
    return example


def make_queue(
    trials: Sequence[Trial] | None = None,
    *,
    version: CodebookVersion | None = None,
    reviewers: Sequence[User] = (),
    inclusion: float = 1.0,
    **fields: Any,
) -> Queue:
    """A queue of these trials, else of two failed ones; every item is in the overlap and has its slots."""
    if trials is None:
        trials = [make_trial(success=False) for _ in range(2)]
    queue = Queue.objects.create(
        version=version or make_version(),
        **{
            "name": f"Queue {number()}",
            "population_total": len(trials),
            "sampling": Queue.Sampling.ALL,
            "reviews_per_item": 2,
            **fields,
        },
    )
    queue.reviewers.set(reviewers)
    for place, trial in enumerate(trials):
        make_item(queue, trial=trial, ordinal=place, inclusion=inclusion)
    return queue


def make_item(queue: Queue, **fields: Any) -> QueueItem:
    item = QueueItem.objects.create(
        queue=queue,
        **{
            "ordinal": queue.items.count(),
            "inclusion": 1.0,
            "is_overlap": queue.reviews_per_item > 1,
            "reviews_needed": queue.reviews_per_item,
            **fields,
        },
    )
    Slot.objects.bulk_create(Slot(item=item, place=place) for place in range(item.reviews_needed))
    return item


def make_review(
    item: QueueItem,
    reviewer: User,
    codes: Sequence[str | Code] = (),
    *,
    state: str = Review.State.SUBMITTED,
    mark: dict[str, Any] | None = None,
    **fields: Any,
) -> Review:
    """A review with one mark that carries these codes (named as in the queue's version); final ones fill a slot."""
    final = state != Review.State.DRAFT
    review = Review.objects.create(
        item=item,
        reviewer=reviewer,
        state=state,
        **{"submitted_at": timezone.now() if final else None, "revision": 1, **fields},
    )
    if codes:
        made = Mark.objects.create(review=review, **{"step": 1, "field": "message", **(mark or {})})
        named = {code.name: code for code in item.queue.version.codes.all()}
        Label.objects.bulk_create(
            Label(mark=made, code=code if isinstance(code, Code) else named[code]) for code in codes
        )
    if final and (slot := item.slots.filter(review=None).first()):
        Slot.objects.filter(pk=slot.pk).update(review=review, holder=reviewer, held_until=None)
    return review
