"""Coding in two passes: first what shows without the skills, then the same items again with them.

The second pass is a queue of its own, so its answers are separate in the record. It is recognised by its draw: same
version, same pinned population, same seed, and conditions shown. People who still code an item in the first pass see it
masked in the second too (`blinding.hidden_in`).
"""

from __future__ import annotations

from django.db import transaction

from benchapp.models import Code, Queue, QueueItem, Slot, User
from benchapp.record.writing.human_acts import note_activity
from benchapp.review.blinding import open_to
from benchapp.review.codebooks.skill_codes import hides_skills, judging_skills
from benchapp.review.queues.queue_making import QueueRefused

SAME = ("version_id", "unit", "population", "population_total", "sampling", "strata", "seed", "instructions")
SAME_RULES = ("reviews_per_item", "overlap_share", "hides_labels", "hides_suggestions", "hides_models")
COPIED = ("ordinal", "trial_id", "stratum", "inclusion", "is_control", "is_overlap", "reviews_needed")
SUFFIX = ", pass 2: the skills"


def waiting_codes(queue: Queue, codes: list[Code]) -> frozenset[int]:
    """Return keys of the codes that nobody can judge in this queue, because it hides skills."""
    return judging_skills(codes) if hides_skills(queue) else frozenset()


def second_pass_of(queue: Queue) -> Queue | None:
    return _other_pass(queue, hides_conditions=False) if hides_skills(queue) else None


def first_pass_of(queue: Queue) -> Queue | None:
    return None if queue.hides_conditions else _other_pass(queue, hides_conditions=True)


def left_in_first_pass(queue: Queue, user: User) -> int:
    """Count items that this person must still code without skills, before this queue shows them."""
    first = first_pass_of(queue)
    return open_to(user).filter(queue=first).count() if first else 0


def begin_second_pass(queue: Queue, user: User) -> Queue:
    """Create a queue of the same items, reviewers and overlap, with skills shown. Refused where no code waits."""
    if not waiting_codes(queue, list(queue.version.codes.all())):
        raise QueueRefused("No code of this queue waits for a second pass.")
    if not queue.population:
        raise QueueRefused("This queue does not record what it was drawn from, so it cannot have a second pass.")
    with transaction.atomic():
        if second_pass_of(queue):
            raise QueueRefused("Its second pass is already open.")
        same = {name: getattr(queue, name) for name in (*SAME, *SAME_RULES, "reservation_seconds")}
        name = queue.name[: 200 - len(SUFFIX)] + SUFFIX
        second = Queue.objects.create(name=name, hides_conditions=False, created_by=user, **same)
        second.reviewers.set(queue.reviewers.all())
        items = QueueItem.objects.bulk_create(
            QueueItem(queue=second, **dict(zip(COPIED, row, strict=True))) for row in queue.items.values_list(*COPIED)
        )
        Slot.objects.bulk_create(Slot(item=item, place=place) for item in items for place in range(item.reviews_needed))
        note_activity(user, "queue.created", second, detail={"name": name, "second_pass_of": str(queue.public_id)})
    return second


def _other_pass(queue: Queue, **fields: bool) -> Queue | None:
    if not queue.population:
        return None
    same = {name: getattr(queue, name) for name in SAME if name != "instructions"}
    return Queue.objects.filter(**same, **fields).exclude(pk=queue.pk).order_by("pk").first()
