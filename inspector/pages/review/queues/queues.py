"""What the pages of queues draw: rows of items, and how a queue was drawn, as far as the reader may know it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import NamedTuple
from uuid import UUID

from django.db.models import Count, Q
from django.shortcuts import get_object_or_404
from django.urls import NoReverseMatch, reverse

from benchapp.models import Code, Label, Queue, QueueItem, Review, Slot, User
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.review.blinding import open_to, same_unit, unsaid_by
from benchapp.review.codebooks.hierarchy import in_order
from benchapp.review.codebooks.skill_codes import hides_skills, judging_skills
from benchapp.review.queues.populations import HIDES, Population, reopen
from benchapp.review.queues.statuses import ItemStatus, statuses_of
from benchapp.review.results.queue_results import coding_of
from inspector.web.responses import link_to

# Parts of a selection that tell nothing about condition or models; all others stay hidden from the blind.
TOLD_TO_THE_BLIND = ("environment", "family", "task", "role", "phase", "outcome", "covered", "suite")
# Presets that tell the condition, and what of them the blind are told.
TOLD_INSTEAD = {"silent-bypass": "failed", "regressions": "failed", "improvements": "passed"}
HIDDEN = {
    "hides_labels": "what others said, until you submit",
    "hides_suggestions": "suggestions of rules and judges, until you submit",
    "hides_conditions": "the condition",
    "hides_models": "the models",
}
RELATED = ("trial__task__family", "decision__family", "episode__family")
UNITS = {Queue.Unit.TRIAL: "trial", Queue.Unit.DECISION: "decision", Queue.Unit.SNAPSHOT: "library"}


@dataclass(frozen=True, slots=True)
class ItemRow(Shaped):
    """One item in the list. Never says what blindness hides: neither condition nor model nor whether it is a control."""

    item: QueueItem
    status: ItemStatus
    own: str  # state of the reader's own review, empty without one
    filled: int | None  # reviews that are in; None where the reader has still to code it unseen by others
    own_codes: tuple[str, ...] | None = None  # what the reader said; None where they submitted nothing

    json_shape = JsonShape(
        *("number", link_to("review-item", "item.public_id")),
        *(("title", lambda row: row.names[0]), ("family", lambda row: row.names[1] or None)),
        *("status", "own?", "reviews=filled", "reviews_needed=item.reviews_needed"),
    )

    @property
    def number(self) -> int:
        return self.item.ordinal + 1

    @property
    def names(self) -> tuple[str, str]:
        return name_unit(self.item)


def name_unit(item: QueueItem) -> tuple[str, str]:
    """What the item is about, and where that belongs; no query after `select_related(*RELATED)`."""
    if item.trial:
        task = item.trial.task
        return task.title, task.family.name if task.family else ""
    if item.decision:
        return f"decision {item.decision.number}", item.decision.family.name
    return (item.episode.title if item.episode else "library"), ""


class DrawnStratum(NamedTuple):
    stratum: str
    drawn: int
    inclusion: float


@dataclass(frozen=True, slots=True)
class QueueDraw(Shaped):
    """How the items were drawn. `strata`: empty without strata or for the blind."""

    says: str
    chips: tuple[str, ...]
    masked: bool  # parts of the selection are left out
    strata: tuple[DrawnStratum, ...]
    drawn: int
    controls: int
    overlap: int
    inclusion: float | None  # of all items but controls, where it is one number
    trials_query: str  # for Compare's list of trials; empty where it would tell or does not apply

    json_shape = JsonShape(
        *("from=says", "selection=chips", "parts_hidden=masked"),
        ("strata", lambda draw: [stratum._asdict() for stratum in draw.strata]),
        *("drawn", "controls", "overlap", "inclusion"),
    )


QUEUE = JsonShape(
    *("id=queue.public_id", "name=queue.name", link_to("queue-json", "queue.public_id")),
    ("codebook", JsonShape("name=queue.version.codebook.name", "version=queue.version.number").read),
    *("unit=queue.unit", "open=queue.is_open", "items"),
    ("reviews", JsonShape("submitted=filled", "needed=slots", "held").read),
    ("own", JsonShape("left=own_left", "done=own_done").read),
)
"""Of a QueueProgress."""


def load_queue(public_id: UUID) -> Queue:
    """The queue with what every page of it names; 404 where there is none."""
    return get_object_or_404(Queue.objects.select_related("version__codebook", "created_by"), public_id=public_id)


def may_manage(queue: Queue, user: User) -> bool:
    """Admins, and whoever made it while they may review."""
    return user.may(User.Level.ADMIN) or (queue.created_by_id == user.pk and user.may(User.Level.REVIEWER))


def is_blinded(queue: Queue, user: User) -> bool:
    """Is there an item of it that they may still answer without knowing what the queue hides of the record?"""
    return queue.is_open and queue.is_blind and open_to(user).filter(queue=queue).exists()


def item_rows(
    items: Sequence[int], statuses: Mapping[int, ItemStatus], user: User, unsaid: Collection[int]
) -> list[ItemRow]:
    """In that order; four queries."""
    found = QueueItem.objects.select_related(*RELATED).in_bulk(items)
    own = dict(Review.objects.filter(item__in=items, reviewer=user).values_list("item", "state"))
    slots = Slot.objects.filter(item__in=items).exclude(review=None).order_by()
    filled = dict(slots.values_list("item").annotate(Count("pk")))
    told = {pk: None if pk in unsaid else filled.get(pk, 0) for pk in items}
    codes = _own_codes([pk for pk, state in own.items() if state == Review.State.SUBMITTED], user)
    return [ItemRow(found[pk], statuses[pk], own.get(pk, ""), told[pk], codes.get(pk)) for pk in items]


def _own_codes(items: Sequence[int], user: User) -> dict[int, tuple[str, ...]]:
    """Item -> names of the codes that this person gave it, in the order of the codebook; one query."""
    labels = Label.objects.filter(mark__review__item__in=items, mark__review__reviewer=user)
    found: dict[int, dict[str, None]] = {pk: {} for pk in items}
    for item, name in labels.order_by("code__ordinal", "code").values_list("mark__review__item", "code__name"):
        found[item][name] = None
    return {pk: tuple(names) for pk, names in found.items()}


def read_draw(queue: Queue, *, blinded: bool) -> QueueDraw:
    """Two queries. A stored selection that means nothing any more is said as it is written."""
    population: Population | None
    try:
        population = reopen(queue.unit, queue.population)
    except ValueError:
        population = None
    chips = population.narrowed_by() if population else []
    told = [text for name, _, text in chips if not blinded or name in TOLD_TO_THE_BLIND]
    hides_preset = blinded and population is not None and population.preset in TOLD_INSTEAD
    rows = list(
        queue.items.filter(is_control=False)
        .order_by()
        .values_list("stratum", "inclusion")
        .annotate(Count("pk"))
        .order_by("stratum")
    )
    counts = queue.items.aggregate(
        all=Count("pk"), controls=Count("pk", filter=Q(is_control=True)), overlap=Count("pk", filter=Q(is_overlap=True))
    )
    inclusions = {inclusion for _, inclusion, _ in rows}
    hidden = blinded and queue.strata in HIDES
    return QueueDraw(
        says=_name_population(queue, population, blinded=blinded),
        chips=tuple(told),
        masked=len(told) < len(chips) or hides_preset,
        strata=() if hidden or not queue.strata else tuple(DrawnStratum(name, n, p) for name, p, n in rows),
        drawn=counts["all"] - counts["controls"],
        controls=counts["controls"],
        overlap=counts["overlap"],
        inclusion=inclusions.pop() if len(inclusions) == 1 else None,
        trials_query=population.shown_query() if population and queue.unit == "trial" and not blinded else "",
    )


def _name_population(queue: Queue, population: Population | None, *, blinded: bool) -> str:
    if population is None:
        return queue.get_unit_display() + ("" if blinded else f" ({queue.population})")
    preset = TOLD_INSTEAD.get(population.preset, population.preset) if blinded else population.preset
    return replace(population, preset=preset).says()


def unsaid_items(queue: Queue, user: User) -> frozenset[int]:
    """Keys of the items about which this person has still to say what they think without knowing what others said."""
    return frozenset(queue.items.filter(same_unit(unsaid_by(user))).order_by().values_list("pk", flat=True))


def statuses_shown(queue: Queue, user: User, unsaid: Collection[int]) -> dict[int, ItemStatus]:
    """Where each item stands; of the unsaid ones only what the person did themselves. Who splits one code and carries the
    queue over would else see whose reviews became drafts again, and so what they had said."""
    drafts = Review.objects.filter(item__in=unsaid, reviewer=user).exclude(state=Review.State.SKIPPED)
    own = set(drafts.values_list("item", flat=True)) if unsaid else set()
    hidden = {pk: ItemStatus.IN_PROGRESS if pk in own else ItemStatus.WAITING for pk in unsaid}
    return {pk: hidden.get(pk, status) for pk, status in statuses_of(queue).items()}


def items_with(queue: Queue, code: Code) -> frozenset[int]:
    """Keys of the items that carry the code or one below it, by the answers that count in results."""
    coding = coding_of([queue])
    members = coding.within(code)
    return frozenset(item.pk for item in coding.items if item.share(members))


def read_uuids(texts: Iterable[str]) -> list[UUID]:
    """Those that are any."""
    found = []
    for text in texts:
        try:
            found.append(UUID(text))
        except ValueError:
            continue
    return found


def waiting_names(queue: Queue) -> list[str]:
    """Codes that nobody can judge here, because the queue hides skills. At most one query."""
    if not hides_skills(queue):
        return []
    codes = list(queue.version.codes.all())
    waiting = judging_skills(codes)
    return [code.name for code, _ in in_order(codes) if code.pk in waiting]


def status_counts(statuses: Mapping[int, ItemStatus]) -> list[tuple[ItemStatus, int]]:
    counts = Counter(statuses.values())
    return [(status, counts[status]) for status in ItemStatus]


def links_of(queue: Queue) -> list[tuple[str, str]]:
    """(what, address) of the other pages of a queue."""
    names = {
        "results": "Results",
        "agreement": "Agreement",
        "disagreements": "Disagreements",
        "suggestions": "Suggestions",
    }
    return list(_addresses(queue, names))


def _addresses(queue: Queue, names: Mapping[str, str]) -> Iterable[tuple[str, str]]:
    for name, title in names.items():
        try:
            yield title, reverse(name, args=[queue.public_id])
        except NoReverseMatch:  # that page is not part of this installation
            continue
