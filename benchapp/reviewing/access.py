"""Who may see the results of a queue: nobody who still has to code items of it without knowing what others said."""

from __future__ import annotations

from collections.abc import Sequence

from django.db.models import Exists, OuterRef

from benchapp.models import Queue, QueueItem, Review, Slot, User


def still_to_code(queues: Sequence[Queue], user: User) -> int:
    """Items of open, blind queues among these that may still come to this person. One query.

    An item whose places are all filled comes to nobody any more.
    """
    blind = [queue.pk for queue in queues if queue.is_open and (queue.hides_labels or queue.is_blind)]
    finished = Review.objects.filter(item=OuterRef("pk"), reviewer=user.pk).exclude(state=Review.State.DRAFT)
    free = Slot.objects.filter(item=OuterRef("pk"), review=None)
    items = QueueItem.objects.filter(~Exists(finished), Exists(free), queue__in=blind, queue__reviewers=user.pk)
    return items.count() if blind else 0
