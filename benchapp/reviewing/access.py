"""Who may see the results of a queue: nobody who still has to code items of it without knowing what others said."""

from __future__ import annotations

from collections.abc import Sequence

from benchapp.models import Queue, User
from benchapp.reviewing.blinding import open_to


def still_to_code(queues: Sequence[Queue], user: User) -> int:
    """Items of blind queues among these that this person may still answer. One query."""
    blind = [queue.pk for queue in queues if queue.is_open and (queue.hides_labels or queue.is_blind)]
    return open_to(user).filter(queue__in=blind).count() if blind else 0
