"""Who read other people's answers, and which later answers are therefore not independent.

Many people may read a queue before they answer in it: an admin who is assigned later, or its maker, who leaves it for a
while, closes it, or carries it over. Nothing keeps them from it, but the log of acts records it, and agreement leaves
out their later answers about what they could read.
"""

from __future__ import annotations

from collections import defaultdict
from datetime import datetime
from uuid import UUID

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from benchapp.models import Activity, Queue, QueueItem, Review, User
from benchapp.record.writing.human_acts import note_activity

SEEN = "labels.seen"  # about a queue as a whole, or about one of its items
Unit = tuple[object, ...]  # the keys of what an item is about
UNIT = ("item__trial", "item__decision", "item__snapshot", "item__episode")


def note_seen(user: User, queue: Queue, item: QueueItem | None = None) -> None:
    """Log that other people's answers are shown: once, if this person has not answered everything themselves.

    `item`: only its answers are shown, else those of the whole queue. A queue that hides no labels shows all of them to
    everybody.
    """
    if item and queue.hides_labels:
        note_items_seen(user, QueueItem.objects.filter(pk=item.pk))
    elif (
        _select_said_by_others(user, queue.items.all()).exists()
        and not _acts(user).filter(target_id=queue.public_id).exists()
    ):
        with transaction.atomic():
            note_activity(user, SEEN, queue)


def note_items_seen(user: User, items: QuerySet[QueueItem]) -> None:
    """Log a page with answers on several items, each by itself. One query if nothing is new."""
    known = _acts(user).filter(target_id=OuterRef("public_id"))
    found = list(_select_said_by_others(user, items).filter(~Exists(known)))
    if found:
        with transaction.atomic():
            for item in found:
                note_activity(user, SEEN, item)


def informed_reviews(queue: Queue) -> frozenset[int]:
    """Return keys of this queue's submitted reviews whose author had seen other people's labels of the unit before. One
    query where nobody had, else two more."""
    reviewers = Review.objects.filter(item__queue=queue).order_by().values("reviewer")
    rows = Activity.objects.filter(verb=SEEN, actor__in=reviewers)
    if not queue.hides_labels:  # its maker let everybody read along; what was read elsewhere still counts
        rows = rows.exclude(target_id=queue.public_id).exclude(target_id__in=queue.items.values("public_id"))
    acts = list(rows.values_list("actor", "target_id", "at"))
    if not acts:
        return frozenset()
    own = Review.objects.filter(item__queue=queue, state=Review.State.SUBMITTED, reviewer__in={act[0] for act in acts})
    answers = _read_answers({target for _, target, _ in acts})
    found = set()
    for pk, reviewer, at, *unit in own.values_list("pk", "reviewer", "submitted_at", *UNIT):
        seen = [target for actor, target, when in acts if actor == reviewer and when < at]
        others = (other for target in seen for other in answers[target, tuple(unit)])
        if any(who != reviewer and when < at for who, when in others):
            found.add(pk)
    return frozenset(found)


def _read_answers(targets: set[UUID | None]) -> dict[tuple[UUID | None, Unit], list[tuple[int, datetime]]]:
    """Return (public id of a queue or an item, unit) -> who answered there, and when."""
    reviews = Review.objects.filter(state=Review.State.SUBMITTED)
    rows = reviews.filter(item__queue__public_id__in=targets) | reviews.filter(item__public_id__in=targets)
    found: dict[tuple[UUID | None, Unit], list[tuple[int, datetime]]] = defaultdict(list)
    names = ("item__queue__public_id", "item__public_id", "reviewer", "submitted_at")
    for queue, item, reviewer, at, *unit in rows.values_list(*names, *UNIT):
        found[queue, tuple(unit)].append((reviewer, at))
        found[item, tuple(unit)].append((reviewer, at))
    return found


def _select_said_by_others(user: User, items: QuerySet[QueueItem]) -> QuerySet[QueueItem]:
    """Select items that somebody else answered and this person did not: to skip an item is not to answer it."""
    submitted = Review.objects.filter(item=OuterRef("pk"), state=Review.State.SUBMITTED)
    return items.filter(Exists(submitted.exclude(reviewer=user)), ~Exists(submitted.filter(reviewer=user)))


def _acts(user: User) -> QuerySet[Activity]:
    return Activity.objects.filter(verb=SEEN, actor=user)
