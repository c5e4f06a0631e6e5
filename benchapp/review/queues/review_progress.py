"""Progress of a queue, its items and its people, counted by the database in a fixed number of queries.

The status of an item is never stored, always computed from its slots, reviews and resolution.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum
from statistics import median

from django.db.models import Count, Exists, F, Max, OuterRef, Q, QuerySet, Subquery
from django.utils import timezone

from benchapp.models import Label, Queue, Resolution, Review, Slot, User
from benchapp.review.queues.claims import free, is_unfilled

State = Review.State


class ItemStatus(StrEnum):
    WAITING = "waiting"  # nobody has started
    IN_PROGRESS = "in progress"  # held, in draft, or fewer reviews than it needs
    REVIEWED = "reviewed"  # all reviews are in; nothing to resolve
    AWAITING = "awaiting resolution"  # an open dispute: submitted reviews differ in codes
    RESOLVED = "resolved"
    SKIPPED = "skipped"  # all reviews are in, and nobody could code it


Answer = tuple[str, frozenset[int]]  # of one person: the state of their review, and the keys of the codes it uses


def item_status(
    needed: int, held: int = 0, filled: int = 0, answers: Sequence[Answer] = (), *, is_resolved: bool = False
) -> ItemStatus:
    """Compute the status. Pure. `held`: slots somebody holds in time; `filled`: those with their review. Extra reviews,
    which no slot had room for, count like the others."""
    if is_resolved:
        return ItemStatus.RESOLVED
    submitted = [codes for state, codes in answers if state == State.SUBMITTED]
    if differ(submitted):
        return ItemStatus.AWAITING
    if filled < needed:
        return ItemStatus.IN_PROGRESS if held or filled or answers else ItemStatus.WAITING
    return ItemStatus.REVIEWED if submitted else ItemStatus.SKIPPED


def differ(codes: Iterable[frozenset[int]]) -> bool:
    """Do an item's submitted reviews differ in codes? Without a resolution that is an open dispute on every page and in
    every count, even with reviews still to come. Differences in blame or in the first mistake are not."""
    return len(set(codes)) > 1


def statuses_of(queue: Queue) -> dict[int, ItemStatus]:
    """Return key of item -> status; five queries for any number of items."""
    chosen = Q(item__queue=queue)
    now = timezone.now()
    held, filled = Counter[int](), Counter[int]()
    for item, until, review in Slot.objects.filter(chosen).values_list("item", "held_until", "review").order_by():
        filled[item] += review is not None
        held[item] += review is None and until is not None and until > now
    codes: dict[int, set[int]] = defaultdict(set)
    labels = Label.objects.filter(mark__review__in=Review.objects.filter(chosen))
    for review, code in labels.values_list("mark__review", "code"):
        codes[review].add(code)
    answers: dict[int, list[Answer]] = defaultdict(list)
    for pk, item, state in Review.objects.filter(chosen).values_list("pk", "item", "state").order_by("pk"):
        answers[item].append((state, frozenset(codes[pk])))
    resolved = set(Resolution.objects.filter(chosen, superseded_at=None).values_list("item", flat=True).order_by())
    return {
        pk: item_status(needed, held[pk], filled[pk], answers[pk], is_resolved=pk in resolved)
        for pk, needed in queue.items.values_list("pk", "reviews_needed").order_by("ordinal")
    }


# --- progress --------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class PersonProgress:
    """`left`: items that still lack a review and that this person has not finished; several people share them.
    `seconds`: median active time per item submitted here, without carried ones; None before the first."""

    user: User
    is_assigned: bool
    done: int
    drafts: int
    skipped: int
    left: int
    seconds: float | None


@dataclass(frozen=True, slots=True)
class QueueProgress:
    """`filled` of `slots` reviews are in. `held`: slots held now, with or without draft, at most until `held_until`."""

    queue: Queue
    items: int
    slots: int
    filled: int
    held: int
    held_until: datetime | None = None
    own_left: int = 0
    own_done: int = 0

    @property
    def is_done(self) -> bool:
        return self.filled == self.slots


def progress_of(queues: Sequence[Queue], user: User) -> list[QueueProgress]:
    """Return one value per queue, in that order, with what is left for this person; three queries for all of them."""
    if not queues:
        return []
    now = timezone.now()
    slots = Slot.objects.filter(item__queue__in=queues).order_by()
    counts = {
        row["item__queue"]: row
        for row in slots.values("item__queue").annotate(
            items=Count("item", distinct=True),
            slots=Count("pk"),
            filled=Count("pk", filter=Q(review__isnull=False)),
            held=Count("pk", filter=Q(review=None, held_until__gt=now)),
            held_until=Max("held_until", filter=Q(review=None, held_until__gt=now)),
        )
    }
    ended = Review.objects.filter(item=OuterRef("item"), reviewer=user).exclude(state=State.DRAFT)
    fillable = slots.filter(Q(holder=user, review=None) | free(now)).filter(~Exists(ended))  # by this person
    left = dict(fillable.values_list("item__queue").annotate(Count("item", distinct=True)))
    finished = Review.objects.filter(item__queue__in=queues, reviewer=user).exclude(state=State.DRAFT).order_by()
    done = dict(finished.values_list("item__queue").annotate(Count("pk")))
    none = {"items": 0, "slots": 0, "filled": 0, "held": 0, "held_until": None}
    found = []
    for queue in queues:
        row = counts.get(queue.pk, none)
        numbers = {name: row[name] for name in none}
        found.append(QueueProgress(queue, **numbers, own_left=left.get(queue.pk, 0), own_done=done.get(queue.pk, 0)))
    return found


def count_reviews(queues: Collection[Queue]) -> tuple[int, int]:
    """Return (reviews that are in, reviews these queues need) by their places, as in `progress_of`; one query."""
    found = Slot.objects.filter(item__queue__in=queues).aggregate(filled=Count("review"), slots=Count("pk"))
    return found["filled"], found["slots"]


def awaiting(queues: Collection[Queue], *, unanswered_by: User | None = None) -> dict[int, int]:
    """Return key of queue -> its open disputes: items whose reviews use different codes, without a resolution.

    One query. `unanswered_by`: only those that this person did not answer. Reviews differ where some code is not in all
    of them (the same as statuses.differ for one item).
    """
    if not queues:
        return {}
    of_item = "mark__review__item"
    submitted = Review.objects.filter(item=OuterRef(of_item), state=State.SUBMITTED).order_by()
    total = submitted.values("item").annotate(n=Count("pk")).values("n")
    own = Review.objects.filter(item=OuterRef(of_item), reviewer=unanswered_by).exclude(state=State.DRAFT)
    used = (
        Label.objects.filter(mark__review__state=State.SUBMITTED, mark__review__item__queue__in=queues)
        .filter(~Exists(own) if unanswered_by else Q())
        .filter(~Exists(Resolution.objects.filter(item=OuterRef(of_item), superseded_at=None)))
        .order_by()
        .values_list("mark__review__item__queue", of_item, "code")
        .annotate(users=Count("mark__review", distinct=True), of=Subquery(total))
        .filter(users__lt=F("of"))
    )
    return Counter(queue for queue, _ in {row[:2] for row in used})


def people_of(queue: Queue) -> list[PersonProgress]:
    """List everybody assigned, and everybody who did something in it, by name; four queries."""
    assigned = {user.pk: user for user in queue.reviewers.all()}
    states: dict[int, Counter[str]] = defaultdict(Counter)
    seconds: dict[int, list[float]] = defaultdict(list)
    reviews = Review.objects.filter(item__queue=queue).order_by()
    for person, state, took, carried in reviews.values_list("reviewer", "state", "seconds", "carried_from"):
        states[person][state] += 1
        if state == State.SUBMITTED and took > 0 and carried is None:
            seconds[person].append(took)
    others = User.objects.in_bulk([pk for pk in states if pk not in assigned])
    lacking = queue.items.filter(slots__review=None).distinct().count()
    ended = Review.objects.filter(item__slots__review=None, item__queue=queue).exclude(state=State.DRAFT).order_by()
    finished = Counter(dict(ended.values_list("reviewer").annotate(Count("item", distinct=True))))
    return [
        PersonProgress(
            user,
            user.pk in assigned,
            done=states[user.pk][State.SUBMITTED],
            drafts=states[user.pk][State.DRAFT],
            skipped=states[user.pk][State.SKIPPED],
            left=lacking - finished[user.pk] if user.pk in assigned and queue.is_open else 0,
            seconds=median(seconds[user.pk]) if seconds[user.pk] else None,
        )
        for user in sorted([*assigned.values(), *others.values()], key=lambda user: user.get_username())
    ]


def team_of(queue: Queue) -> list[tuple[User, int]]:
    """List everybody assigned, by name, with how many items they submitted or skipped; two queries."""
    finished = Review.objects.filter(item__queue=queue).exclude(state=State.DRAFT).order_by()
    counts = dict(finished.values_list("reviewer").annotate(Count("pk")))
    return [(person, counts.get(person.pk, 0)) for person in queue.reviewers.order_by("username")]


def own_drafts(user: User) -> QuerySet[Review]:
    """Select drafts in open queues, the last saved first."""
    drafts = Review.objects.filter(reviewer=user, state=State.DRAFT, item__queue__closed_at=None)
    mine = Slot.objects.filter(is_unfilled(), item=OuterRef("item"), holder=user)
    open_slots = Slot.objects.filter(free(timezone.now()), item=OuterRef("item"))
    return (
        drafts.annotate(is_held=Exists(mine), is_open=Exists(open_slots))
        .select_related("item__queue")
        .order_by("-saved_at", "-pk")
    )
