"""`/drafts/<id>/`: a draft with its provenance, one of its steps, and one of its files to read or change."""

from __future__ import annotations

from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from benchapp.drafting.draft_orders import DraftConflict, edit_file, go_on, stop
from benchapp.drafting.draft_suites import admit, try_as_suite
from benchapp.models import Draft, User
from benchapp.record.json_shape import encode
from inspector.pages.drafts.draft import CHECKS, describe_waiting, read_draft
from inspector.pages.drafts.draft_call import read_call
from inspector.pages.drafts.draft_file import MAX_CHARS, OpenedFile, open_file
from inspector.pages.library.author_call import MAX_SECTION
from inspector.web.access import needs, user_of
from inspector.web.responses import PageLink, render_page, wants_fragment
from runner.base.errors import RunnerError

MAX_KEY = 200


def _find_draft(public_id: UUID) -> Draft:
    rows = Draft.objects.select_related("head", "suite", "admitted_as", "asked_by")
    return get_object_or_404(rows, public_id=public_id)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@needs(User.Level.OPERATOR, to_change=True)
def draft(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    """POST: `act` stop, go-on, try, admit, or open with the path of a file."""
    row = _find_draft(public_id)
    if request.method != "POST":
        return _show(request, row, as_json=as_json)
    if request.POST.get("act") == "open":
        return _open_typed(request, row)
    try:
        said = _act(request, row)
    except RunnerError as error:
        return _show(request, _find_draft(public_id), problem=str(error))
    messages.success(request, said)
    return HttpResponseRedirect(reverse("draft", args=[public_id]))


def _act(request: HttpRequest, row: Draft) -> str:
    """What was done, in a sentence."""
    act, user = request.POST.get("act", ""), user_of(request)
    if act == "stop":
        stop(row, user)
        return "Stopped. If a call is under way, its answer will still be used."
    if act == "go-on":
        go_on(row, user)
        return "The draft will continue as soon as a worker is free."
    if act == "try":
        suite = try_as_suite(row, user)
        return f"Written as suite {suite.key} and screened. Check its workflow, then qualify it."
    if act == "admit":
        key = request.POST.get("key", "").strip()[:MAX_KEY]
        suite = admit(row, key, user, tasks=request.POST.getlist("task"))
        return f"Admitted as the suite {suite.key}."
    raise Http404("there is no such act")


def _open_typed(request: HttpRequest, row: Draft) -> HttpResponse:
    path = request.POST.get("path", "").strip()
    try:
        open_file(row, path)
    except ValueError as error:
        return _show(request, row, problem=str(error))
    return HttpResponseRedirect(reverse("draft-file", args=[row.public_id, path]))


def _show(request: HttpRequest, row: Draft, *, problem: str = "", as_json: bool = False) -> HttpResponse:
    if wants_fragment(request) and not problem:
        return _show_now(request, row)
    shown = read_draft(row)
    state = shown.state
    data = {
        "id": row.public_id,
        **{"name": row.name, "loop": row.loop, "brief": shown.brief, "model": row.model, "status": row.status},
        **{"reason": row.reason or None, "state": state, "head": row.head.digest, "spent": shown.spent},
        **{
            "max_calls": row.max_calls,
            "max_usd": row.max_usd,
            "asked_by": row.asked_by and row.asked_by.get_username(),
        },
        "suite": PageLink("suite-json", row.suite.key) if row.suite else None,
        "admitted_as": PageLink("suite-json", row.admitted_as.key) if row.admitted_as else None,
        **{"tasks": shown.tasks, "steps": shown.steps, "files": shown.files, "next": None},
    }
    context = {
        **{"draft": shown, "row": row, "state": state, "is_live": _is_live(row), "total": len(shown.steps)},
        **{"problem": problem, "checks": CHECKS, "key": request.POST.get("key", shown.brief.get("family", ""))},
    }
    status = 422 if problem else 200
    return render_page(request, "drafts/draft.html", data=data, context=context, as_json=as_json, status=status)


def _show_now(request: HttpRequest, row: Draft) -> HttpResponse:
    """The head alone, every few seconds: while a worker works no file is read for it."""
    steps, seen = row.steps.order_by("number"), request.GET.get("seen", "")
    total = steps.count()
    known = min(int(seen[:6]), total) if seen.isascii() and seen.isdecimal() else total
    state = describe_waiting(row, steps.last()) if _is_live(row) else read_draft(row).state
    context = {
        **{"row": row, "state": state, "is_live": _is_live(row), "is_part": True},
        **{"total": known, "newer": total - known, "last": total},
    }
    return render_page(request, "drafts/_draft_now.html", data={}, context=context, as_json=False)


def _is_live(row: Draft) -> bool:
    return row.status == Draft.Status.WAITING


@require_safe
def draft_step(request: HttpRequest, public_id: UUID, number: int, *, as_json: bool = False) -> HttpResponse:
    row = _find_draft(public_id)
    call = read_call(row, number, request.GET.get("file", ""))
    if call is None:
        raise Http404("the draft has no such step")
    data = {"draft": PageLink("draft-json", public_id), **encode(call), "next": None} if as_json else {}
    context = {"row": row, "call": call, "step": call.step, "max_section": MAX_SECTION}
    return render_page(request, "drafts/draft_step.html", data=data, context=context, as_json=as_json)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@needs(User.Level.OPERATOR, to_change=True)
def draft_file(request: HttpRequest, public_id: UUID, path: str, *, as_json: bool = False) -> HttpResponse:
    """POST: saves the text that was sent, or (`act` remove) removes the file."""
    row, user = _find_draft(public_id), user_of(request)
    try:
        file = open_file(row, path)
    except ValueError as error:
        raise Http404(str(error)) from None
    if request.method != "POST":
        if not file.exists and not (user.may(User.Level.OPERATOR) and not as_json):
            raise Http404("the draft has no such file")
        return _show_file(request, row, file, as_json=as_json)
    text = None if request.POST.get("act") == "remove" else request.POST.get("text", "").replace("\r\n", "\n")
    if text is not None and len(text) > MAX_CHARS:
        return _show_file(request, row, file, problem=f"Expected at most {MAX_CHARS:,} characters.", status=422)
    try:
        step = edit_file(row, path, text, user, request.POST.get("head", ""))
    except RunnerError as error:
        fresh = _find_draft(public_id)
        status = 409 if isinstance(error, DraftConflict) else 422
        return _show_file(request, fresh, open_file(fresh, path, typed=text), problem=str(error), status=status)
    messages.success(request, f"{'Removed' if text is None else 'Saved'} {path}: step {step.number}.")
    return HttpResponseRedirect(f"{reverse('draft', args=[public_id])}#step-{step.number}")


def _show_file(
    request: HttpRequest, row: Draft, file: OpenedFile, *, problem: str = "", as_json: bool = False, status: int = 200
) -> HttpResponse:
    data = {"draft": PageLink("draft-json", row.public_id), **encode(file), "next": None} if as_json else {}
    context = {"row": row, "file": file, "problem": problem, "max_chars": MAX_CHARS}
    return render_page(request, "drafts/draft_file.html", data=data, context=context, as_json=as_json, status=status)
