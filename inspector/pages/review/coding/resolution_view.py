"""`/review/items/<id>/resolve/`: the reviews of one item side by side, its evidence, and the adjudicator's answer."""

from __future__ import annotations

from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import reverse
from django.views.decorators.http import require_http_methods

from benchapp.models import Attribution, QueueItem, Resolution, User
from benchapp.record.json_shape import JsonShape
from benchapp.review.blinding import hidden_in
from benchapp.review.coding.disagreements import Compared, after, code_names, compared_items, count_open
from benchapp.review.coding.queue_agreement import was_opened
from benchapp.review.coding.resolutions import (
    MAX_MEMO,
    AdjudicatorVerdict,
    Superseded,
    Unresolvable,
    explain_barred,
    resolve,
)
from inspector.pages.review.coding.resolution import Filled, read_standing, sheet_of
from inspector.pages.review.exhibits.exhibit import exhibit_of, load_item
from inspector.pages.review.results.agreement_view import open_queue, parse_wanted, query_of
from inspector.web.access import needs, user_of
from inspector.web.closed_pages import item_closed_to
from inspector.web.responses import PageLink, render_page

RESOLUTION = JsonShape(
    *("id=public_id", "adjudicator=adjudicator.pseudonym", "category"),
    ("codes", lambda resolution: sorted(code.name for code in resolution.codes.all())),
    *("attribution", "resolved_at", "superseded_at"),
)


class ResolveForm(forms.Form):
    """What the page sends. `seen`: the resolution that stood when it was opened, empty for none."""

    category = forms.ChoiceField(
        choices=Resolution.Category.choices, error_messages={"required": "Choose why they differ."}
    )
    attribution = forms.ChoiceField(required=False, choices=[("", ""), *Attribution.choices])
    memo = forms.CharField(required=False, max_length=MAX_MEMO)
    nothing_wrong = forms.BooleanField(required=False)
    seen = forms.UUIDField(required=False)

    def __init__(self, item: QueueItem, sent: QueryDict) -> None:
        super().__init__(sent)
        self.sent = sent
        codes = item.queue.version.codes.values_list("public_id", "name")
        self.codes = {str(key): name for key, name in codes}
        self.fields["codes"] = forms.TypedMultipleChoiceField(required=False, coerce=UUID, choices=self.codes.items())
        self.order_fields(["codes"])

    def verdict(self) -> AdjudicatorVerdict:
        said = self.cleaned_data
        names = ("category", "attribution", "memo", "nothing_wrong")
        return AdjudicatorVerdict(frozenset(said["codes"]), *(said[name] for name in names))

    def read_sent(self) -> Filled:
        """What was sent, also where it cannot stand."""
        codes = frozenset(UUID(key) for key in self.sent.getlist("codes") if key in self.codes)
        category, attribution, memo = (self.sent.get(name, "") for name in ("category", "attribution", "memo"))
        return Filled(codes, category, attribution, memo, nothing_wrong="nothing_wrong" in self.sent)

    def list_problems(self) -> list[str]:
        return [str(error) for errors in self.errors.values() for error in errors]


@require_http_methods(["GET", "HEAD", "POST"])
@needs(User.Level.REVIEWER, to_change=True)
def resolution(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    item = load_item(public_id)
    item.queue = open_queue(request, item.queue.public_id)
    if closed := item_closed_to(request, item, as_json=as_json):
        return closed
    if hidden_in(item, user_of(request)).labels:
        raise PermissionDenied("Code this item first. Until then, the other reviews are hidden.")
    if not was_opened(item.queue) and not as_json:
        return HttpResponseRedirect(reverse("disagreements", args=[item.queue.public_id]))
    if request.method == "POST":
        return _answer(request, public_id=public_id, item=item)
    return _page(request, item, as_json=as_json)


def _answer(request: HttpRequest, *, public_id: UUID, item: QueueItem) -> HttpResponse:
    form = ResolveForm(item, request.POST)
    if not form.is_valid():
        return _page(request, item, sent=form.read_sent(), problems=form.list_problems(), status=400)
    try:
        resolve(item, user_of(request), form.verdict(), seen=form.cleaned_data["seen"])
    except Unresolvable as error:
        return _page(request, item, sent=form.read_sent(), problems=error.problems, status=400)
    except Superseded as error:
        return _page(request, item, sent=form.read_sent(), problems=[str(error)], status=409)
    following, query, left = _following(request, item)
    messages.success(request, f"Item {item.ordinal + 1} is settled. {_say_open(left)}")
    if following is not None:
        return HttpResponseRedirect(f"{_address(following, query)}#main")  # else the browser keeps the step of this one
    return HttpResponseRedirect(f"{reverse('disagreements', args=[item.queue.public_id])}?{query}")


def _following(request: HttpRequest, item: QueueItem) -> tuple[Compared | None, str, int]:
    """(the next undecided one of the list the address names, that list's query, open disputes of the whole queue)."""
    codes = code_names(item.queue)
    wanted, _ = parse_wanted(request, codes)
    rows = compared_items(item.queue)
    listed = [each for each in rows if wanted.takes(each)]
    return after(listed, item.ordinal), query_of(wanted, codes), count_open(rows)


def _say_open(count: int) -> str:
    return f"{count} disagreement{'' if count == 1 else 's'} still open." if count else "No disagreement is open."


def _address(compared: Compared, query: str) -> str:
    return f"{reverse('resolve', args=[compared.item.public_id])}?{query}"


def _page(
    request: HttpRequest,
    item: QueueItem,
    *,
    as_json: bool = False,
    sent: Filled | None = None,
    problems: list[str] | None = None,
    status: int = 200,
) -> HttpResponse:
    opened = was_opened(item.queue)
    made = list(item.resolutions.select_related("adjudicator").prefetch_related("codes")) if opened else []
    standing = next((each for each in made if each.superseded_at is None), None)
    sheet = sheet_of(item, sent or read_standing(standing)) if opened else None
    reason = explain_barred(item, user_of(request))
    data = {
        "item": item.public_id,
        "number": item.ordinal + 1,
        "queue": item.queue.public_id,
        "opened": opened,
        "may_resolve": not reason,
        "barred": reason,
        "reviews": sheet.reviews if sheet else [],
        "resolutions": RESOLUTION.read_all(made),
        "queue_url": PageLink("disagreements-json", item.queue.public_id),
        "next": None,
    }
    if as_json:
        return render_page(request, "", data=data, as_json=True, status=status)
    following, query, left = _following(request, item)
    shown = request.GET.dict()
    if sheet and sheet.disputed_step is not None and not shown.keys() & {"step", "first", "trajectory"}:
        shown["step"] = str(sheet.disputed_step)
    context = {
        "item_row": item,
        "queue_row": item.queue,
        "exhibit": exhibit_of(item, user_of(request), shown),
        "sheet": sheet,
        "standing": standing,
        "superseded": [each for each in made if each is not standing],
        "problems": problems or [],
        "following": _address(following, query) if following else "",
        "left": left,
        "query": query,
    }
    return render_page(request, "review/resolve.html", data=data, context=context, as_json=False, status=status)
