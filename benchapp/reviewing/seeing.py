"""Who read what others said, and which later answers are therefore not independent.

People who may read a queue before they answer in it are many: an admin who is assigned later, whoever made it and leaves it
for a while, closes it, or carries it over. Nothing keeps them from it; the log of acts keeps that they did, and agreement
leaves out what they say afterwards of what they could read.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from datetime import datetime
from typing import Any

from django.db import transaction
from django.db.models import Exists, OuterRef, QuerySet

from benchapp.models import Activity, Queue, QueueItem, Review, User
from benchapp.reviewing.acts import note_activity

SEEN = "labels.seen"  # of a queue as a whole, or of one item of it
UNIT = ("item__trial", "item__decision", "item__snapshot", "item__episode")


def note_seen(user: User, queue: Queue, item: QueueItem | None = None) -> None:
    """Call it where what others said is shown. Kept once, where there is something this person has not answered themselves.

    `item`: only what was said of it is shown, else what was said in the whole queue.
    """
    if not queue.hides_labels:
        return
    target = item or queue
    said = Review.objects.filter(state=Review.State.SUBMITTED).exclude(reviewer=user)
    said = said.filter(item=item) if item else said.filter(item__queue=queue)
    own = Review.objects.filter(item=OuterRef("item"), reviewer=user).exclude(state=Review.State.DRAFT)
    if not said.filter(~Exists(own)).exists() or _acts(user).filter(target_id=target.public_id).exists():
        return
    with transaction.atomic():
        note_activity(user, SEEN, target)


def informed_reviews(queue: Queue) -> frozenset[int]:
    """Keys of the submitted reviews of this queue whose author had seen labels of a unit's queue before, when somebody
    else had already said something there. One query where nobody had, else two more."""
    reviewers = Review.objects.filter(item__queue=queue).order_by().values("reviewer")
    acts = list(Activity.objects.filter(verb=SEEN, actor__in=reviewers).values_list("actor", "target_id", "at"))
    if not acts:
        return frozenset()
    own = Review.objects.filter(item__queue=queue, state=Review.State.SUBMITTED, reviewer__in={act[0] for act in acts})
    said = _said_in({target for _, target, _ in acts})
    found = set()
    for pk, reviewer, at, *unit in own.values_list("pk", "reviewer", "submitted_at", *UNIT):
        seen = [target for actor, target, when in acts if actor == reviewer and when < at]
        others = (other for target in seen for other in said[target, tuple(unit)])
        if any(who != reviewer and when < at for who, when in others):
            found.add(pk)
    return frozenset(found)


def _said_in(targets: Iterable[Any]) -> dict[tuple[Any, Any], list[tuple[int, datetime]]]:
    """(public id of a queue or an item, unit) -> who said something there, and when."""
    targets = list(targets)
    reviews = Review.objects.filter(state=Review.State.SUBMITTED)
    rows = reviews.filter(item__queue__public_id__in=targets) | reviews.filter(item__public_id__in=targets)
    found = defaultdict(list)
    names = ("item__queue__public_id", "item__public_id", "reviewer", "submitted_at")
    for queue, item, reviewer, at, *unit in rows.values_list(*names, *UNIT):
        found[queue, tuple(unit)].append((reviewer, at))
        found[item, tuple(unit)].append((reviewer, at))
    return found


def _acts(user: User) -> QuerySet[Activity]:
    return Activity.objects.filter(verb=SEEN, actor=user)
