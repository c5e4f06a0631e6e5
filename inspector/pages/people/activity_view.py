"""`/activity/`: who did what to the record, when and why. Newest first; nothing in it can be changed."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from uuid import UUID

from django.db.models import Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import NoReverseMatch, reverse
from django.views.decorators.http import require_safe

from benchapp.models import Activity, QueueItem, User
from benchapp.record.json_shape import Shaped
from benchapp.review.blinding import open_to, same_unit
from benchapp.review.seeing import note_items_seen
from inspector.web.access import user_of
from inspector.web.responses import next_url, paginate, render_page
from inspector.web.text.visible import visible

PER_PAGE = 50
MAX_DETAIL = 300  # characters of one value on the page; the twin has all
# kind of target -> the page that shows it
PAGES = {
    "experiment": "experiment",
    "run": "run",
    "trial": "trial",
    "comparison": "comparison",
    "codebook": "codebook",
    "codebookversion": "codebook-version",
    "queue": "queue",
    "queueitem": "review-item",
}
WORDS = {"user": "account", "codebookversion": "codebook version", "queueitem": "item", "judgecall": "judge"}
# What somebody said of an item stands with the item, where blindness rules; the log says only that they did. So it is
# with how a queue was drawn and how far its reviewers agree, while the reader still answers items of it unseen.
ABOUT_ITEMS = frozenset({"queueitem", "review", "resolution", "suggestion", "judgecall"})


@require_safe
def activity(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    chosen = {name: request.GET.get(name, "")[:200] for name in ("person", "verb", "target")}
    page = paginate(request, _filter_acts(chosen), per_page=PER_PAGE)
    reader = user_of(request)
    unseen = _unseen_queues(reader)
    acts = [_row(act, reader, unseen) for act in page]
    told = {act.target_id for act in acts if act.detail or act.reason}
    note_items_seen(reader, QueueItem.objects.filter(public_id__in=told, resolutions__isnull=False).distinct())
    data = {"acts": acts, "filter": chosen, "next": next_url(request, page)}
    context = {
        "page": page,
        "rows": [(act, _list_details(act.detail)) for act in acts],
        "people": _values("actor_name"),
        "verbs": _values("verb"),
        "targets": _values("target_kind"),
    }
    return render_page(request, "people/activity.html", data=data, context=context, as_json=as_json)


def _filter_acts(chosen: dict[str, str]) -> QuerySet[Activity]:
    lookups = {"person": "actor_name", "verb": "verb", "target": "target_kind"}
    return Activity.objects.filter(**{lookups[name]: value for name, value in chosen.items() if value})


def _values(field: str) -> list[str]:
    return list(Activity.objects.order_by(field).values_list(field, flat=True).distinct()[:200])


def _unseen_queues(reader: User) -> frozenset[UUID]:
    """Public ids of the queues in which something is hidden from the reader, by themselves or by another one. One query."""
    hides = Q(pk__in=[])
    for name in ("conditions", "models", "labels", "suggestions"):
        hides |= Q(**{f"queue__hides_{name}": True})
    same = QueueItem.objects.filter(same_unit(open_to(reader).filter(hides).order_by()))
    return frozenset(same.order_by().values_list("queue__public_id", flat=True).distinct())


@dataclass(frozen=True, slots=True)
class ActRow(Shaped):
    """An act as the page and its twin show it: `detail` and `reason` are empty where they are hidden."""

    at: datetime
    person: str
    verb: str
    target: str
    target_id: UUID | None
    url: str | None
    detail: dict[str, object]
    reason: str

    @property
    def target_word(self) -> str:
        return WORDS.get(self.target, self.target)


def _row(act: Activity, reader: User, unseen: frozenset[UUID]) -> ActRow:
    sees_all = reader.may(User.Level.ADMIN) and not unseen
    hidden = act.target_kind in ABOUT_ITEMS and act.actor_id != reader.pk and not sees_all
    hidden = hidden or (act.target_kind == "queue" and act.target_id in unseen)
    detail, reason = ({}, "") if hidden else (act.detail, act.reason)
    return ActRow(act.at, act.actor_name, act.verb, act.target_kind, act.target_id, _address(act), detail, reason)


def _address(act: Activity) -> str | None:
    if act.target_id is None or act.target_kind not in PAGES:
        return None
    try:
        return reverse(PAGES[act.target_kind], args=[act.target_id])
    except NoReverseMatch:
        return None


def _list_details(detail: dict[str, object]) -> list[tuple[str, str, str]]:
    """(what, before, after) where both are told, (what, "", value) for the rest."""
    before, after = detail.get("before"), detail.get("after")
    told = []
    if isinstance(before, dict) and isinstance(after, dict):
        told = [(name, _shorten(before.get(name)), _shorten(after.get(name))) for name in after]
        detail = {name: value for name, value in detail.items() if name not in {"before", "after"}}
    return told + [(name, "", _shorten(value)) for name, value in detail.items() if value not in (None, "", [])]


def _shorten(value: object) -> str:
    if value is None or value == "":
        return "unknown"
    text = visible(", ".join(map(str, value)) if isinstance(value, list) else str(value))
    return text if len(text) <= MAX_DETAIL else text[:MAX_DETAIL] + "…"
