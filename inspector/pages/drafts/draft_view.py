"""`/drafts/<id>/`: a draft with its provenance, one of its steps, and one of its files to read or change."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from uuid import UUID

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.shortcuts import get_object_or_404
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_http_methods, require_safe

from benchapp.drafting.draft_orders import DraftConflict, edit_file, go_on, stop
from benchapp.drafting.draft_suites import admit, try_as_suite
from benchapp.models import Blob, Draft, User
from benchapp.record.json_shape import JsonShape, Shaped, encode
from benchapp.record.textual_change import is_binary
from inspector.pages.drafts.draft import CHECKS, MAX_CHARS, MAX_PATH, describe_waiting, read_draft
from inspector.pages.drafts.drafted_steps import DraftedStep, read_steps
from inspector.pages.library.author_call import MAX_SECTION, parse_prompt, parse_reply
from inspector.pages.library.changes import FileChange, ShownFile, Version, draw_changes
from inspector.web.access import needs, user_of
from inspector.web.responses import PageLink, render_page, wants_fragment
from inspector.web.subject import find_neighbours
from runner.base.digests import digest_bytes
from runner.base.errors import RunnerError
from runner.base.trees import check_relative

JSON_CHARS = 400_000  # of one text in the twin
MAX_KEY = 200
DIFF = JsonShape(
    *("path=diff.path", "status=diff.status", "added=diff.added", "removed=diff.removed", "note=diff.note"),
    "lines_left_out=rows_left_out",
)


@dataclass(frozen=True, slots=True)
class OpenedFile(Shaped):
    """`text`: what the form shows; of a binary file or too large a one None. `exists`: the head has it. `steps`: those that
    changed it. `typed`: what somebody would have saved and could not, as a difference from the head."""

    path: str
    head: str
    exists: bool
    size: int
    text: str | None
    steps: tuple[DraftedStep, ...]
    typed: tuple[ShownFile, ...] = field(default=())

    json_shape = JsonShape(
        *("path", "head", "exists", "bytes=size", "text"),
        ("steps", lambda file: [step.row.number for step in file.steps]),
    )


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
        _open_file(row, path)
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
    """The differences of its files, and the prompt and reply behind it. `file`: the one that is shown whole."""
    row = _find_draft(public_id)
    steps = read_steps(row)
    place = next((place for place, each in enumerate(steps) if each.row.number == number), None)
    if place is None:
        raise Http404("the draft has no such step")
    step = steps[place]
    chosen = [each for each in step.changes if each.path == request.GET.get("file", "")]
    # Several steps may be open on one page: the places of their lines have names of their own.
    files = [
        replace(each, index=number * 1_000 + each.index)
        for each in draw_changes(chosen or step.changes, whole=bool(chosen))
    ]
    before, after = find_neighbours(steps, step)
    contents = Blob.objects.read_many([each for each in (step.row.request_id, step.row.reply_id) if each])
    asked, answered = (contents.get(each or "") for each in (step.row.request_id, step.row.reply_id))
    prompt, reply = parse_prompt(asked) if asked else None, parse_reply(answered) if answered else None

    def build_twin() -> dict[str, object]:
        messages = prompt.messages if prompt else ()
        sent = [{"role": message.role, "text": message.text[:JSON_CHARS]} for message in messages]
        return {
            **{"draft": PageLink("draft-json", public_id), "step": step, "diff": DIFF.read_all(files)},
            **{"prompt": sent if prompt else None, "reply": reply.text[:JSON_CHARS] if reply else None, "next": None},
        }

    call = {
        **{"files": files, "chosen": chosen, "files_left_out": 0 if chosen else len(step.changes) - len(files)},
        **{"prompt": prompt, "reply": reply, "before": before and before.row.number},
        "after": after and after.row.number,
    }
    context = {"row": row, "call": call, "step": step, "max_section": MAX_SECTION}
    return render_page(request, "drafts/draft_step.html", data=build_twin, context=context, as_json=as_json)


@never_cache
@require_http_methods(["GET", "HEAD", "POST"])
@needs(User.Level.OPERATOR, to_change=True)
def draft_file(request: HttpRequest, public_id: UUID, path: str, *, as_json: bool = False) -> HttpResponse:
    """POST: saves the text that was sent, or (`act` remove) removes the file."""
    row, user = _find_draft(public_id), user_of(request)
    try:
        file = _open_file(row, path)
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
        return _show_file(request, fresh, _open_file(fresh, path, typed=text), problem=str(error), status=status)
    messages.success(request, f"{'Removed' if text is None else 'Saved'} {path}: step {step.number}.")
    return HttpResponseRedirect(f"{reverse('draft', args=[public_id])}#step-{step.number}")


def _show_file(
    request: HttpRequest, row: Draft, file: OpenedFile, *, problem: str = "", as_json: bool = False, status: int = 200
) -> HttpResponse:
    data = {"draft": PageLink("draft-json", row.public_id), **encode(file), "next": None} if as_json else {}
    context = {"row": row, "file": file, "problem": problem, "max_chars": MAX_CHARS}
    return render_page(request, "drafts/draft_file.html", data=data, context=context, as_json=as_json, status=status)


def _open_file(draft: Draft, path: str, typed: str | None = None) -> OpenedFile:
    """Also of a path that the head lacks: somebody may add the file. ValueError where no file can have this path."""
    check_relative(path)
    if len(path) > MAX_PATH or not path.isprintable():
        raise ValueError(f"{path[:80]!r}: expected a printable path of at most {MAX_PATH} characters")
    steps = tuple(each for each in read_steps(draft) if any(change.path == path for change in each.changes))
    row = draft.head.files.filter(path=path).select_related("blob").first()
    content = row.blob.content() if row else b""
    text = None if is_binary(content) or len(content) > MAX_CHARS else content.decode()
    shown: list[ShownFile] = []
    if typed is not None:
        old = _version_of(content) if row else None
        shown = draw_changes([FileChange(path, old, _version_of(typed.encode("utf-8", "replace")))])
    digest = draft.head.digest
    return OpenedFile(
        path, digest, row is not None, len(content), text if typed is None else typed, steps, tuple(shown)
    )


def _version_of(content: bytes) -> Version:
    return Version(digest_bytes(content), len(content), content.count(b"\n"), content=content)
