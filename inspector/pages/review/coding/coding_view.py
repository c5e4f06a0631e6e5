"""`/review/items/<id>/`: where a reviewer reads one item and codes it. What they write is saved as they write."""

from __future__ import annotations

import json
from collections.abc import Callable
from functools import wraps
from typing import Annotated
from uuid import UUID

from django.http import HttpRequest, HttpResponse, JsonResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import ensure_csrf_cookie
from django.views.decorators.http import require_POST, require_safe
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from benchapp.models import Mark, QueueItem, Review, User
from benchapp.record.json_shape import JsonShape
from benchapp.review.blinding import Hidden, hidden_in
from benchapp.review.codebooks.codebook_versions import CodebookRefused
from benchapp.review.codebooks.examples import propose_from_mark
from benchapp.review.coding.anchors import ItemEvidence
from benchapp.review.coding.drafts import (
    Conflict,
    Draft,
    DraftRefused,
    Finished,
    Unfinished,
    asks_guess,
    draft_of,
    guess,
    guess_options,
    save_draft,
    skip,
    submit,
)
from benchapp.review.queues.claims import claim, give_back, hold
from benchapp.review.seeing import note_seen
from benchapp.review.suggestions.suggestion_runs import suggestions_for
from benchapp.stats.comparing.condition_names import name_condition
from inspector.pages.review.coding.coding import coding_of
from inspector.pages.review.exhibits.exhibit import Exhibit, exhibit_of, load_item, read_exhibit
from inspector.pages.review.exhibits.exhibited_trial import ShownFields
from inspector.web.access import needs, user_of
from inspector.web.closed_pages import item_closed_to
from inspector.web.responses import render_page

MAX_BODY = 4 * 1024 * 1024


class Saved(BaseModel):
    """What the page sends: who wrote it (the login may have changed since), the revision it starts from, and the draft."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reviewer: Annotated[str, Field(max_length=150)]
    revision: Annotated[int, Field(ge=0, lt=2**31 - 1)]
    draft: Draft
    nothing_wrong: bool = False
    reason: Annotated[str, Field(max_length=5000)] = ""


class Guessed(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)

    guess: Annotated[str, Field(max_length=100)]


class Proposed(BaseModel):
    """A code that the codebook lacks, and the person's saved mark that shows it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mark: UUID
    name: Annotated[str, Field(max_length=1000)]


@never_cache
@ensure_csrf_cookie
@require_safe
def item(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    found, user = load_item(public_id), user_of(request)
    if closed := item_closed_to(request, found, as_json=as_json):
        return closed
    hidden = hidden_in(found, user)
    coding = coding_of(found, user, hidden=hidden, evidence=evidence_of(found, hidden))
    if coding.others:
        note_seen(user, found.queue, found)
    exhibit = None if coding.guess else exhibit_of(found, user, request.GET)
    suggestions = suggestions_for(found, user)
    context = {
        "section": "review-item",
        "coding": coding,
        "exhibit": exhibit,
        "item": found,
        "queue": found.queue,
        "suggestions": [] if isinstance(suggestions, Hidden) else suggestions,
    }
    data: dict[str, object] = {}
    if as_json:
        data = {
            **ITEM.read(coding),
            "evidence": read_exhibit(exhibit) if exhibit else None,
            "next": _next_steps(request, exhibit),
        }
    return render_page(request, "review/coding.html", data=data, context=context, as_json=as_json)


Act = Callable[[QueueItem, User, Saved, ItemEvidence], JsonResponse]


def _takes_draft(act: Act) -> Callable[..., HttpResponse]:
    """A view that takes what the page sends. Every refusal is JSON that the page can say in words; none loses a draft."""

    @wraps(act)
    def view(request: HttpRequest, public_id: UUID) -> HttpResponse:
        found, user = load_item(public_id), user_of(request)
        if not_json := _refuse_form(request):
            return not_json
        if len(request.body) > MAX_BODY:
            return JsonResponse({"error": "This is too long to save."}, status=413)
        try:
            sent = _parse_draft(request.body)
        except ValidationError as error:
            return JsonResponse({"error": _first_problem(error)}, status=422)
        if sent.reviewer != user.get_username():
            words = f"You are logged in as {user.get_username()}; this was written by {sent.reviewer}."
            return JsonResponse({"error": words, "reviewer": user.get_username()}, status=403)
        evidence = evidence_of(found, hidden_in(found, user))
        try:
            return act(found, user, sent, evidence)
        except Conflict as conflict:
            return JsonResponse({"error": str(conflict), **_standing(conflict.review, evidence)}, status=409)
        except Finished as finished:
            return JsonResponse({"error": str(finished), **_standing(finished.review, evidence)}, status=410)
        except Unfinished as error:
            return JsonResponse({"error": str(error), "problems": error.problems}, status=422)
        except DraftRefused as error:
            return JsonResponse({"error": str(error)}, status=422)

    return view


@require_POST
@needs(User.Level.REVIEWER)
@_takes_draft
def save(item: QueueItem, user: User, sent: Saved, evidence: ItemEvidence) -> JsonResponse:
    """Keeps the draft and holds the item for the full time again; `held` says whether it still is theirs."""
    review = save_draft(item, user, sent.draft, revision=sent.revision, evidence=evidence)
    return JsonResponse({**_standing(review, evidence), "held": hold(item, user)})


@require_POST
@needs(User.Level.REVIEWER)
@_takes_draft
def finish(item: QueueItem, user: User, sent: Saved, evidence: ItemEvidence) -> JsonResponse:
    review = submit(item, user, sent.draft, revision=sent.revision, nothing_wrong=sent.nothing_wrong, evidence=evidence)
    return _after(item, user, review)


@require_POST
@needs(User.Level.REVIEWER)
@_takes_draft
def pass_over(item: QueueItem, user: User, sent: Saved, evidence: ItemEvidence) -> JsonResponse:
    review = skip(item, user, sent.draft, revision=sent.revision, reason=sent.reason, evidence=evidence)
    return _after(item, user, review)


@require_POST
@needs(User.Level.REVIEWER)
def release(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Gives the item back; a draft stays. A page that is being left asks for this as well, for the item kept ready."""
    found = load_item(public_id)
    given = give_back(found, user_of(request))
    return JsonResponse({"released": given, "next": found.queue.get_absolute_url()})


@require_POST
@needs(User.Level.REVIEWER)
def ahead(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Reserves the item after this one, so that the page can fetch it before it is wanted. null where none is left."""
    found = load_item(public_id)
    user = user_of(request)
    following = claim(found.queue, user, besides=1) if found.slots.filter(holder=user, review=None).exists() else None
    return JsonResponse({"next": following.get_absolute_url() if following else None})


@require_POST
@needs(User.Level.REVIEWER)
def guess_condition(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """The condition the reviewer thinks it was; "" for not knowing. It is final, and what was hidden is shown."""
    found = load_item(public_id)
    if not_json := _refuse_form(request):
        return not_json
    try:
        review = guess(found, user_of(request), Guessed.model_validate_json(request.body).guess)
    except ValidationError as error:
        return JsonResponse({"error": _first_problem(error)}, status=422)
    except DraftRefused as error:
        return JsonResponse({"error": str(error)}, status=422)
    return JsonResponse({"guess": review.guess})


@require_POST
@needs(User.Level.REVIEWER)
def propose(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Puts a code that the finder lacks into the draft of the codebook; the queue's own codes stay as they are."""
    found = load_item(public_id)
    if not_json := _refuse_form(request):
        return not_json
    try:
        sent = Proposed.model_validate_json(request.body)
        mark = Mark.objects.filter(review__item=found, review__reviewer=user_of(request), public_id=sent.mark).first()
        if mark is None:
            return JsonResponse({"error": "That mark is not saved."}, status=422)
        code = propose_from_mark(mark, sent.name, user_of(request))
    except ValidationError as error:
        return JsonResponse({"error": _first_problem(error)}, status=422)
    except CodebookRefused as error:
        return JsonResponse({"error": str(error)}, status=422)
    return JsonResponse({"name": code.name, "version": str(code.version), "url": code.version.get_absolute_url()})


def _refuse_form(request: HttpRequest) -> JsonResponse | None:
    """A form is not a draft; the body of one that carries files cannot even be read again."""
    if request.content_type == "application/json":
        return None
    return JsonResponse({"error": "Send application/json."}, status=415)


def _parse_draft(body: bytes) -> Saved:
    """What the page sent. Half of a surrogate pair, which a browser writes as an escape, is no reason to lose a draft:
    the strict reader refuses it, the other one reads it, and `storable` replaces it."""
    try:
        return Saved.model_validate_json(body)
    except ValidationError:
        try:
            found = json.loads(body)
        except (ValueError, RecursionError):
            found = None
        if found is None:
            raise
        return Saved.model_validate(found)


def evidence_of(item: QueueItem, hidden: Hidden) -> ItemEvidence:
    """Marks are counted in the text this person is shown, and kept in that of the record."""
    return ItemEvidence(item, ShownFields(item, hidden))


def _after(item: QueueItem, user: User, review: Review) -> JsonResponse:
    """Where to go from an answered item, and which guess is asked for before."""
    following = claim(item.queue, user)
    options = [(each, name_condition(each).title) for each in guess_options(item)] if asks_guess(item, review) else None
    return JsonResponse(
        {"state": review.state, "next": following.get_absolute_url() if following else None, "guess": options}
    )


def _standing(review: Review, evidence: ItemEvidence) -> dict[str, object]:
    return {
        "state": review.state,
        "revision": review.revision,
        "saved_at": review.saved_at.isoformat(),
        "draft": draft_of(review, evidence),
    }


def _first_problem(error: ValidationError) -> str:
    """Where the draft is wrong and what was expected, without what was sent."""
    first = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'the request'}: {first['msg']}."


MARK = JsonShape(
    *("step", "field", "path", ("codes", lambda mark: [label.code.name for label in mark.labels.all()])),
    *("attribution", "first=is_first_failure", "memo"),
)
REVIEW = JsonShape(
    *("reviewer=reviewer.username", "state", "confidence", "memo"),
    ("marks", lambda review: MARK.read_all(review.marks.all())),
)
ITEM = JsonShape(
    *("item=item.public_id", "queue=item.queue.name", "unit=item.queue.unit"),
    *("instructions=item.queue.instructions", ("codebook", lambda coding: str(coding.item.queue.version))),
    *("codes", "state=review.state", "draft"),
    *(("others", lambda coding: REVIEW.read_all(coding.others)), ("guess", lambda coding: list(coding.guess) or None)),
)


def _next_steps(request: HttpRequest, exhibit: Exhibit | None) -> str | None:
    """The twin with the next page of steps."""
    if exhibit is None or exhibit.trial is None or exhibit.trial.window.next is None:
        return None
    query = request.GET.copy()
    query.pop("step", None)
    query["first"] = str(exhibit.trial.window.next)
    return request.build_absolute_uri(f"{request.path}?{query.urlencode()}")
