"""`/review/versions/<id>/diff/` and `/carry/`: how a version differs from an earlier one, and what that does to a queue."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from typing import NamedTuple
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import redirect
from django.views.decorators.http import require_http_methods, require_safe

from benchapp.models import Code, CodebookVersion, Queue, User
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.review.blinding import asked_elsewhere, still_to_code
from benchapp.review.codebooks.carried_labels import CarryPlan, Fate, carry
from benchapp.review.codebooks.codebook_versions import CodebookRefused
from benchapp.review.codebooks.version_changes import MUST_LOOK, RETIRED, Change, VersionDiff
from benchapp.review.seeing import note_seen
from inspector.pages.review.codebooks.versions_view import count_labels, load_version
from inspector.pages.review.queues.queues import load_queue, may_manage
from inspector.web.access import needs, user_of
from inspector.web.responses import render_page
from inspector.web.text.diff import FileDiff, diff_file

FIELD_TITLES = {"definition": "Definition", "include": "Label it when", "exclude": "Not when"}
CHANGES = {  # kind: (title, where the labels go)
    "split": ("Split", "For each label, a person chooses the part it belongs to."),
    "merged": ("Merged", "Their labels move to the merged code."),
    "redefined": ("Redefined", "Their labels were given under the old wording, so a person checks them."),
    "renamed": ("Renamed", "Their labels move to the new name."),
    "added": ("Added", "They have no labels yet."),
    "retired": ("Retired", "No code takes their place, so a person checks their labels."),
    "kept": ("Kept", "Their labels stay."),
}
CHECKED = {*MUST_LOOK, RETIRED}  # whose labels a reader must look at again
CODE_FATE = JsonShape(
    "code=code.name", "kind=fate.kind", "becomes=fate.code.name", "must_look=fate.must_look", "labels"
)


@dataclass(frozen=True, slots=True)
class ChangeView(Shaped):
    """comparisons: (code before, code after, (number on the page, difference) of each text that differs). to_check: labels
    that a reader must look at again, by queue."""

    change: Change
    comparisons: list[tuple[Code, Code, list[tuple[int, FileDiff]]]]
    to_check: list[tuple[Queue, int]]

    json_shape = JsonShape(
        "kind=change.kind",
        ("before", lambda row: [code.name for code in row.change.before]),
        ("after", lambda row: [code.name for code in row.change.after]),
        ("labels_to_check", lambda row: row.total),
    )

    @property
    def total(self) -> int:
        return sum(total for _, total in self.to_check)


class CodeFate(NamedTuple):
    """Where a code's labels go. `labels`: how many, None while the count is hidden."""

    code: Code
    fate: Fate
    labels: int | None


@require_safe
def version_diff(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    """Against the version that `?from=NUMBER` names, else against the one before."""
    found = load_version(public_id)
    earlier = list(found.codebook.versions.filter(number__lt=found.number).order_by("number"))
    wanted = request.GET.get("from", "")
    old = next((version for version in earlier if str(version.number) == wanted), found.previous)
    numbers = count(1)
    labels, uncounted = count_labels(old, user_of(request)) if old else ({}, [])
    changes = []
    for change in VersionDiff(old, found).changes if old else ():
        checked = change.before if change.kind in CHECKED else ()
        to_check = [row for code in checked for row in labels.get(code.pk, ())]
        changes.append(ChangeView(change, list(_compare_codes(change, numbers)), to_check))
    groups = []
    for kind, (title, says) in CHANGES.items():
        if of_kind := [each for each in changes if each.change.kind == kind]:
            groups.append({"kind": kind, "title": title, "says": says, "changes": of_kind})
    data = {
        "codebook": found.codebook.name,
        "from": old.number if old else None,
        "to": found.number,
        "changes": changes,
        "next": None,
    }
    context = {
        "section": "codebook",
        "version": found,
        "old": old,
        "earlier": earlier,
        "groups": groups,
        "to_check": sum(each.total for each in changes),
        "uncounted": uncounted,
        "checked": CHECKED,
    }
    return render_page(request, "review/codebook_diff.html", data=data, context=context, as_json=as_json)


def _compare_codes(change: Change, numbers: Iterator[int]) -> Iterator[tuple[Code, Code, list[tuple[int, FileDiff]]]]:
    """Every old code next to every new one it became, where they say something different."""
    for before in change.before:
        for after in change.after:
            texts = [(title, getattr(before, name), getattr(after, name)) for name, title in FIELD_TITLES.items()]
            diffs = [
                (next(numbers), diff_file(title, _as_lines(old), _as_lines(new)))
                for title, old, new in texts
                if old != new
            ]
            if diffs:
                yield before, after, diffs


def _as_lines(text: str) -> bytes:
    return f"{text}\n".encode() if text else b""


@require_http_methods(["GET", "HEAD", "POST"])
@needs(User.Level.REVIEWER, to_change=True)
def version_carry(request: HttpRequest, public_id: UUID, queue_id: UUID, *, as_json: bool = False) -> HttpResponse:
    """What carrying this queue over would do; sent, it does it. The queue's maker and admins may."""
    found = load_version(public_id)
    queue = load_queue(queue_id)
    if request.method == "POST":
        return _carry(request, queue, found)
    try:
        plan = CarryPlan(queue, found)
    except CodebookRefused as refusal:
        raise Http404(str(refusal)) from refusal
    return _carry_page(request, plan, as_json=as_json)


def _carry(request: HttpRequest, queue: Queue, found: CodebookVersion) -> HttpResponse:
    if not may_manage(queue, user_of(request)):
        raise PermissionDenied(
            "Only the person who made the queue, or an admin, can carry it over: that closes the queue."
        )
    try:
        made = carry(queue, found, user_of(request))
    except CodebookRefused as refusal:
        messages.error(request, str(refusal))
        return redirect(queue)
    messages.success(request, f"“{queue.name}” was carried over to {found} and closed.")
    return redirect(made)


def _carry_page(request: HttpRequest, plan: CarryPlan, *, as_json: bool) -> HttpResponse:
    user = user_of(request)
    # No counts for anyone who still codes unseen by others: a draft that splits one code would show who gave that code.
    may_count = not still_to_code([plan.queue], user) and not asked_elsewhere([plan.queue], user)
    if may_count:
        note_seen(user, plan.queue)
    counts = plan.counts if may_count else None
    rows = sorted(plan.by_code(), key=lambda row: (not row[1].must_look, row[1].kind == "kept"))  # to look at first
    by_code = [CodeFate(code, fate, total if may_count else None) for code, fate, total in rows]
    data = {
        "queue": plan.queue.public_id,
        "from": plan.queue.version.number,
        "to": plan.version.number,
        "counts": counts,
        "codes": CODE_FATE.read_all(by_code),
        "next": None,
    }
    context = {
        "section": "codebook",
        "plan": plan,
        "counts": counts,
        "by_code": by_code,
        "carried": plan.queue.carried_to.filter(version=plan.version).first(),
        "may_carry": may_manage(plan.queue, user),
    }
    return render_page(request, "review/codebook_carry.html", data=data, context=context, as_json=as_json)
