"""`/review/queues/<id>/agreement/` and `/disagreements/`: how far reviewers agree, and where they do not."""

from __future__ import annotations

from collections.abc import Iterable
from urllib.parse import urlencode
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from benchapp.models import Code, Queue, QueueItem, Review, User
from benchapp.record.json_shape import JsonShape
from benchapp.review.codebooks.code_keys import keys_of
from benchapp.review.coding.answer_overlap import still_to_review
from benchapp.review.coding.disagreements import (
    About,
    Compared,
    Standing,
    Wanted,
    code_names,
    compared_items,
    count_open,
)
from benchapp.review.coding.queue_agreement import (
    Occasion,
    agreement_of,
    standing_report,
    take_report,
    was_discussed,
    was_opened,
)
from benchapp.review.coding.resolutions import closed_sentence
from benchapp.review.review_access import ELSEWHERE, asked_elsewhere
from benchapp.review.seeing import note_seen
from benchapp.stats.agreement.confusion import NONE
from inspector.pages.review.queues.queue_form import may_review
from inspector.pages.review.queues.queues import RELATED, load_queue, may_manage, name_unit
from inspector.pages.review.results.agreement import (
    REPORT,
    WORDS,
    alphas,
    cautions,
    cell_in_words,
    code_rows,
    disagreement_rows,
    in_words,
    matrix,
    report_rows,
)
from inspector.web.access import needs, user_of
from inspector.web.responses import next_url, paginate, render_page

PER_PAGE = 50
ANY = "any"  # ?about=any lists items also where nothing differs
NO_CODE = "none"  # ?with=none
QUEUE = JsonShape(
    *("queue=public_id", "name", "codebook=version.codebook.name", "codebook_version=version.number"),
    "version_id=version.public_id",
)


@require_safe
def agreement(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    queue = _load_open(request, public_id)
    found = agreement_of(queue)
    if found.items:  # else the page tells nobody's answer
        note_seen(user_of(request), queue)
    discussed = was_discussed(queue)
    reports = list(queue.agreement_reports.select_related("taken_by"))
    standing = standing_report(queue)
    data = {
        **QUEUE.read(queue),
        "discussed": discussed,
        "says": in_words(found),
        "cautions": cautions(found, discussed=discussed),
        "now": found,
        "standing_report": standing.public_id if standing else None,
        "reports": REPORT.read_all(reports),
        "next": None,
    }
    rows = code_rows(found, keys_of(queue.version))
    context = {
        "queue_row": queue,
        "found": found,
        "alphas": alphas(found),
        "rows": [row for row in rows if row.found.used.k],
        "unused": [row for row in rows if not row.found.used.k],
        "matrix": matrix(found, rows),
        "report_rows": report_rows(reports),
        "standing": standing,
        "opened": was_opened(queue),
        "may_keep": user_of(request).may(User.Level.REVIEWER),
        "way": _find_way(queue, user_of(request)),
    }
    return render_page(request, "review/agreement.html", data=data, context=context, as_json=as_json)


def _find_way(queue: Queue, user: User) -> str:
    """What this person does first to get second reviews: "raise" their number, "assign" somebody, or make an account
    ("people"); empty where they may not."""
    if not queue.is_open or not may_manage(queue, user):
        return ""
    if queue.reviewers.count() > queue.reviews_per_item:
        return "raise"
    return "assign" if may_review().exclude(queues=queue).exists() else "people"


@require_POST
@needs(User.Level.REVIEWER)
def agreement_keep(request: HttpRequest, public_id: UUID) -> HttpResponse:
    queue = open_queue(request, public_id)
    take_report(queue, Occasion.ASKED, user_of(request))
    return HttpResponseRedirect(reverse("agreement", args=[queue.public_id]) + "#reports")


@require_safe
def disagreements(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    queue = open_queue(request, public_id)
    codes = code_names(queue)
    opened = was_opened(queue)
    wanted, said = parse_wanted(request, codes)
    rows = compared_items(queue) if opened else []
    page = paginate(request, [each for each in rows if wanted.takes(each)], per_page=PER_PAGE)
    listed = disagreement_rows(page, _read_titles(page.object_list), codes, _users(page.object_list))
    data = {
        "queue": queue.public_id,
        "opened": opened,
        "about": wanted.about or ANY,
        "state": wanted.standing,
        "cell": said or None,
        "items": listed,
        "next": next_url(request, page),
    }
    found = None if opened else agreement_of(queue)
    own_open = _own_open(rows, user_of(request))
    to_settle = (row for row in page if row.standing == Standing.OPEN and row.item.pk not in own_open)
    context = {
        "queue_row": queue,
        "page": page,
        "first": next(to_settle, None),
        "rows": listed,
        "wanted": wanted,
        "said": said,
        "tabs": _tabs(wanted, rows),
        "states": _states(wanted),
        "found": found,
        "standing": None if opened else standing_report(queue),
        "says": in_words(found) if found else "",
        "query": query_of(wanted, codes),
        "open_total": count_open(rows),
        "own_open": own_open,
        "resolved_total": sum(each.standing == Standing.RESOLVED for each in rows),
        "may_open": user_of(request).may(User.Level.REVIEWER),
    }
    return render_page(request, "review/disagreements.html", data=data, context=context, as_json=as_json)


def _own_open(rows: list[Compared], user: User) -> frozenset[int]:
    """Keys of the open ones that this person answered themselves and so may not settle (`explain_barred`)."""
    if user.may(User.Level.ADMIN):
        return frozenset()
    opened = [each.item.pk for each in rows if each.standing == Standing.OPEN]
    own = Review.objects.filter(item__in=opened, reviewer=user).exclude(state=Review.State.DRAFT)
    return frozenset(own.order_by().values_list("item", flat=True))


@require_POST
@needs(User.Level.REVIEWER)
def disagreements_open(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Agreement is taken and kept first; from then on answers count as discussed."""
    queue = open_queue(request, public_id)
    take_report(queue, Occasion.DISCUSSION, user_of(request))
    return HttpResponseRedirect(reverse("disagreements", args=[queue.public_id]))


def open_queue(request: HttpRequest, public_id: UUID) -> Queue:
    """The queue, for pages that tell what others said: whoever opens one has read it (`note_seen`)."""
    queue = _load_open(request, public_id)
    note_seen(user_of(request), queue)
    return queue


def _load_open(request: HttpRequest, public_id: UUID) -> Queue:
    """The queue; closed to whoever still has items of its overlap to review blind, here or in another queue."""
    queue = load_queue(public_id)
    user = user_of(request)
    if left := still_to_review(queue, user):
        raise PermissionDenied(closed_sentence(left))
    if asked_elsewhere([queue], user):
        raise PermissionDenied(ELSEWHERE)
    return queue


def parse_wanted(request: HttpRequest, codes: dict[int, Code]) -> tuple[Wanted, str]:
    """What the address asks to list, and its cell in words. Nonsense is as if it were not there."""
    asked = request.GET
    keys: dict[str, int | None] = {str(code.public_id): pk for pk, code in codes.items()}
    keys[NO_CODE] = NONE
    pair = asked.get("code", ""), asked.get("with", "")
    cell = (keys[pair[0]], keys[pair[1]]) if all(name in keys for name in pair) else None
    about = asked.get("about", "")
    chosen = None if about == ANY else About(about) if about in list(About) else About.CODES
    state = asked.get("state", "")
    wanted = Wanted(chosen, Standing(state) if state in list(Standing) else None, cell)
    return wanted, cell_in_words(cell, codes) if cell else ""


def query_of(wanted: Wanted, codes: dict[int, Code]) -> str:
    """The address of the same list."""
    pairs = [("about", wanted.about or ANY)]
    if wanted.standing:
        pairs.append(("state", wanted.standing))
    if wanted.cell:
        names = [NO_CODE if key is NONE else str(codes[key].public_id) for key in wanted.cell]
        pairs += [("code", names[0]), ("with", names[1])]
    return urlencode(pairs)


def _tabs(wanted: Wanted, rows: list[Compared]) -> list[dict[str, object]]:
    """What to list, each with how many there are."""
    names: list[tuple[About | None, str]] = [*WORDS.items(), (None, "all")]
    return [
        {
            "text": text,
            "total": sum(Wanted(about, wanted.standing).takes(each) for each in rows),
            "query": urlencode([("about", about or ANY), *_state(wanted.standing)]),
            "is_current": about == wanted.about and not wanted.cell,
        }
        for about, text in names
    ]


def _states(wanted: Wanted) -> list[dict[str, object]]:
    about = ("about", wanted.about or ANY)
    return [
        {"text": text, "query": urlencode([about, *_state(state)]), "is_current": state == wanted.standing}
        for state, text in ((None, "all"), (Standing.OPEN, "open"), (Standing.RESOLVED, "settled"))
    ]


def _state(standing: Standing | None) -> list[tuple[str, str]]:
    return [("state", standing)] if standing else []


def _read_titles(rows: Iterable[Compared]) -> dict[int, str]:
    keys = [each.item.pk for each in rows]
    found = QueueItem.objects.select_related(*RELATED).in_bulk(keys) if keys else {}
    return {pk: name_unit(item)[0] for pk, item in found.items()}


def _users(rows: Iterable[Compared]) -> dict[int, User]:
    keys = {answer.reviewer for each in rows for answer in each.item.answers}
    return User.objects.in_bulk(keys) if keys else {}
