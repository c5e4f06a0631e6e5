"""Who may see other people's answers in a queue: nobody who must still give their own, here or in another queue."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from django.db.models import Exists, F, OuterRef, Q, QuerySet

from benchapp.models import Queue, QueueItem, Review, Slot, User
from benchapp.review.blinding import open_to, same_unit, unsaid_by
from benchapp.review.queues.claims import is_unfilled


def still_to_code(queues: Sequence[Queue], user: User) -> int:
    """Count items of blind queues among these that this person may still answer. One query."""
    blind = [queue.pk for queue in queues if queue.is_open and (queue.hides_labels or queue.is_blind)]
    return open_to(user).filter(queue__in=blind).count() if blind else 0


def answered_unseen(queues: QuerySet[Queue]) -> QuerySet[Queue]:
    """Queues where somebody may still answer without knowing other people's answers: a place is left, or an assigned
    reviewer has a draft. No query of its own."""
    left = Slot.objects.filter(is_unfilled(), item__queue=OuterRef("pk"))
    drafts = Review.objects.filter(item__queue=OuterRef("pk"), state=Review.State.DRAFT)
    drafts = drafts.filter(reviewer__queues=F("item__queue"))
    return queues.filter(Exists(left) | Exists(drafts), closed_at=None, hides_labels=True)


def reviews_alone(queue: Queue, user: User) -> bool:
    """Is nobody else asked in this queue, and has nobody else answered? Up to two queries."""
    others = queue.reviewers.exclude(pk=user.pk).exists()
    return not others and not Review.objects.filter(item__queue=queue).exclude(reviewer=user.pk).exists()


def asked_elsewhere(queues: Collection[Queue], user: User) -> frozenset[int]:
    """Return keys of queues that reveal other people's answers on a unit that another queue still asks this person.

    If that other queue also hides conditions or models, a queue counts as soon as it has a unit of the same task (of
    the same episode, for decisions and libraries). Otherwise the refusal itself would reveal the item's trial, and its
    place in the selection of this queue. Two short queries.
    """
    unsaid = unsaid_by(user)
    alike = _could_be(unsaid.filter(Q(queue__hides_conditions=True) | Q(queue__hides_models=True)))
    alike &= ~Q(queue__in=unsaid.values("queue"))  # in their own queue everybody knows which tasks there are
    items = QueueItem.objects.filter(same_unit(unsaid) | alike, queue__in=[queue.pk for queue in queues])
    return frozenset(items.exclude(pk__in=unsaid.values("pk")).order_by().values_list("queue", flat=True).distinct())


def too_early(queues: Collection[Queue], user: User) -> frozenset[int]:
    """Return keys of queues where any number made of labels would reveal too much to this person. Four queries."""
    if not queues:
        return frozenset()
    own = unsaid_by(user).filter(queue__in=[queue.pk for queue in queues])
    return asked_elsewhere(queues, user) | set(own.values_list("queue", flat=True).distinct())


def _could_be(items: QuerySet[QueueItem]) -> Q:
    """Match items of any queue that could be one of these, for all its reader may know."""
    found = Q(trial__task__in=items.exclude(trial=None).values("trial__task"))
    for path in ("decision__episode__key", "episode__key"):
        found |= Q(**{f"{path}__in": items.exclude(**{path: None}).values(path)})
    return found


ELSEWHERE = "Another queue still asks you about this. Other people's answers open when you have answered there."
