"""`/review/items/<id>/resolve/`: the reviews of one item side by side, its evidence, and the adjudicator's answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable
from uuid import UUID

from django import forms
from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, QueryDict
from django.urls import reverse

from benchapp.models import Attribution, Code, Mark, QueueItem, Resolution, Review, User
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.record.visible import visible
from benchapp.review.blinding import hidden_in
from benchapp.review.codebooks.hierarchy import in_order, keys_of
from benchapp.review.coding.disagreements import (
    DISAGREED,
    MAX_MEMO,
    AdjudicatorVerdict,
    Superseded,
    Unresolvable,
    after,
    code_names,
    compared_items,
    count_open,
    explain_barred,
    resolve,
)
from benchapp.review.coding.queue_agreement import attribution_of, was_opened
from benchapp.review.queues.passes import NONE_MOUNTED, judging_skills, lacks_skills
from inspector.pages.review.exhibits.exhibit import Exhibit, load_item
from inspector.pages.review.queues.queues import open_queue
from inspector.pages.review.results.agreement_view import parse_wanted, query_of
from inspector.web.access import needs, user_of
from inspector.web.responses import PageLink, render_page
from inspector.web.subject import item_closed_to
from runner.base.text import plural

FIRST_REVIEW = 3  # its key; 1 and 2 start from all codes and from the shared ones
LAST_KEY = 9
MAX_QUOTE = 400
RESOLUTION = JsonShape(
    "id=public_id adjudicator=adjudicator.pseudonym category",
    ("codes", lambda resolution: sorted(code.name for code in resolution.codes.all())),
    "attribution resolved_at superseded_at",
)


class ResolveForm(forms.Form):
    """What the page sends. `seen`: the resolution that was current when it was opened, empty for none."""

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
        """Return what was sent, valid or not."""
        return AdjudicatorVerdict(
            codes=frozenset(UUID(key) for key in self.sent.getlist("codes") if key in self.codes),
            category=self.sent.get("category", ""),
            attribution=self.sent.get("attribution", ""),
            memo=self.sent.get("memo", "").strip(),
            nothing_wrong="nothing_wrong" in self.sent,
        )


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
    if request.method != "POST":
        return _page(request, item, as_json=as_json)
    form = ResolveForm(item, request.POST)
    if not form.is_valid():
        problems = [str(error) for errors in form.errors.values() for error in errors]
        return _page(request, item, sent=form.verdict(), problems=problems, status=400)
    try:
        resolve(item, user_of(request), form.verdict(), seen=form.cleaned_data["seen"])
    except Unresolvable as error:
        return _page(request, item, sent=form.verdict(), problems=error.problems, status=400)
    except Superseded as error:
        return _page(request, item, sent=form.verdict(), problems=[str(error)], status=409)
    following, query, left = _find_following(request, item)
    still = f"{plural(left, 'disagreement')} still open." if left else "No disagreement is open."
    messages.success(request, f"Item {item.ordinal + 1} is settled. {still}")
    if following:
        return HttpResponseRedirect(f"{following}#main")  # else the browser keeps the step of this one
    return HttpResponseRedirect(f"{reverse('disagreements', args=[item.queue.public_id])}{f'?{query}' if left else ''}")


def _find_following(request: HttpRequest, item: QueueItem) -> tuple[str, str, int]:
    """Return (address of the next open item in the list that this address names, or "", query of that list, open
    disagreements of the whole queue)."""
    codes = code_names(item.queue)
    wanted, _ = parse_wanted(request, codes)
    query = query_of(wanted, codes)
    rows = compared_items(item.queue)
    following = after([each for each in rows if wanted.takes(each)], item.ordinal)
    address = f"{reverse('resolve', args=[following.item.public_id])}?{query}" if following else ""
    return address, query, count_open(rows)


def _page(
    request: HttpRequest,
    item: QueueItem,
    *,
    as_json: bool = False,
    sent: AdjudicatorVerdict | None = None,
    problems: Collection[str] = (),
    status: int = 200,
) -> HttpResponse:
    opened = was_opened(item.queue)
    made = list(item.resolutions.select_related("adjudicator").prefetch_related("codes")) if opened else []
    current = next((each for each in made if each.superseded_at is None), None)
    if current is not None and sent is None:
        codes = frozenset(code.public_id for code in current.codes.all())
        sent = AdjudicatorVerdict(codes, current.category, current.attribution, current.memo, nothing_wrong=not codes)
    sheet = _read_sheet(item, sent) if opened else {"reviews": []}
    reason = explain_barred(item, user_of(request))
    data = {
        "item": item.public_id,
        "number": item.ordinal + 1,
        "queue": item.queue.public_id,
        "opened": opened,
        "may_resolve": not reason,
        "barred": reason,
        "reviews": sheet["reviews"],
        "resolutions": RESOLUTION.read_all(made),
        "queue_url": PageLink("disagreements-json", item.queue.public_id),
    }
    if as_json:
        return render_page(request, "", data=data, as_json=True, status=status)
    following, query, left = _find_following(request, item)
    shown = request.GET.dict()
    disputed = sheet.get("disputed_step")
    if disputed is not None and not shown.keys() & {"step", "first", "trajectory"}:
        shown["step"] = str(disputed)
    context = {
        "queue_row": item.queue,
        "exhibit": Exhibit(item, user_of(request), shown),
        "sheet": sheet,
        "current": current,
        "superseded": [each for each in made if each is not current],
        "problems": problems,
        "following": following,
        "left": left,
        "query": query,
    }
    return render_page(request, "review/resolve.html", data=data, context=context, status=status)


# --- what is next to the evidence -----------------------------------------------------------------------------------


class ReviewView(Shaped):
    """One review. own: names of codes that not all reviews of the item have. start: public ids of its codes, as the
    form takes them."""

    json_shape = JsonShape("reviewer=review.reviewer.pseudonym codes", ("marks", lambda view: len(view.marks)))

    def __init__(self, review: Review, codes: frozenset[Code], shared: frozenset[Code], key: str) -> None:
        self.review, self.key, self.start = review, key, _join_ids(codes)
        self.codes = [code.name for code in sorted(codes, key=lambda code: (code.ordinal, code.pk))]
        self.own = frozenset(code.name for code in codes - shared)
        self.marks = [_read_mark(mark) for mark in review.marks.all()]


def _read_sheet(item: QueueItem, filled: AdjudicatorVerdict | None) -> dict[str, object]:
    """Return the reviews with their marks and labels, and what may be chosen, in five queries. all_codes,
    shared_codes: public ids to start from. disputed_step: the first with a code that not all reviews gave, where the
    evidence opens."""
    reviews = item.reviews.exclude(state=Review.State.DRAFT).select_related("reviewer").order_by("reviewer")
    final = list(reviews.prefetch_related("marks__labels__code"))
    submitted = [review for review in final if review.state == Review.State.SUBMITTED]
    sets = {
        review.pk: frozenset(label.code for mark in review.marks.all() for label in mark.labels.all())
        for review in submitted
    }
    shared = frozenset.intersection(*sets.values()) if sets else frozenset()
    every: frozenset[Code] = frozenset().union(*sets.values())
    # the attribution where all reviews blame the same; empty where they do not, or where one is silent
    blamed = {attribution_of(review.marks.all()) or "" for review in submitted}
    if filled is None:
        filled = AdjudicatorVerdict(
            frozenset(code.public_id for code in shared),
            attribution=next(iter(blamed)) if len(blamed) == 1 else "",
            nothing_wrong=bool(sets) and not every,
        )
    steps = (
        mark.step
        for review in submitted
        for mark in review.marks.all()
        if mark.step is not None and any(label.code not in shared for label in mark.labels.all())
    )
    return {
        "reviews": [
            ReviewView(review, sets[review.pk], shared, str(key) if key <= LAST_KEY else "")
            for key, review in enumerate(submitted, start=FIRST_REVIEW)
        ],
        "skipped": [review for review in final if review.state == Review.State.SKIPPED],
        "codes": _list_codes(item, sets.values(), filled),
        "attributions": _list_attributions(submitted, filled),
        "all_blame_it": blamed == {filled.attribution},
        "first_mistakes": any(mark.is_first_failure for review in submitted for mark in review.marks.all()),
        "categories": _list_categories(filled, are_split=len(set(sets.values())) > 1),
        "all_codes": _join_ids(every),
        "shared_codes": _join_ids(shared),
        "disputed_step": min(steps, default=None),
        "memo": filled.memo,
        "nothing_wrong": filled.nothing_wrong,
    }


def _join_ids(codes: Iterable[Code]) -> str:
    return " ".join(sorted(str(code.public_id) for code in codes))


def _read_mark(mark: Mark) -> dict[str, object]:
    """Return a mark as the page shows it. query: of the page of the evidence that shows it."""
    place = f"step {mark.step}" if mark.step is not None else visible(mark.path)
    if mark.path and mark.start:
        place = f"{place}, line {mark.start}"
    return {
        "codes": [label.code.name for label in mark.labels.all()],
        "attribution": dict(Attribution.choices).get(mark.attribution, ""),
        "query": f"step={mark.step}#step-{mark.step}" if mark.step is not None else "",
        "place": place or "the whole item",
        "quote": visible(mark.quote[:MAX_QUOTE]) + ("…" if len(mark.quote) > MAX_QUOTE else ""),
        "memo": visible(mark.memo),
        "is_first": mark.is_first_failure,
    }


def _list_codes(
    item: QueueItem, sets: Collection[frozenset[Code]], filled: AdjudicatorVerdict
) -> list[dict[str, object]]:
    """List the codes. `uses`: number of reviews that use one. `barred`: why the server would refuse it."""
    counts = Counter(code.pk for codes in sets for code in codes)
    keys, ordered = keys_of(item.queue.version), in_order(item.queue.version.codes.all())
    parents = {code.parent_id for code, _ in ordered}
    barred = judging_skills(code for code, _ in ordered) if lacks_skills(item) else frozenset()
    return [
        {
            "value": str(code.public_id),
            "text": code.name,
            "key": keys[code.pk],
            "is_chosen": code.public_id in filled.codes,
            "depth": depth,
            "uses": counts[code.pk],
            "about": code.definition,
            "include": code.include,
            "exclude": code.exclude,
            "is_group": code.pk in parents,
            "barred": f"Not here: {NONE_MOUNTED}." if code.pk in barred else "",
        }
        for code, depth in ordered
    ]


def _list_attributions(reviews: list[Review], filled: AdjudicatorVerdict) -> list[dict[str, object]]:
    counts = Counter(
        each for review in reviews for each in {mark.attribution for mark in review.marks.all() if mark.attribution}
    )
    return [
        {"value": value, "text": text, "key": key, "is_chosen": value == filled.attribution, "uses": counts[value]}
        for key, (value, text) in enumerate([*Attribution.choices, ("", "not given")], start=1)
    ]


def _list_categories(filled: AdjudicatorVerdict, *, are_split: bool) -> list[dict[str, object]]:
    barred = {Resolution.Category.AGREED.value: DISAGREED} if are_split else {}
    return [
        {
            "value": value,
            "text": text,
            "key": key,
            "is_chosen": value == filled.category,
            "barred": barred.get(value, ""),
        }
        for key, (value, text) in enumerate(Resolution.Category.choices, start=1)
    ]
