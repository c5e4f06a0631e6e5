"""`/review/versions/<id>/`: the codes of one version, changed while it is a draft; its differences, file and queues."""

from __future__ import annotations

from typing import NamedTuple
from uuid import UUID

from django.contrib import messages
from django.core.exceptions import PermissionDenied
from django.http import Http404, HttpRequest, HttpResponse
from django.shortcuts import get_object_or_404, redirect
from django.views.decorators.http import require_http_methods, require_POST, require_safe

from benchapp.models import Code, Codebook, CodebookVersion, CodeExample, Queue, User
from benchapp.record.json_shape import JsonShape
from benchapp.review.codebooks.carried_labels import CarryPlan, Fate, carry
from benchapp.review.codebooks.codebook_file import write_codebook
from benchapp.review.codebooks.codebook_versions import CodebookRefused, clone, discard, freeze, text_of
from benchapp.review.codebooks.examples import hidden_examples, note_examples_seen
from benchapp.review.codebooks.version_changes import VersionDiff
from benchapp.review.review_access import asked_elsewhere, still_to_code
from benchapp.review.seeing import note_seen
from inspector.pages.review.codebooks.code_forms import ACTS, MIN_PARTS, AddForm, CodeForm, SplitForm
from inspector.pages.review.codebooks.codebooks import change_groups, code_rows, counted_queues
from inspector.pages.review.queues.queue_selection import kept_filter
from inspector.pages.review.queues.queues import load_queue, may_manage
from inspector.web.access import needs, user_of
from inspector.web.responses import PageLink, render_page

VERSION = JsonShape("id=public_id", "codebook=codebook.name", "number", "frozen_at", "digest?", "note")
CODE_FATE = JsonShape(
    "code=code.name", "kind=fate.kind", "becomes=fate.code.name", "must_look=fate.must_look", "labels"
)
CONTENT_TYPES = {"yaml": "application/yaml", "json": "application/json"}


class CodeFate(NamedTuple):
    """What becomes of a code's labels. `labels` is None where their count is hidden."""

    code: Code
    fate: Fate
    labels: int | None


@require_safe
def version(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    """`?code=ID&do=ACT` opens the form of an act on one code of a draft."""
    return version_page(request, version_of(public_id), as_json=as_json)


def version_of(public_id: UUID) -> CodebookVersion:
    versions = CodebookVersion.objects.select_related("codebook", "previous", "frozen_by", "created_by")
    return get_object_or_404(versions, public_id=public_id)


def version_page(
    request: HttpRequest,
    found: CodebookVersion,
    *,
    as_json: bool = False,
    form: CodeForm | None = None,
    refusal: str = "",
    note: str = "",
    status: int = 200,
) -> HttpResponse:
    """`form`, `refusal`, `note`: what somebody sent and why it was not done, so that nothing typed is lost."""
    queues = list(found.queues.all())
    counted = counted_queues(found, user_of(request)) if queues else set()
    rows = code_rows(found, user_of(request), counted)
    shown = [each.example for row in rows for each in row.examples]
    note_examples_seen(user_of(request), shown)
    data = {**VERSION.read(found), "codes": rows, "url": PageLink("codebook-version", found.public_id), "next": None}
    siblings = list(found.codebook.versions.order_by("number"))
    form = form or _form(request, found, [row.code for row in rows])
    context = {
        "section": "codebook",
        "version": found,
        "rows": rows,
        "judging": sum(row.judges_skills for row in rows),
        "kept_queue": kept_filter(request),
        "has_frozen": found.is_frozen or any(each.is_frozen for each in siblings),
        "form": form,
        "act": next((key for key, kind in ACTS.items() if isinstance(form, kind)), "add"),
        "acts": [(key, kind.title) for key, kind in ACTS.items()],
        "refusal": refusal,
        "freeze_note": note,
        "siblings": siblings,
        "queues": queues,
        "uncounted": [queue for queue in queues if queue.pk not in counted],
        "carriable": _carriable(found) if found.is_frozen else [],
        "hidden_total": sum(row.examples_hidden for row in rows),
        "labels_total": sum(row.labels or 0 for row in rows),
    }
    return render_page(
        request, "review/codebook_version.html", data=data, context=context, as_json=as_json, status=status
    )


def _form(request: HttpRequest, found: CodebookVersion, codes: list[Code]) -> CodeForm | None:
    """The form that `?code=&do=` asks for; the one that adds a code where they say nothing that is there."""
    if found.is_frozen:
        return None
    wanted = request.GET.get("code", "")
    code = next((code for code in codes if str(code.public_id) == wanted), None)
    if code is None:
        return AddForm(found)
    kind = ACTS.get(request.GET.get("do", "edit"), ACTS["edit"])
    if kind is SplitForm:
        parts = request.GET.get("parts", "")
        return SplitForm(code, parts=int(parts) if parts.isascii() and parts.isdecimal() else MIN_PARTS)
    return kind(code)


def _carriable(found: CodebookVersion) -> list[Queue]:
    """Queues of earlier versions that nobody carried over to this one yet."""
    earlier = Queue.objects.filter(version__codebook=found.codebook, version__number__lt=found.number)
    return list(earlier.exclude(carried_to__version=found).select_related("version__codebook"))


# --- acts on the whole version ------------------------------------------------------------------------------------------


@require_POST
@needs(User.Level.REVIEWER)
def version_freeze(request: HttpRequest, public_id: UUID) -> HttpResponse:
    found, note = version_of(public_id), request.POST.get("note", "")
    try:
        freeze(found, user_of(request), note)
    except CodebookRefused as refusal:
        return version_page(request, found, refusal=str(refusal), note=note, status=422)
    messages.success(request, f"Version {found.number} is frozen. Queues can use it from now on.")
    return redirect(found)


@require_POST
@needs(User.Level.REVIEWER)
def version_discard(request: HttpRequest, public_id: UUID) -> HttpResponse:
    found = version_of(public_id)
    try:
        discard(found, user_of(request))
    except CodebookRefused as refusal:
        return version_page(request, found, refusal=str(refusal), status=422)
    messages.success(request, f"The draft of version {found.number} was discarded.")
    codebook = Codebook.objects.filter(public_id=found.codebook.public_id).first()
    return redirect(codebook or "codebooks")


@require_POST
@needs(User.Level.REVIEWER)
def version_clone(request: HttpRequest, public_id: UUID) -> HttpResponse:
    found = version_of(public_id)
    try:
        made = clone(found, user_of(request), name=request.POST.get("name", ""))
    except CodebookRefused as refusal:
        return version_page(request, found, refusal=str(refusal), status=422)
    messages.success(request, f"“{made.name}” starts with the codes of {found}.")
    return redirect(made.versions.get())


@require_safe
def version_export(request: HttpRequest, public_id: UUID, form: str) -> HttpResponse:
    """The file that a new codebook can be begun with. Examples that this person must not see yet are left out."""
    if form not in CONTENT_TYPES:
        raise Http404(f"There are {', '.join(CONTENT_TYPES)}.")
    found = version_of(public_id)
    examples = CodeExample.objects.filter(code__version=found)
    hidden = hidden_examples(user_of(request), examples)
    note_examples_seen(user_of(request), [each for each in examples if each.pk not in hidden])
    text = text_of(found, without=hidden)
    name = f"codebook-{str(found.codebook.public_id)[:8]}-v{found.number}.{form}"
    headers = {"Content-Disposition": f'attachment; filename="{name}"'}
    return HttpResponse(write_codebook(text, form), CONTENT_TYPES[form], headers=headers)


# --- differences and carrying over ---------------------------------------------------------------------------------------


@require_safe
def version_diff(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    """Against the version that `?from=NUMBER` names, else against the one before."""
    found = version_of(public_id)
    earlier = list(found.codebook.versions.filter(number__lt=found.number).order_by("number"))
    wanted = request.GET.get("from", "")
    old = next((version for version in earlier if str(version.number) == wanted), found.previous)
    groups = change_groups(VersionDiff(old, found)) if old else []
    data = {
        "codebook": found.codebook.name,
        "from": old.number if old else None,
        "to": found.number,
        "changes": [change for group in groups for change in group.changes],
        "next": None,
    }
    context = {"section": "codebook", "version": found, "old": old, "earlier": earlier, "groups": groups}
    return render_page(request, "review/codebook_diff.html", data=data, context=context, as_json=as_json)


@require_http_methods(["GET", "HEAD", "POST"])
@needs(User.Level.REVIEWER, to_change=True)
def version_carry(request: HttpRequest, public_id: UUID, queue_id: UUID, *, as_json: bool = False) -> HttpResponse:
    """What carrying this queue over would do; sent, it does it. The queue's maker and admins may."""
    found = version_of(public_id)
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
    is_told = not still_to_code([plan.queue], user) and not asked_elsewhere([plan.queue], user)
    if is_told:
        note_seen(user, plan.queue)
    by_code, counts = _sort_fates(plan, is_told=is_told), plan.counts if is_told else None
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


def _sort_fates(plan: CarryPlan, *, is_told: bool) -> list[CodeFate]:
    """What must be looked at first. Whoever still codes unseen by others is told no count: a draft that splits one code
    would make them tell who gave that code."""
    rows = sorted(plan.by_code(), key=lambda row: (not row[1].must_look, row[1].kind == "kept"))
    return [CodeFate(code, fate, total if is_told else None) for code, fate, total in rows]
