"""`/review/queues/<id>/`: how far it is, who is at it, how it was drawn; and what can be done about it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.views.decorators.http import require_POST, require_safe

from benchapp.models import Code, Queue, User
from benchapp.record.json_shape import JsonShape
from benchapp.review.codebooks.skill_codes import hides_skills
from benchapp.review.queues.claims import claim, may_claim
from benchapp.review.queues.passes import begin_second_pass, first_pass_of, left_in_first_pass, second_pass_of
from benchapp.review.queues.queue_making import (
    MAX_REVIEWS,
    QueueRefused,
    assign,
    close,
    raise_reviews,
    withdraw,
)
from benchapp.review.queues.review_progress import people_of, progress_of
from benchapp.review.queues.statuses import ItemStatus
from benchapp.review.review_access import asked_elsewhere, still_to_code
from benchapp.review.seeing import note_seen
from inspector.pages.review.queues.queue_form import FACETS, may_review
from inspector.pages.review.queues.queues import (
    HIDDEN,
    QUEUE,
    UNITS,
    is_blinded,
    item_rows,
    items_with,
    links_of,
    load_queue,
    may_manage,
    read_draw,
    read_uuids,
    status_counts,
    statuses_shown,
    unsaid_items,
    waiting_names,
)
from inspector.web.access import needs, user_of
from inspector.web.responses import PageLink, next_url, paginate, render_page

MAX_REASON = 2_000
QUEUE_RULES = JsonShape(
    *("instructions", "population_total", "sampling", "stratified_by=strata?", "seed", "reviews_per_item"),
    ("hidden", lambda queue: [name.removeprefix("hides_") for name in HIDDEN if getattr(queue, name)]),
)
PERSON = JsonShape(
    *("name=user.username", "assigned=is_assigned", "submitted=done", "drafts", "skipped", "left"),
    "median_seconds=seconds",
)


@dataclass(frozen=True, slots=True)
class ChosenItems:
    """The queue's items that the address asks for, by status and by code, as this person may see them."""

    chosen: list[int]  # keys
    statuses: dict[int, ItemStatus]
    unsaid: Collection[int]
    status: str  # "" where all are listed
    cause: Code | None


@require_safe
def queue(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    found, user = load_queue(public_id), user_of(request)
    items = _choose_items(request, found, user)
    page = paginate(request, items.chosen)
    rows = item_rows(list(page), items.statuses, user, items.unsaid)
    [progress], people = progress_of([found], user), people_of(found)
    shared = {"waiting": waiting_names(found), "drawn": read_draw(found, blinded=is_blinded(found, user))}
    passes = {"first_pass": first_pass_of(found), "second_pass": second_pass_of(found)}
    counts = status_counts(items.statuses)
    data = {
        **QUEUE.read(progress),
        "codebook_version": PageLink("codebook-version-json", found.version.public_id),
        **QUEUE_RULES.read(found),
        "drawing": shared["drawn"],
        **{name: PageLink("queue-json", each.public_id) if each else None for name, each in passes.items()},
        "codes_that_wait": shared["waiting"],
        "statuses": {status.value: count for status, count in counts},
        "people": PERSON.read_all(people),
        "rows": rows,
        **{"created_at": found.created_at, "closed_at": found.closed_at, "next": next_url(request, page)},
    }
    context = {"page": page, "progress": progress, "people": people, "shown": rows, "counts": counts}
    context |= {**shared, **passes, **_read_rights(found, user), "status": items.status, "cause": items.cause}
    return render_page(request, "review/queue.html", data=data, context=context, as_json=as_json)


def _choose_items(request: HttpRequest, queue: Queue, user: User) -> ChosenItems:
    unsaid = unsaid_items(queue, user)
    statuses = statuses_shown(queue, user, unsaid)
    asked = request.GET.get("status", "")
    wanted = asked if asked in set(ItemStatus) else ""
    chosen = [pk for pk, status in statuses.items() if status == wanted or not wanted]
    if cause := _cause(request, queue, user):
        carrying = items_with(queue, cause)
        chosen = [pk for pk in chosen if pk in carrying]
    return ChosenItems(chosen, statuses, unsaid, wanted, cause)


def _read_rights(queue: Queue, user: User) -> dict[str, object]:
    """What the queue is, and what this person can do with it."""
    manages = may_manage(queue, user)
    return {
        "queue": queue,
        "strata_word": FACETS.get(queue.strata, queue.strata),
        "noun": UNITS[Queue.Unit(queue.unit)],
        "is_mine": may_claim(queue, user),
        "held_minutes": max(1, round(queue.reservation_seconds / 60)),
        "hides": [text for name, text in HIDDEN.items() if getattr(queue, name)],
        "hides_skills": hides_skills(queue),
        "links": links_of(queue),
        "manages": manages,
        "others": may_review().exclude(queues=queue) if manages and queue.is_open else [],
        "most_reviews": min(queue.reviewers.count(), MAX_REVIEWS) if manages and queue.is_open else 0,
    }


def _cause(request: HttpRequest, queue: Queue, user: User) -> Code | None:
    """The code of `?code=`, whose items are listed alone; None for whoever may not know yet what others said."""
    code = queue.version.codes.filter(public_id__in=read_uuids(request.GET.getlist("code")[:1])).first()
    if code is None or still_to_code([queue], user) or asked_elsewhere([queue], user):
        return None
    note_seen(user, queue)
    return code


@require_POST
@needs(User.Level.REVIEWER)
def queue_next(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Takes the next item for the reader and opens it; back to the queue in words where there is none."""
    found, user = load_queue(public_id), user_of(request)
    if left := left_in_first_pass(found, user):
        items = f"{left} item{'' if left == 1 else 's'}"
        messages.info(request, f"Finish pass 1 first: {items} left for you. Pass 2 shows the skills.")
    elif item := claim(found, user):
        return HttpResponseRedirect(item.get_absolute_url())
    else:
        messages.info(request, _explain_nothing(found, user))
    return HttpResponseRedirect(found.get_absolute_url())


@require_POST
@needs(User.Level.REVIEWER)
def queue_close(request: HttpRequest, public_id: UUID) -> HttpResponse:
    found, user = _load_managed(request, public_id)
    if close(found, user=user, reason=request.POST.get("reason", "")[:MAX_REASON]):
        messages.success(request, "The queue is closed. Submitted reviews stay.")
    return HttpResponseRedirect(found.get_absolute_url())


@require_POST
@needs(User.Level.REVIEWER)
def queue_second_pass(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The same items again with skills shown, as a queue of its own."""
    found, user = _load_managed(request, public_id)
    try:
        second = begin_second_pass(found, user)
    except QueueRefused as error:
        messages.error(request, str(error))
        return HttpResponseRedirect(found.get_absolute_url())
    messages.success(request, "Pass 2 is open. Each reviewer starts it when their pass 1 is done.")
    return HttpResponseRedirect(second.get_absolute_url())


@require_POST
@needs(User.Level.REVIEWER)
def queue_reviews(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """`reviews`: how many each shared item is to get from now on."""
    found, user = _load_managed(request, public_id)
    sent = request.POST.get("reviews", "")
    try:
        raise_reviews(found, int(sent) if sent.isascii() and sent.isdecimal() and len(sent) < 4 else 0, user=user)
    except QueueRefused as error:
        messages.error(request, str(error))
    else:
        messages.success(request, f"Each shared item is to get {found.reviews_per_item} reviews now.")
    return HttpResponseRedirect(found.get_absolute_url())


@require_POST
@needs(User.Level.REVIEWER)
def queue_people(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """`add` or `remove` names a person; 404 where there is no such account."""
    found, user = _load_managed(request, public_id)
    adds = "add" in request.POST
    person = get_object_or_404(User, username=request.POST.get("add" if adds else "remove", ""))
    try:
        done = assign(found, person, user=user) if adds else withdraw(found, person, user=user)
    except QueueRefused as error:
        messages.error(request, str(error))
    else:
        if done:
            said = "is assigned now" if adds else "is no longer assigned. Their reviews stay"
            messages.success(request, f"{person.get_username()} {said}.")
    return HttpResponseRedirect(found.get_absolute_url())


def _load_managed(request: HttpRequest, public_id: UUID) -> tuple[Queue, User]:
    found, user = load_queue(public_id), user_of(request)
    if not may_manage(found, user):
        raise PermissionDenied("Only the person who made this queue, or an admin, can change it.")
    return found, user


def _explain_nothing(queue: Queue, user: User) -> str:
    if not queue.is_open:
        return "This queue is closed."
    if not queue.reviewers.filter(pk=user.pk).exists():
        return "You do not review in this queue. Ask the person who made it to assign you."
    return "Nothing is left for you. Others reviewed or reserved the remaining items."
