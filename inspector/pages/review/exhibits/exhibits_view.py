"""`/review/items/<id>/field/`: pieces of texts that the coding screen folded, as masked as the screen itself."""

from __future__ import annotations

from uuid import UUID

from django import forms
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import render
from django.urls import reverse
from django.views.decorators.http import require_safe

from benchapp.review.blinding import hidden_in
from benchapp.review.coding.anchors import ItemEvidence
from inspector.pages.review.exhibits.exhibit import gap_address, load_item
from inspector.pages.review.exhibits.exhibited_trial import ShownFields
from inspector.web.access import user_of
from inspector.web.responses import read_htmx
from inspector.web.subject import item_closed_to

PIECE_CHARS = 64_000  # of one field in one answer
KINDS = {"tool_calls": "call", "observations": "result"}


class PieceForm(forms.Form):
    """A piece of a field: offsets in characters of the text as shown."""

    trajectory = forms.IntegerField(required=False, min_value=0, max_value=10_000)
    step = forms.IntegerField(min_value=1, max_value=2**31 - 1)
    field = forms.RegexField(r"\A(message|reasoning|tool_calls/\d{1,6}|observations/\d{1,6})\Z")
    start = forms.IntegerField(required=False, min_value=0, max_value=2**40)
    end = forms.IntegerField(required=False, min_value=0, max_value=2**40)


@require_safe
def field(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """A bounded piece as HTML for htmx, all that was asked for as plain text without it. 404 where the item shows no such field."""
    item = load_item(public_id)
    if closed := item_closed_to(request, item):
        return closed
    form = PieceForm(request.GET)
    if not form.is_valid() or item.trial is None:
        raise Http404("no such piece")
    asked = form.cleaned_data
    index, start = asked["trajectory"] or 0, asked["start"] or 0
    trajectories = ItemEvidence(item).trajectories
    if index >= len(trajectories):
        raise Http404("no such trajectory")
    fields = ShownFields(item, hidden_in(item, user_of(request)))(trajectories[index], asked["step"])
    if asked["field"] not in fields:
        raise Http404("no such field")
    found = fields[asked["field"]].text[start : asked["end"]]
    if not read_htmx(request):
        return HttpResponse(found, "text/plain; charset=utf-8")
    left = max(0, len(found) - PIECE_CHARS)
    base = reverse("review-field", args=[public_id])
    more = gap_address(base, index, asked["step"], asked["field"], start + PIECE_CHARS, asked["end"]) if left else ""
    context = {
        "field": asked["field"],
        "kind": KINDS.get(asked["field"].partition("/")[0], asked["field"]),
        "piece": found[:PIECE_CHARS],
        "start": start,
        "left_out": left,
        "address": more,
    }
    return render(request, "review/_exhibit_piece.html", context)
