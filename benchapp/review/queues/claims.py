"""Who works on what: a person holds a slot of an item for a while, and a submitted review fills it for good.

One conditional UPDATE decides every race: a slot is taken only `WHERE` it still is free, so that two people never hold
it at once, on SQLite and PostgreSQL alike. Time-outs need no clock of their own: a slot whose time ran out counts as
free at the next claim, and stays its holder's until then.
"""

from __future__ import annotations

import random
from datetime import datetime, timedelta

from django.db import IntegrityError, transaction
from django.db.models import Exists, F, OuterRef, Q, QuerySet
from django.db.models.functions import Coalesce
from django.db.models.lookups import Exact
from django.utils import timezone

from benchapp.models import Queue, QueueItem, Review, Slot, User

BATCH = 16  # slots checked together
ROUNDS = 64  # batches lost to others before a claim gives up


class Contended(Exception):
    """Others took more than a thousand slots in a row first."""


def claim(queue: Queue, user: User, *, besides: int = 0) -> QueueItem | None:
    """Return the item this person should do next, with a slot of it held for them; None where nothing is left for them.

    Held items come first, drafts before items not started; an own hold that ran out is renewed unless somebody took it.
    Then the next open slot in the queue's order, of an item they have not reviewed; last, open slots of drafts they
    once gave back. `besides`: return the item after that many held ones.
    """
    if not may_claim(queue, user):
        return None
    for _ in range(ROUNDS):
        held = list(select_held(queue, user)[besides : besides + 1])
        if held:
            late = held[0].item.reviews.filter(reviewer=user, state=Review.State.SUBMITTED).first()
            if late:  # submitted in one tab after its time ran out, while another tab took this slot
                fill(held[0].item, user, late)
                continue
            if renew(held[0].item, user):
                return held[0].item
            continue  # lost between the two: look again
        slots = _candidates(queue, user)
        if slots is None:
            return None
        others = slots[1:]
        for slot in slots[:1] + random.sample(others, len(others)):  # a loser of a race looks further ahead
            if _take(slot, user):
                return slot.item
    raise Contended(f"{queue}: {ROUNDS * BATCH} slots went to others during the search for this one")


def may_claim(queue: Queue, user: User) -> bool:
    """Is this an open queue, and is the person assigned and still a reviewer?"""
    return queue.is_open and user.may(User.Level.REVIEWER) and queue.reviewers.filter(pk=user.pk).exists()


def select_held(queue: Queue, user: User) -> QuerySet[Slot]:
    """Select slots that the person holds and has not filled, drafts first.
    Includes expired holds that nobody took."""
    begun = Exists(Review.objects.filter(item=OuterRef("item"), reviewer=user))
    held = Slot.objects.filter(is_unfilled(), item__queue=queue, holder=user).select_related("item__queue")
    return held.alias(begun=begun).order_by(F("begun").desc(), "item__ordinal")


def hold(item: QueueItem, user: User) -> bool:
    """Hold this very item for them: renew their hold, else take a slot. False where none is open."""
    if renew(item, user):
        return True
    if not may_claim(item.queue, user):
        return False
    return any(_take(slot, user) for slot in Slot.objects.filter(free(timezone.now()), item=item).order_by("place"))


def renew(item: QueueItem, user: User) -> bool:
    """Give the person the full time again. False when their hold is gone: it expired and somebody took it."""
    mine = Slot.objects.filter(item=item, holder=user, review=None)
    return mine.update(held_until=_until(item.queue, timezone.now())) == 1


def give_back(item: QueueItem, user: User) -> bool:
    """Release the slot for others. What the person wrote stays their draft."""
    return Slot.objects.filter(item=item, holder=user, review=None).update(holder=None, held_until=None) == 1


def fill(item: QueueItem, user: User, review: Review) -> None:
    """Fill their slot with the review, for good. Call it in the transaction that makes the review final.

    If their time ran out, another open slot of the item is taken. If all are taken, the review counts without a slot:
    nothing a person submitted is lost. Filling twice changes nothing.
    """
    mine = Slot.objects.filter(item=item, holder=user)
    if mine.filter(review=None).update(review=review, held_until=None) == 1 or mine.exists():
        return
    now = timezone.now()
    for slot in Slot.objects.filter(free(now), item=item).order_by("place"):
        try:
            with transaction.atomic():
                taken = Slot.objects.filter(free(now), pk=slot.pk)
                if taken.update(review=review, holder=user, held_until=None) == 1:
                    return
        except IntegrityError:  # another tab of theirs took a slot of it just now
            mine.filter(review=None).update(review=review, held_until=None)
            return


def free_slots(queue: Queue, user: User) -> int:
    """Release all that a person who leaves the queue still holds."""
    return Slot.objects.filter(item__queue=queue, holder=user, review=None).update(holder=None, held_until=None)


def _candidates(queue: Queue, user: User) -> list[Slot] | None:
    """Return free slots in the queue's order, one per item: items new to the person, else drafts they gave back.

    None where there are none; an empty list where others took all of them since. The query goes by item, in the order
    of an index, so that it stops at the first ones in a queue of any length.
    """
    now = timezone.now()
    own = Slot.objects.filter(item=OuterRef("pk"), holder=user)
    items = queue.items.filter(Exists(Slot.objects.filter(free(now), item=OuterRef("pk"))), ~Exists(own))
    reviews = Review.objects.filter(item=OuterRef("pk"), reviewer=user)
    drafts = reviews.filter(state=Review.State.DRAFT)
    for wanted in (items.filter(~Exists(reviews)), items.filter(Exists(drafts))):
        keys = list(wanted.order_by("ordinal").values_list("pk", flat=True)[:BATCH])
        if keys:
            slots = Slot.objects.filter(free(now), item__in=keys).select_related("item__queue")
            by_item = {slot.item_id: slot for slot in slots.order_by("-place")}  # the lowest place stays
            return [by_item[key] for key in keys if key in by_item]
    return None


def is_unfilled() -> Q:
    """Match slots without a review, without using an index on `review`: SQLite believes that a unique column is NULL in
    one row at most, and would look up all unfilled slots of the record for every item."""
    return Q(Exact(Coalesce(F("review"), 0), 0))


def free(now: datetime) -> Q:
    """Match slots that nobody holds in time and no review fills."""
    return is_unfilled() & (Q(holder=None) | Q(held_until__lte=now))


def _take(slot: Slot, user: User) -> bool:
    """Take the slot. True for one person only. False if the same person holds a slot of the item in another tab."""
    now = timezone.now()
    try:
        with transaction.atomic():
            still = Slot.objects.filter(free(now), pk=slot.pk)
            return still.update(holder=user, held_until=_until(slot.item.queue, now)) == 1
    except IntegrityError:
        return False


def _until(queue: Queue, now: datetime) -> datetime:
    return now + timedelta(seconds=queue.reservation_seconds)
