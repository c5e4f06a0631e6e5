"""`/review/queues/<id>/disagreements/`: the items whose reviewers differ, their answers, and how each was settled."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from urllib.parse import urlencode
from uuid import UUID

from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.urls import reverse
from django.views.decorators.http import require_POST, require_safe

from benchapp.models import Attribution, Code, QueueItem, Review, User
from benchapp.record.json_shape import JsonShape, Shaped
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
    OverlapAnswer,
    agreement_of,
    standing_report,
    take_report,
    was_opened,
)
from benchapp.stats.agreement.kappa import NONE
from inspector.pages.review.queues.queues import RELATED, name_unit, open_queue
from inspector.pages.review.results.agreement_view import NO_CODE, in_words
from inspector.web.access import needs, user_of
from inspector.web.responses import link_to, next_url, paginate, render_page

PER_PAGE = 50
ANY = "any"  # ?about=any lists items also where nothing differs, ?state=any settled ones too
WITHOUT_CODE = "none"  # ?with=none
WORDS = {About.CODES: "codes", About.ATTRIBUTION: "who failed", About.STEP: "first mistake"}


@dataclass(frozen=True, slots=True)
class AnswerView(Shaped):
    """One review's answer. shared: codes that all reviews of the item have; own: the others."""

    user: User
    answer: OverlapAnswer
    shared: list[str]
    own: list[str]
    attribution: str
    step: int | None

    json_shape = JsonShape(
        *("reviewer=user.pseudonym", ("codes", lambda view: sorted([*view.shared, *view.own]))),
        *("attribution=answer.attribution", "first_failure_step=step"),
    )


@dataclass(frozen=True, slots=True)
class DisagreementRow(Shaped):
    compared: Compared
    title: str  # of the task, decision or library
    said: list[AnswerView]
    differs: list[str]

    json_shape = JsonShape(
        *("item=compared.item.public_id", ("number", lambda row: row.compared.item.ordinal + 1), "title"),
        *(("differs", lambda row: sorted(row.compared.differs)), "state=compared.standing"),
        *("category=compared.resolution.category", "answers=said"),
        link_to("resolve-json", "compared.item.public_id"),
    )


@require_safe
def disagreements(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    queue, user = open_queue(request, public_id), user_of(request)
    codes = code_names(queue)
    opened = was_opened(queue)
    wanted, cell = parse_wanted(request, codes)
    rows = compared_items(queue) if opened else []
    open_total = count_open(rows)
    if not as_json and "state" not in request.GET and not cell and open_total:
        wanted = replace(wanted, standing=Standing.OPEN)
    taken = list(filter(wanted.takes, rows))
    if not as_json:  # what waits comes first
        taken.sort(key=lambda each: each.standing != Standing.OPEN)
    page = paginate(request, taken, per_page=PER_PAGE)
    listed = _read_rows(list(page), codes)
    data = {
        "queue": queue.public_id,
        "opened": opened,
        "about": wanted.about or ANY,
        "state": wanted.standing,
        "cell": cell or None,
        "items": listed,
        "next": next_url(request, page),
    }
    found = None if opened else agreement_of(queue)
    resolved_total = sum(each.standing == Standing.RESOLVED for each in rows)
    own_open = _find_own_open(rows, user)
    to_settle = (row for row in page if row.standing == Standing.OPEN and row.item.pk not in own_open)
    abouts: list[tuple[About | None, str]] = [*WORDS.items(), (None, "all")]
    states = ((None, "all"), (Standing.OPEN, "open"), (Standing.RESOLVED, "settled"))
    context = {
        "queue_row": queue,
        "page": page,
        "first": next(to_settle, None),
        "rows": listed,
        "wanted": wanted,
        "said": cell,
        "tabs": [
            {
                "text": text,
                "total": sum(Wanted(about, wanted.standing).takes(each) for each in rows),
                "query": query_of(Wanted(about, wanted.standing), codes),
                "is_current": about == wanted.about and not wanted.cell,
            }
            for about, text in abouts
        ],
        "states": [
            {
                "text": text,
                "query": query_of(Wanted(wanted.about, state), codes),
                "is_current": state == wanted.standing,
            }
            for state, text in states
        ],
        "found": found,
        "standing": None if opened else standing_report(queue),
        "says": in_words(found) if found else "",
        "query": query_of(wanted, codes),
        "open_total": open_total,
        "heading": _say_open(open_total, resolved_total) if opened else "Disagreements",
        "own_open": own_open,
        "may_open": user.may(User.Level.REVIEWER),
    }
    return render_page(request, "review/disagreements.html", data=data, context=context, as_json=as_json)


def _say_open(open_total: int, resolved_total: int) -> str:
    noun = "disagreement is" if open_total == 1 else "disagreements are"
    return f"{open_total or 'No'} {noun} open{f', {resolved_total} settled' if resolved_total else ''}"


def _find_own_open(rows: list[Compared], user: User) -> frozenset[int]:
    """Keys of the open ones that this person answered themselves and so may not settle (`explain_barred`)."""
    if user.may(User.Level.ADMIN):
        return frozenset()
    opened = [each.item.pk for each in rows if each.standing == Standing.OPEN]
    own = Review.objects.filter(item__in=opened, reviewer=user).exclude(state=Review.State.DRAFT)
    return frozenset(own.order_by().values_list("item", flat=True))


def _read_rows(rows: Sequence[Compared], codes: Mapping[int, Code]) -> list[DisagreementRow]:
    """Two queries, none without rows."""
    items = QueueItem.objects.select_related(*RELATED).in_bulk([each.item.pk for each in rows])
    users = User.objects.in_bulk({answer.reviewer for each in rows for answer in each.item.answers})
    attributions = dict(Attribution.choices)

    def name_codes(keys: Collection[int]) -> list[str]:
        return [code.name for code in sorted((codes[key] for key in keys), key=lambda code: (code.ordinal, code.pk))]

    listed = []
    for each in rows:
        shared = frozenset.intersection(*(answer.codes for answer in each.item.answers))
        answers = [
            AnswerView(
                user=users[answer.reviewer],
                answer=answer,
                shared=name_codes(shared),
                own=name_codes(answer.codes - shared),
                attribution=attributions.get(answer.attribution or "", ""),
                step=answer.first[1] if answer.first else None,
            )
            for answer in each.item.answers
        ]
        differs = [word for about, word in WORDS.items() if about in each.differs]
        listed.append(DisagreementRow(each, name_unit(items[each.item.pk])[0], answers, differs))
    return listed


@require_POST
@needs(User.Level.REVIEWER)
def disagreements_open(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Agreement is taken and kept first; from then on answers count as discussed."""
    queue = open_queue(request, public_id)
    take_report(queue, Occasion.DISCUSSION, user_of(request))
    return HttpResponseRedirect(reverse("disagreements", args=[queue.public_id]))


def parse_wanted(request: HttpRequest, codes: dict[int, Code]) -> tuple[Wanted, str]:
    """What the address asks to list, and its cell in words. Nonsense is as if it were not there."""
    asked = request.GET
    keys: dict[str, int | None] = {str(code.public_id): pk for pk, code in codes.items()}
    keys[WITHOUT_CODE] = NONE
    pair = asked.get("code", ""), asked.get("with", "")
    cell = (keys[pair[0]], keys[pair[1]]) if all(name in keys for name in pair) else None
    about = asked.get("about", "")
    chosen = None if about == ANY else About(about) if about in list(About) else About.CODES
    state = asked.get("state", "")
    wanted = Wanted(chosen, Standing(state) if state in list(Standing) else None, cell)
    if cell is None:
        return wanted, ""
    names = [NO_CODE if key is NONE else codes[key].name for key in cell]
    return wanted, f"both say {names[0]}" if cell[0] == cell[1] else f"one says {names[0]}, the other {names[1]}"


def query_of(wanted: Wanted, codes: dict[int, Code]) -> str:
    """The address of the same list."""
    pairs = [("about", wanted.about or ANY), ("state", wanted.standing or ANY)]
    if wanted.cell:
        names = [WITHOUT_CODE if key is NONE else str(codes[key].public_id) for key in wanted.cell]
        pairs += [("code", names[0]), ("with", names[1])]
    return urlencode(pairs)
