"""The status of an item: never stored, always computed from its slots, reviews and resolution."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable
from dataclasses import dataclass
from enum import StrEnum

from django.db.models import Q
from django.utils import timezone

from benchapp.models import Label, Queue, QueueItem, Resolution, Review, Slot


class ItemStatus(StrEnum):
    WAITING = "waiting"  # nobody has started
    IN_PROGRESS = "in progress"  # held, in draft, or fewer reviews than it needs
    REVIEWED = "reviewed"  # all reviews are in; nothing to resolve
    AWAITING = "awaiting resolution"  # an open dispute: submitted reviews differ in codes
    RESOLVED = "resolved"
    SKIPPED = "skipped"  # all reviews are in, and nobody could code it


@dataclass(frozen=True, slots=True)
class ItemAnswer:
    """One person's review of the item: its state and the keys of the codes it uses."""

    state: str
    codes: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class ItemStanding:
    """What determines an item's status. `held`: slots somebody holds in time; `filled`: those with their review."""

    needed: int
    held: int = 0
    filled: int = 0
    answers: tuple[ItemAnswer, ...] = ()
    is_resolved: bool = False


def item_status(standing: ItemStanding) -> ItemStatus:
    """Compute the status. Pure. Extra reviews, which no slot had room for, count like the others."""
    if standing.is_resolved:
        return ItemStatus.RESOLVED
    submitted = [answer for answer in standing.answers if answer.state == Review.State.SUBMITTED]
    if differ(answer.codes for answer in submitted):
        return ItemStatus.AWAITING
    if standing.filled < standing.needed:
        begun = standing.held or standing.filled or standing.answers
        return ItemStatus.IN_PROGRESS if begun else ItemStatus.WAITING
    return ItemStatus.REVIEWED if submitted else ItemStatus.SKIPPED


def differ(codes: Iterable[frozenset[int]]) -> bool:
    """Do an item's submitted reviews differ in codes? Without a resolution that is an open dispute on every page and in
    every count, even with reviews still to come. Differences in blame or in the first mistake are not."""
    return len(set(codes)) > 1


def statuses_of(queue: Queue, items: Collection[int] | None = None) -> dict[int, ItemStatus]:
    """Return key of item -> status, for these keys or the whole queue; five queries for any number of items."""
    standings = standings_of(queue, items)
    return {pk: item_status(standing) for pk, standing in standings.items()}


def standings_of(queue: Queue, items: Collection[int] | None = None) -> dict[int, ItemStanding]:
    chosen = Q(item__queue=queue) if items is None else Q(item__queue=queue, item__in=items)
    wanted = QueueItem.objects.filter(queue=queue)
    wanted = wanted if items is None else wanted.filter(pk__in=items)
    now = timezone.now()
    held: dict[int, int] = defaultdict(int)
    filled: dict[int, int] = defaultdict(int)
    for item, until, review in Slot.objects.filter(chosen).values_list("item", "held_until", "review").order_by():
        filled[item] += review is not None
        held[item] += review is None and until is not None and until > now
    answers = _answers(chosen)
    resolutions = Resolution.objects.filter(chosen, superseded_at=None).values_list("item", flat=True)
    resolved = set(resolutions.order_by())
    return {
        pk: ItemStanding(needed, held[pk], filled[pk], tuple(answers[pk]), pk in resolved)
        for pk, needed in wanted.values_list("pk", "reviews_needed").order_by("ordinal")
    }


def _answers(chosen: Q) -> dict[int, list[ItemAnswer]]:
    codes: dict[int, set[int]] = defaultdict(set)
    for review, code in Label.objects.filter(mark__review__in=Review.objects.filter(chosen)).values_list(
        "mark__review", "code"
    ):
        codes[review].add(code)
    answers: dict[int, list[ItemAnswer]] = defaultdict(list)
    for pk, item, state in Review.objects.filter(chosen).values_list("pk", "item", "state").order_by("pk"):
        answers[item].append(ItemAnswer(state, frozenset(codes[pk])))
    return answers
