"""`/activity/`: who did what to the record, when and why. Newest first; nothing in it can be changed."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import date
from itertools import groupby
from uuid import UUID

from django.db.models import Q
from django.http import HttpRequest, HttpResponse
from django.urls import NoReverseMatch, reverse

from benchapp.models import Activity, QueueItem, User
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.record.visible import visible
from benchapp.review.blinding import open_to, same_unit
from benchapp.review.seeing import note_items_seen
from inspector.pages.people.act_words import THINGS, name_kind, read_names, say_act, say_thing, say_verb
from inspector.web.access import user_of
from inspector.web.responses import paginate, render_page

PER_PAGE = 50
SEEN = "labels.seen"  # recorded by a look at a page
JOIN = "join"  # recorded once for each experiment that goes into another
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
COMMENTED = {"step": "a step", "line": "a line of a library", "chart": "a chart"}
SAID_ALREADY = frozenset({"name", "account", "on", "reviewer"})  # details that the sentence holds
# What somebody wrote about an item is shown with the item, where blindness is kept; the log shows only that they did.
# The same holds for how a queue was drawn and how far its reviewers agree, while the reader still answers items of it
# unseen.
ABOUT_ITEMS = frozenset({"queueitem", "review", "resolution", "suggestion", "judgecall"})

Names = Mapping[tuple[str, UUID], tuple[str, UUID | None]]

_ID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-|[0-9a-f]{40}")


def activity(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    chosen = {name: request.GET.get(name, "")[:200] for name in ("person", "verb", "target")}
    lookups = {"person": "actor_name", "verb": "verb", "target": "target_kind"}
    acts_of = Activity.objects.filter(**{lookups[name]: value for name, value in chosen.items() if value})
    if not as_json and not chosen["verb"]:  # looking at a page is not an act; it would hide those that are
        acts_of = acts_of.exclude(verb=SEEN)
    page = paginate(request, acts_of, per_page=PER_PAGE)
    reader = user_of(request)
    unseen = _unseen_queues(reader)
    acts = [ActRow(act, reader, unseen) for act in page]
    explained = {act.target_id for act in acts if act.detail or act.reason}
    note_items_seen(reader, QueueItem.objects.filter(public_id__in=explained, resolutions__isnull=False).distinct())
    data = {"acts": acts, "filter": chosen}
    context = {
        "lines": _tell_acts(acts),
        "people": _values("actor_name"),
        "reads": SEEN if Activity.objects.filter(verb=SEEN).exists() else "",
        "verbs": [(verb, say_verb(verb)) for verb in _values("verb")],
        "targets": [(kind, name_kind(kind)) for kind in _values("target_kind")],
    }
    return render_page(request, "people/activity.html", data=data, context=context, page=page, as_json=as_json)


def _values(field: str) -> list[str]:
    return list(Activity.objects.order_by(field).values_list(field, flat=True).distinct()[:200])


def _unseen_queues(reader: User) -> frozenset[UUID]:
    """Return public ids of the queues that hide something from the reader, directly or through another queue.
    One query."""
    hides = Q(pk__in=[])
    for name in ("conditions", "models", "labels", "suggestions"):
        hides |= Q(**{f"queue__hides_{name}": True})
    same = QueueItem.objects.filter(same_unit(open_to(reader).filter(hides).order_by()))
    return frozenset(same.order_by().values_list("queue__public_id", flat=True).distinct())


class ActRow(Shaped):
    """An act as the page and its twin show it: `detail` and `reason` are empty where they are hidden."""

    json_shape = JsonShape("at person verb target target_id url detail reason")

    def __init__(self, act: Activity, reader: User, unseen: frozenset[UUID]) -> None:
        self.at, self.person, self.verb = act.at, act.actor_name, act.verb
        self.target, self.target_id, self.url = act.target_kind, act.target_id, _address(act)
        sees_all = reader.may(User.Level.ADMIN) and not unseen
        hidden = act.target_kind in ABOUT_ITEMS and act.actor_id != reader.pk and not sees_all
        hidden = hidden or (act.target_kind == "queue" and act.target_id in unseen)
        self.detail: dict[str, object] = {} if hidden else act.detail
        self.reason = "" if hidden else act.reason


class ActLine:
    """An act as a sentence, or neighbouring ones that read the same: person, `words`, name. `details`: what changed.
    `things`: what was acted on, fewer than the acts where one was acted on again. `url`: the page of what is named."""

    def __init__(self, acts: Sequence[ActRow], name: str, names: Names) -> None:
        self.act, self.name, self.count = acts[0], name, len(acts)
        did, kind = say_act(self.act.verb, self.act.detail), self.act.target
        self.things = len({act.target_id or place for place, act in enumerate(acts)})  # one may be acted on again
        invites = kind == "invitation" and name  # "invited mira", not "invited the invitation mira"
        self.words = did if invites else f"{did} {say_thing(kind, is_named=bool(name), count=self.things)}"
        if self.act.verb == JOIN:
            self.words = f"{did} {say_thing(kind, is_named=False, count=self.things)} into"
        self.url = _link_name(self.act, self.things, names)
        self.details = [details for act in acts if (details := _list_details(act.detail))]

    @property
    def often(self) -> str:
        """Count the acts behind it in words; empty where its sentence has counted them."""
        if self.things > 1 and f" {self.things} " in self.words:
            return "" if self.things == self.count else f"in {self.count} acts"
        return f"{self.count} times" if self.count > 1 else ""


def _tell_acts(acts: Sequence[ActRow]) -> list[ActLine]:
    names = read_names((act.target, act.target_id) for act in acts)

    def read(act: ActRow) -> tuple[date, str, str, str, str, str]:
        did = say_act(act.verb, act.detail)
        return act.at.date(), act.person, did, act.target, _name_target(act, names), act.reason

    return [ActLine(list(same), name, names) for (*_, name, _), same in groupby(acts, key=read)]


def _name_target(act: ActRow, names: Names) -> str:
    if act.verb == JOIN and isinstance(after := act.detail.get("after"), dict):
        return str(after.get("experiment", ""))
    if act.target_id and (found := names.get((act.target, act.target_id))):
        return found[0]
    return str(act.detail.get("name") or act.detail.get("account") or COMMENTED.get(str(act.detail.get("on")), ""))


def _link_name(act: ActRow, things: int, names: Names) -> str | None:
    """Return the page of the one thing acted on, or of what holds it. None for a joined experiment."""
    if act.verb == JOIN:
        return None
    if act.url and things == 1:
        return act.url
    thing, found = THINGS.get(act.target), names.get((act.target, act.target_id)) if act.target_id else None
    return reverse(PAGES[thing.parent[0]], args=[found[1]]) if thing and thing.parent and found and found[1] else None


def _address(act: Activity) -> str | None:
    if act.target_id is None or act.target_kind not in PAGES:
        return None
    try:
        return reverse(PAGES[act.target_kind], args=[act.target_id])
    except NoReverseMatch:
        return None


def _list_details(detail: dict[str, object]) -> list[tuple[str, str, str]]:
    """Return (what, before, after) if both are known, else (what, "", value).
    Ids and digests are for the twin only."""
    before, after = detail.get("before"), detail.get("after")
    details = []
    if isinstance(before, dict) and isinstance(after, dict):
        details = [(_unjoin(name), _shorten(before.get(name)), _shorten(after.get(name))) for name in after]
        detail = {name: value for name, value in detail.items() if name not in {"before", "after"}}
    rest = {name: value for name, value in detail.items() if name not in SAID_ALREADY and value not in (None, "", [])}
    for name, value in rest.items():
        details += _flatten(_unjoin(name), value)
    return details


def _flatten(name: str, value: object) -> list[tuple[str, str, str]]:
    """Return an object's members one by one, a change in it as before and after."""
    if not isinstance(value, dict):
        return [] if _ID.match(str(value)) else [(name, "", _shorten(value))]
    if value.keys() == {"before", "after"}:
        return [(name, _shorten(value["before"]), _shorten(value["after"]))]
    return [part for key, inner in value.items() for part in _flatten(f"{name}, {_unjoin(str(key))}", inner)]


def _unjoin(name: str) -> str:
    return name.replace("_", " ")


def _shorten(value: object) -> str:
    if value is None or value == "":
        return "unknown"
    text = visible(", ".join(map(str, value)) if isinstance(value, list) else str(value))
    return text if len(text) <= MAX_DETAIL else text[:MAX_DETAIL] + "…"
