"""`/review/queues/<id>/`: how far it is, who is at it, how it was drawn; and what can be done about it."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.db.models import Count, Q
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404

from benchapp.models import Code, Label, Queue, QueueItem, Resolution, Review, Slot, User
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.review.blinding import asked_elsewhere, open_to, same_unit, still_to_code, too_early, unsaid_by
from benchapp.review.codebooks.hierarchy import in_order
from benchapp.review.queues.claims import claim, may_claim
from benchapp.review.queues.passes import (
    begin_second_pass,
    first_pass_of,
    hides_skills,
    judging_skills,
    left_in_first_pass,
    second_pass_of,
)
from benchapp.review.queues.populations import HIDES, reopen
from benchapp.review.queues.queue_making import MAX_REVIEWS, QueueRefused, assign, close, increase_reviews, withdraw
from benchapp.review.queues.review_progress import ItemStatus, awaiting, people_of, progress_of, statuses_of
from benchapp.review.results.queue_results import QueueCoding
from benchapp.review.seeing import note_seen
from inspector.pages.review.queues.queues import (
    FACETS,
    QUEUE,
    RELATED,
    UNITS,
    count_settleable,
    load_queue,
    may_manage,
    may_review,
    name_unit,
)
from inspector.web.access import needs, user_of
from inspector.web.responses import PageLink, link_to, paginate, render_page
from runner.base.text import parse_count, plural

MAX_REASON = 2_000
# Parts of a selection that say nothing about condition or models; all others stay hidden from the blind.
SHOWN_TO_THE_BLIND = ("environment", "family", "task", "role", "phase", "outcome", "covered", "suite")
# Presets that give away the condition, and which the blind are shown instead.
SHOWN_INSTEAD = {"silent-bypass": "failed", "regressions": "failed", "improvements": "passed"}
HIDDEN = {
    "hides_labels": "what others said, until you submit",
    "hides_suggestions": "suggestions of rules and judges, until you submit",
    "hides_conditions": "the condition",
    "hides_models": "the models",
}
QUEUE_RULES = JsonShape(
    "instructions population_total sampling stratified_by=strata? seed reviews_per_item",
    ("hidden", lambda queue: [name.removeprefix("hides_") for name in HIDDEN if getattr(queue, name)]),
)
PERSON = JsonShape("name=user.username assigned=is_assigned submitted=done drafts skipped left median_seconds=seconds")


def queue(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    found, user = load_queue(public_id), user_of(request)
    unsaid = frozenset(found.items.filter(same_unit(unsaid_by(user))).order_by().values_list("pk", flat=True))
    statuses = _show_statuses(found, user, unsaid)
    [progress], people = progress_of([found], user), people_of(found)
    totals = Counter(statuses.values())
    shows_codes = not as_json and (progress.is_done or not found.is_open) and _may_read_codes(found, user)
    cause = _find_cause(request, found, user)
    asked = request.GET.get("status", "")
    if not asked and shows_codes and not cause and totals[ItemStatus.AWAITING]:
        asked = ItemStatus.AWAITING
    status = asked if asked in set(ItemStatus) else ""
    chosen = [pk for pk, each in statuses.items() if each == status or not status]
    if cause:
        coding = QueueCoding([found])
        members = coding.within(cause)
        carrying = {item.pk for item in coding.items if item.share(members)}  # by the answers that count in results
        chosen = [pk for pk in chosen if pk in carrying]
    if not as_json:  # what waits to be settled comes first
        chosen.sort(key=lambda pk: statuses[pk] != ItemStatus.AWAITING)
    page = paginate(request, chosen)
    rows = _read_items(list(page), statuses, user, unsaid)
    codes_by_item = {}
    if shows_codes:
        note_seen(user, found)
        codes_by_item = _read_codes(list(page))
    skills_hidden = hides_skills(found)
    codes = list(found.version.codes.all()) if skills_hidden else []
    judging = judging_skills(codes)  # nobody can judge these here
    is_blinded = found.is_open and found.is_blind and open_to(user).filter(queue=found).exists()
    drawn, trials_query = _read_draw(found, is_blinded=is_blinded)
    passes = {"first_pass": first_pass_of(found), "second_pass": second_pass_of(found)}
    is_early = bool(too_early([found], user))
    unresolved = 0 if is_early else awaiting([found]).get(found.pk, 0)
    manages = may_manage(found, user)
    data = {
        **QUEUE.read(progress),
        "codebook_version": PageLink("codebook-version-json", found.version.public_id),
        **QUEUE_RULES.read(found),
        "drawing": drawn,
        **{name: PageLink("queue-json", each.public_id) if each else None for name, each in passes.items()},
        "codes_that_wait": [code.name for code, _ in in_order(codes) if code.pk in judging],
        "statuses": {each.value: totals[each] for each in ItemStatus},
        "people": PERSON.read_all(people),
        "rows": rows,
        "created_at": found.created_at,
        "closed_at": found.closed_at,
    }
    context = {
        "queue": found,
        "progress": progress,
        "people": people,
        "listed": [(row, codes_by_item.get(row.item.pk, [])) for row in rows],
        "shows_codes": shows_codes,
        "counts": [(each, totals[each]) for each in ItemStatus],
        "trials_query": trials_query,
        **passes,
        "status": status,
        "cause": cause,
        "strata_word": FACETS.get(found.strata, found.strata),
        "noun": UNITS[Queue.Unit(found.unit)],
        "is_mine": (is_mine := may_claim(found, user)),
        "held_minutes": max(1, round(found.reservation_seconds / 60)),
        "hides": [text for name, text in HIDDEN.items() if getattr(found, name)],
        "hides_skills": skills_hidden,
        "is_early": is_early,
        "unresolved": unresolved,
        "disputed": totals[ItemStatus.AWAITING],
        "settleable": unresolved and count_settleable([found], user).get(found.pk, 0),
        "uses": {name: any(getattr(each, name) for each in people) for name in ("skipped", "drafts", "left")},
        "shows_status": not status and len(totals) > 1,
        "shows_own": is_mine and not shows_codes and any(row.own for row in rows),
        "hides_reviews": not shows_codes and len({row.filled is None for row in rows}) > 1,
        "shows_reviews": any(row.filled is not None for row in rows),
        "manages": manages,
        "others": may_review().exclude(queues=found) if manages and found.is_open else [],
        "most_reviews": min(found.reviewers.count(), MAX_REVIEWS) if manages and found.is_open else 0,
    }
    return render_page(request, "review/queue.html", data=data, context=context, page=page, as_json=as_json)


def _show_statuses(queue: Queue, user: User, unsaid: Collection[int]) -> dict[int, ItemStatus]:
    """Return the status of each item; for items that this person still codes blind, only their own part of it.
    Otherwise splitting a code and carrying the queue over would show whose reviews became drafts again, and so their
    answers."""
    drafts = Review.objects.filter(item__in=unsaid, reviewer=user).exclude(state=Review.State.SKIPPED)
    own = set(drafts.values_list("item", flat=True)) if unsaid else set()
    hidden = {pk: ItemStatus.IN_PROGRESS if pk in own else ItemStatus.WAITING for pk in unsaid}
    return {pk: hidden.get(pk, status) for pk, status in statuses_of(queue).items()}


def _may_read_codes(queue: Queue, user: User) -> bool:
    return not still_to_code([queue], user) and not asked_elsewhere([queue], user)


def _find_cause(request: HttpRequest, queue: Queue, user: User) -> Code | None:
    """Return the code of `?code=`, which limits the list to its items; None while the answers of others are hidden."""
    try:
        asked = UUID(request.GET.getlist("code")[0])
    except (IndexError, ValueError):
        return None
    code = queue.version.codes.filter(public_id=asked).first()
    if code is None or not _may_read_codes(queue, user):
        return None
    note_seen(user, queue)
    return code


# --- items ----------------------------------------------------------------------------------------------------------


class ItemRow(Shaped):
    """One item in the list. Never says what blindness hides: neither condition nor model nor whether it is a control.

    `own`: state of the reader's own review, empty without one. `filled`: reviews that are in; None where the reader has
    still to code it unseen by others. `own_codes`: the reader's codes; None if they submitted nothing."""

    json_shape = JsonShape(
        "number",
        link_to("review-item", "item.public_id"),
        ("title", lambda row: row.names[0]),
        ("family", lambda row: row.names[1] or None),
        "status own? reviews=filled reviews_needed=item.reviews_needed",
    )

    def __init__(
        self, item: QueueItem, status: ItemStatus, own: str, filled: int | None, codes: Iterable[str] | None
    ) -> None:
        self.item, self.status, self.own, self.filled = item, status, own, filled
        self.number, self.names = item.ordinal + 1, name_unit(item)
        self.own_codes = None if codes is None else list(codes)


def _read_items(
    items: Sequence[int], statuses: Mapping[int, ItemStatus], user: User, unsaid: Collection[int]
) -> list[ItemRow]:
    """Read these items in their order, in five queries. Own codes are in the order of the codebook."""
    found = QueueItem.objects.select_related(*RELATED).in_bulk(items)
    own = dict(Review.objects.filter(item__in=items, reviewer=user).values_list("item", "state"))
    slots = Slot.objects.filter(item__in=items).exclude(review=None).order_by()
    filled = dict(slots.values_list("item").annotate(Count("pk")))
    submitted = [pk for pk, state in own.items() if state == Review.State.SUBMITTED]
    labels = Label.objects.filter(mark__review__item__in=submitted, mark__review__reviewer=user)
    codes: dict[int, dict[str, None]] = {pk: {} for pk in submitted}
    for item, name in labels.order_by("code__ordinal", "code").values_list("mark__review__item", "code__name"):
        codes[item][name] = None
    return [
        ItemRow(found[pk], statuses[pk], own.get(pk, ""), None if pk in unsaid else filled.get(pk, 0), codes.get(pk))
        for pk in items
    ]


def _read_codes(items: Sequence[int]) -> dict[int, list[tuple[str, list[str]]]]:
    """Return item -> (who, the codes they gave), reviewers with the same codes together; who settled it instead, where
    somebody did. Four queries. Codes are in the order of the codebook."""
    reviews = Review.objects.filter(item__in=items, state=Review.State.SUBMITTED)
    labels = Label.objects.filter(mark__review__in=reviews).order_by("code__ordinal", "code")
    codes: defaultdict[int, dict[str, None]] = defaultdict(dict)
    for review, name in labels.values_list("mark__review", "code__name"):
        codes[review][name] = None
    same: defaultdict[int, defaultdict[tuple[str, ...], list[str]]] = defaultdict(lambda: defaultdict(list))
    for pk, item, name in reviews.order_by("reviewer__username").values_list("pk", "item", "reviewer__username"):
        same[item][tuple(codes[pk])].append(name)
    found = {item: [(", ".join(who), list(given)) for given, who in answers.items()] for item, answers in same.items()}
    settled = Resolution.objects.filter(item__in=items, superseded_at=None).select_related("adjudicator")
    for each in settled.prefetch_related("codes"):
        found[each.item_id] = [(each.adjudicator.get_username(), [code.name for code in each.codes.all()])]
    return found


# --- how it was drawn -----------------------------------------------------------------------------------------------


def _read_draw(queue: Queue, *, is_blinded: bool) -> tuple[dict[str, object], str]:
    """Return how the queue was drawn, and the query of Compare's list of the trials: empty where it would give
    something away or does not apply. Two queries. A stored selection that no longer means anything is shown as it is
    written. inclusion: of all items but controls, where it is one number."""
    try:
        population = reopen(queue.unit, queue.population)
    except ValueError:
        chips, preset, query = [], "", ""
        noun = queue.get_unit_display() + ("" if is_blinded else f" ({queue.population})")
    else:
        chips, preset = population.narrowed_by(), population.preset
        noun = replace(population, preset=SHOWN_INSTEAD.get(preset, preset) if is_blinded else preset).noun()
        query = population.shown_query() if queue.unit == "trial" and not is_blinded else ""
    shown = [text for name, _, text in chips if not is_blinded or name in SHOWN_TO_THE_BLIND]
    drawn_rows = queue.items.filter(is_control=False).order_by().values_list("stratum", "inclusion")
    rows = list(drawn_rows.annotate(Count("pk")).order_by("stratum"))
    counts = queue.items.aggregate(
        all=Count("pk"), controls=Count("pk", filter=Q(is_control=True)), overlap=Count("pk", filter=Q(is_overlap=True))
    )
    inclusions = {inclusion for _, inclusion, _ in rows}
    shows_strata = queue.strata and not (is_blinded and queue.strata in HIDES)
    drawn = {
        "from": noun,
        "selection": shown,
        "parts_hidden": len(shown) < len(chips) or (is_blinded and preset in SHOWN_INSTEAD),
        "strata": [{"stratum": name, "drawn": n, "inclusion": p} for name, p, n in rows] if shows_strata else [],
        "drawn": counts["all"] - counts["controls"],
        "controls": counts["controls"],
        "overlap": counts["overlap"],
        "inclusion": inclusions.pop() if len(inclusions) == 1 else None,
    }
    return drawn, query


# --- what can be done about it --------------------------------------------------------------------------------------


@needs(User.Level.REVIEWER)
def queue_next(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Reserve the next item for the reader and open it; return to the queue with a message if there is none."""
    found, user = load_queue(public_id), user_of(request)
    if left := left_in_first_pass(found, user):
        message = f"Finish pass 1 first: {plural(left, 'item')} left for you. Pass 2 shows the skills."
    elif item := claim(found, user):
        return HttpResponseRedirect(item.get_absolute_url())
    elif not found.is_open:
        message = "This queue is closed."
    elif not found.reviewers.filter(pk=user.pk).exists():
        message = "You do not review in this queue. Ask the person who made it to assign you."
    else:
        message = "Nothing is left for you. Others reviewed or reserved the remaining items."
    messages.info(request, message)
    return HttpResponseRedirect(found.get_absolute_url())


@needs(User.Level.REVIEWER)
def queue_close(request: HttpRequest, public_id: UUID) -> HttpResponse:
    found, user = _load_managed(request, public_id)
    if close(found, user=user, reason=request.POST.get("reason", "")[:MAX_REASON]):
        messages.success(request, "The queue is closed. Submitted reviews stay.")
    return HttpResponseRedirect(found.get_absolute_url())


@needs(User.Level.REVIEWER)
def queue_second_pass(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Make a queue of the same items with skills shown."""
    found, user = _load_managed(request, public_id)
    try:
        second = begin_second_pass(found, user)
    except QueueRefused as error:
        messages.error(request, str(error))
        return HttpResponseRedirect(found.get_absolute_url())
    messages.success(request, "Pass 2 is open. Each reviewer starts it when their pass 1 is done.")
    return HttpResponseRedirect(second.get_absolute_url())


@needs(User.Level.REVIEWER)
def queue_reviews(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Raise the number of reviews. `reviews`: how many each shared item is to get from now on."""
    found, user = _load_managed(request, public_id)
    try:
        increase_reviews(found, parse_count(request.POST.get("reviews", ""), 999) or 0, user=user)
    except QueueRefused as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"Each shared item is to get {found.reviews_per_item} reviews now.")
    return HttpResponseRedirect(found.get_absolute_url())


@needs(User.Level.REVIEWER)
def queue_people(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Assign or remove a person: `add` or `remove` names them. 404 if there is no such account."""
    found, user = _load_managed(request, public_id)
    adds = "add" in request.POST
    person = get_object_or_404(User, username=request.POST.get("add" if adds else "remove", ""))
    try:
        done = assign(found, person, user=user) if adds else withdraw(found, person, user=user)
    except QueueRefused as error:
        messages.error(request, str(error))
    else:
        if done:
            message = "is assigned now" if adds else "is no longer assigned. Their reviews stay"
            messages.success(request, f"{person.get_username()} {message}.")
    return HttpResponseRedirect(found.get_absolute_url())


def _load_managed(request: HttpRequest, public_id: UUID) -> tuple[Queue, User]:
    found, user = load_queue(public_id), user_of(request)
    if not may_manage(found, user):
        raise PermissionDenied("Only the person who made this queue, or an admin, can change it.")
    return found, user
