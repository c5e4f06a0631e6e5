"""Create review queues, and change open ones: more reviews, people, closing. The drawn items never change."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from statistics import median
from uuid import UUID

from django.db import transaction
from django.utils import timezone

from benchapp.models import CodebookVersion, Decision, Episode, Queue, QueueItem, Review, Slot, Trial, User
from benchapp.record.writing.human_acts import note_activity
from benchapp.review.queues.claims import fill, free_slots
from benchapp.review.queues.item_drawing import STRATIFIED, Draw, Drawn, Undrawable, draw
from benchapp.review.queues.populations import WITHOUT_PASSES, Population

MAX_ITEMS = 5_000  # of one queue: more than a team reads
MAX_REVIEWS = 9  # of one item
LOOKUP_BATCH = 500  # rows looked up at once
COPIED_QUEUE_FIELDS = (
    *("version_id", "unit", "instructions", "population", "population_total", "sampling", "strata", "seed"),
    *("reviews_per_item", "overlap_share", "reservation_seconds"),
    *("hides_labels", "hides_suggestions", "hides_conditions", "hides_models"),
)
COPIED_ITEM_FIELDS = (
    *("ordinal", "trial_id", "decision_id", "snapshot_id", "episode_id", "stratum", "inclusion"),
    *("is_control", "is_overlap", "reviews_needed"),
)
TIMED_REVIEWS = 2_000  # newest reviews used to estimate the time of one


class QueueRefused(ValueError):
    """The queue cannot be made or changed in this way; the text says why."""


@dataclass(frozen=True, slots=True)
class QueueSpec:
    """Everything that fixes a queue."""

    name: str
    version: CodebookVersion
    population: Population
    draw: Draw
    reviewers: tuple[User, ...] = ()
    instructions: str = ""
    hides_labels: bool = True
    hides_suggestions: bool = True
    hides_conditions: bool = True
    hides_models: bool = True
    reservation_seconds: int = 1800


class Sketch:
    """Preview of what a population and a draw would give.
    Raise QueueRefused if nothing, or too much, would be drawn."""

    def __init__(self, population: Population, how: Draw, people: int) -> None:
        self.population, self.how, self.people = population, how, people

    @cached_property
    def strata(self) -> dict[str, list[UUID]]:
        return self.population.by_stratum(self.how.facet if self.how.sampling == STRATIFIED else "")

    @property
    def total(self) -> int:
        return sum(map(len, self.strata.values()))

    @cached_property
    def items(self) -> list[Drawn]:
        """Return the drawn items. Raise QueueRefused if there are none, too many, or too few reviewers."""
        if not self.total:
            raise QueueRefused(f"No {self.population.noun()} match this selection, so there is nothing to review.")
        try:
            items = draw(self.strata, self.how, self._passes())
        except Undrawable as error:
            raise QueueRefused(str(error)) from None
        if len(items) > MAX_ITEMS:
            raise QueueRefused(f"{len(items):,} items are more than {MAX_ITEMS:,}: draw a random sample of them.")
        if self.people and self.how.reviews > self.people:
            raise QueueRefused(
                f"{self.how.reviews} reviews of one item take {self.how.reviews} reviewers, and you assigned "
                f"{self.people}."
            )
        return items

    @property
    def by_stratum(self) -> list[tuple[str, int, int]]:
        """List (stratum, items drawn, items there are), without controls."""
        drawn = [item.stratum for item in self.items if not item.is_control]
        return [(stratum, drawn.count(stratum), len(ids)) for stratum, ids in self.strata.items()]

    @property
    def controls(self) -> int:
        return sum(item.is_control for item in self.items)

    @property
    def overlap(self) -> int:
        return sum(item.is_overlap for item in self.items)

    @property
    def reviews(self) -> int:
        return sum(item.reviews for item in self.items)

    @property
    def per_person(self) -> float | None:
        return self.reviews / self.people if self.people else None

    def _passes(self) -> dict[str, list[UUID]]:
        if not self.how.controls:
            return {}
        if self.population.unit != Queue.Unit.TRIAL or self.population.preset not in WITHOUT_PASSES:
            raise QueueRefused("Controls are passes mixed with failures: choose failed trials, or no controls.")
        return self.population.passes().by_stratum(self.how.facet if self.how.sampling == STRATIFIED else "")


def seconds_per_item(unit: str) -> float | None:
    """Return the median active time of the newest submitted reviews of such units; None without reviews. Carried
    reviews are left out: their time was spent in another queue."""
    timed = Review.objects.filter(
        state=Review.State.SUBMITTED, item__queue__unit=unit, seconds__gt=0, carried_from=None
    )
    newest = timed.order_by("-submitted_at").values_list("seconds", flat=True)[:TIMED_REVIEWS]
    return median(newest) if newest else None


def make_queue(spec: QueueSpec, *, user: User) -> Queue:
    """Make the queue, or raise QueueRefused and save nothing. The population is pinned to this moment."""
    if not spec.version.is_frozen:
        raise QueueRefused(f"{spec.version} is a draft: freeze it first, so that every label means the same.")
    _check_people(spec.reviewers)
    with transaction.atomic():
        pinned = spec.population.choices.as_of or timezone.now()
        population = replace(spec.population, choices=spec.population.choices.but(as_of=pinned))
        how = spec.draw
        sketch = Sketch(population, how, len(spec.reviewers))
        items = sketch.items
        queue = Queue.objects.create(
            name=spec.name,
            version=spec.version,
            unit=population.unit,
            instructions=spec.instructions,
            population=population.query(),
            population_total=sketch.total,
            sampling=how.sampling,
            strata=how.facet if how.sampling == STRATIFIED else "",
            seed=how.seed,
            reviews_per_item=how.reviews,
            overlap_share=how.overlap if how.reviews > 1 else 0.0,
            hides_labels=spec.hides_labels,
            hides_suggestions=spec.hides_suggestions,
            hides_conditions=spec.hides_conditions,
            hides_models=spec.hides_models,
            reservation_seconds=spec.reservation_seconds,
            created_by=user,
        )
        queue.reviewers.set(spec.reviewers)
        targets = _targets(queue.unit, [item.public_id for item in items])
        _create_items(
            QueueItem(
                queue=queue,
                ordinal=ordinal,
                stratum=each.stratum[: QueueItem._meta.get_field("stratum").max_length],
                inclusion=each.inclusion,
                is_control=each.is_control,
                is_overlap=each.is_overlap,
                reviews_needed=each.reviews,
                **targets[each.public_id],
            )
            for ordinal, each in enumerate(items)
        )
        detail = {
            "name": spec.name,
            "version": str(spec.version),
            "population": population.query(),
            "population_total": sketch.total,
            "items": len(items),
            "controls": sketch.controls,
            "overlap": sketch.overlap,
            "seed": how.seed,
            "reviewers": sorted(person.get_username() for person in spec.reviewers),
        }
        note_activity(user, "queue.created", queue, detail=detail)
    return queue


def copy_queue(queue: Queue, name: str, user: User | None, **changed: object) -> tuple[Queue, dict[int, QueueItem]]:
    """Create a queue of the same draw, reviewers and items. Return it, and a mapping from old item key to new item."""
    same = {field: getattr(queue, field) for field in COPIED_QUEUE_FIELDS}
    made = Queue.objects.create(name=name, created_by=user, **(same | changed))
    made.reviewers.set(queue.reviewers.all())
    old = list(queue.items.order_by("pk"))
    rows = (QueueItem(queue=made, **{field: getattr(item, field) for field in COPIED_ITEM_FIELDS}) for item in old)
    items = _create_items(rows)
    return made, {item.pk: new for item, new in zip(old, items, strict=True)}


def close(queue: Queue, *, user: User, reason: str = "") -> bool:
    """Close the queue: it hands out no more items and keeps its answers. False if it was closed before."""
    with transaction.atomic():
        if Queue.objects.filter(pk=queue.pk, closed_at=None).update(closed_at=timezone.now()) != 1:
            return False
        note_activity(user, "queue.closed", queue, reason=reason)
    queue.refresh_from_db(fields=["closed_at"])
    return True


def increase_reviews(queue: Queue, total: int, *, user: User) -> None:
    """Increase the reviews of each shared item, or of every item if none is shared. Only while the queue is open.

    The items stay as drawn, and no review is lost. Someone who reviews an item again must not see the other answers.
    If they already have, their review does not count for agreement (see `seeing`).
    """
    people = queue.reviewers.count()
    if total > MAX_REVIEWS:
        raise QueueRefused(f"At most {MAX_REVIEWS} reviews of one item, not {total}.")
    if total > people:
        raise QueueRefused(f"{total} reviews of one item take {total} reviewers, and this queue has {people}.")
    with transaction.atomic():
        # Submissions lock this row too, so no review can arrive while slots are added.
        if not Queue.objects.filter(pk=queue.pk, closed_at=None, reviews_per_item__lt=total).update(
            reviews_per_item=total
        ):
            raise QueueRefused("Reviews per item can only go up, and only while the queue is open.")
        _add_slots(queue, total)
        note_activity(user, "queue.raised", queue, detail={"reviews_per_item": total, "before": queue.reviews_per_item})
    queue.refresh_from_db(fields=["reviews_per_item", "overlap_share"])


def assign(queue: Queue, person: User, *, user: User) -> bool:
    """Assign the person. False if they were assigned before."""
    _check_people([person])
    with transaction.atomic():
        if queue.reviewers.filter(pk=person.pk).exists():
            return False
        queue.reviewers.add(person)
        note_activity(user, "queue.assigned", queue, detail={"reviewer": person.get_username()})
    return True


def withdraw(queue: Queue, person: User, *, user: User) -> bool:
    """Remove the person from the queue and free their reserved slots. Their reviews and drafts are kept.
    False if they were not assigned."""
    with transaction.atomic():
        if not queue.reviewers.filter(pk=person.pk).exists():
            return False
        queue.reviewers.remove(person)
        freed = free_slots(queue, person)
        detail = {"reviewer": person.get_username(), "slots given back": freed}
        note_activity(user, "queue.withdrawn", queue, detail=detail)
    return True


def _check_people(people: Collection[User]) -> None:
    for person in people:
        if not person.may(User.Level.REVIEWER):
            raise QueueRefused(f"{person.get_username()} may not review: the account is {person.level} or inactive.")


def _create_items(rows: Iterable[QueueItem]) -> list[QueueItem]:
    """Save the items, each with a slot for every review it needs."""
    items = QueueItem.objects.bulk_create(rows)
    Slot.objects.bulk_create(Slot(item=item, place=place) for item in items for place in range(item.reviews_needed))
    return items


def _add_slots(queue: Queue, total: int) -> None:
    """Give each shared item `total` slots. Reviews that arrived when no slot was left get the new ones first."""
    items = queue.items.filter(is_overlap=True)
    if not items.exists():
        items = queue.items.all()
        Queue.objects.filter(pk=queue.pk).update(overlap_share=1.0)
    needed = list(items.values_list("pk", "reviews_needed"))
    Slot.objects.bulk_create(Slot(item_id=pk, place=place) for pk, current in needed for place in range(current, total))
    items.update(is_overlap=True, reviews_needed=total)
    late = Review.objects.filter(item__queue=queue, slot=None).exclude(state=Review.State.DRAFT)
    for review in late.select_related("item", "reviewer"):
        fill(review.item, review.reviewer, review)


def _targets(unit: str, public_ids: Sequence[UUID]) -> dict[UUID, Mapping[str, int]]:
    """Return public id -> foreign-key columns of the item."""
    found: dict[UUID, Mapping[str, int]] = {}
    for start in range(0, len(public_ids), LOOKUP_BATCH):
        some = public_ids[start : start + LOOKUP_BATCH]
        if unit == Queue.Unit.SNAPSHOT:
            episodes = Episode.objects.filter(public_id__in=some).values_list("public_id", "pk", "library")
            found |= {public_id: {"episode_id": pk, "snapshot_id": library} for public_id, pk, library in episodes}
            continue
        model, name = (Trial, "trial_id") if unit == Queue.Unit.TRIAL else (Decision, "decision_id")
        rows = model._default_manager.filter(public_id__in=some).values_list("public_id", "pk")
        found |= {public_id: {name: pk} for public_id, pk in rows}
    return found
