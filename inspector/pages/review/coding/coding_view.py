"""`/review/items/<id>/`: where a reviewer reads one item and codes it. What they write is saved as they write."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass
from functools import wraps
from typing import Annotated, ClassVar
from uuid import UUID

from django.db.models import Prefetch
from django.http import HttpRequest, HttpResponse, JsonResponse
from django.urls import reverse
from django.views.decorators.cache import never_cache
from django.views.decorators.csrf import ensure_csrf_cookie
from pydantic import BaseModel, ConfigDict, Field, ValidationError

from benchapp.models import Attribution, Code, CodebookVersion, Mark, QueueItem, Review, User
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.review.blinding import Hidden, hidden_in
from benchapp.review.codebooks.codebook_versions import CodebookRefused
from benchapp.review.codebooks.examples import propose_from_mark
from benchapp.review.codebooks.hierarchy import in_order, keys_of
from benchapp.review.coding.anchors import ItemEvidence
from benchapp.review.coding.drafts import (
    MAX_LABELS,
    MAX_MARKS,
    MAX_MEMO,
    MAX_REASON,
    Conflict,
    Draft,
    DraftRefused,
    Finished,
    Unfinished,
    asks_guess,
    draft_of,
    guess,
    guess_options,
    has_place,
    may_code,
    save_draft,
    skip,
    submit,
)
from benchapp.review.queues.claims import claim, give_back, hold
from benchapp.review.queues.passes import (
    BLAMES,
    NONE_MOUNTED,
    first_pass_of,
    judging_skills,
    lacks_skills,
    second_pass_of,
)
from benchapp.review.queues.review_progress import team_of
from benchapp.review.seeing import note_seen
from benchapp.review.suggestions.suggestion_runs import suggestions_for
from benchapp.stats.comparing.condition_names import name_condition
from inspector.pages.review.exhibits.exhibit import Exhibit, load_item, read_exhibit
from inspector.pages.review.exhibits.exhibited_trial import ShownFields
from inspector.web.access import needs, user_of
from inspector.web.responses import render_page
from inspector.web.subject import item_closed_to

MAX_BODY = 4 * 1024 * 1024
MAX_OTHERS = 20
MAX_TEAM = 6


@dataclass(frozen=True, slots=True)
class CodeLine(Shaped):
    """A code in its place of the tree.
    `key` is what one presses for it, "" where the keys ran out: it is found by name."""

    code: Code
    depth: int
    key: str
    is_group: bool
    waits: bool  # nobody can judge it here, as skills are hidden or none was mounted

    json_shape = JsonShape(
        "id=code.public_id name=code.name depth definition=code.definition include=code.include exclude=code.exclude",
        "keys=key waits_for_skills=waits",
    )


class CodingPanel:
    """What the panel next to the evidence shows of an item, loaded with its queue, version and codebook. The number of
    queries does not grow with the reviews.

    `review`: the person's own, None before the first save. `has_place`: an answer of theirs can begin or continue.
    `is_shared`: other people code in this queue, so its places can run out. `done`, `total`: items of the queue that
    they finished, and all. `team`: how far each is, and `others`: what they submitted, as soon as it may be shown.
    `previous`, `following`: addresses of the items around it.
    """

    limits: ClassVar = {"memo": MAX_MEMO, "reason": MAX_REASON, "marks": MAX_MARKS, "labels": MAX_LABELS}
    confidences: ClassVar = [(value, label.lower()) for value, label in Review.Confidence.choices]

    def __init__(self, item: QueueItem, user: User, *, hidden: Hidden, evidence: ItemEvidence) -> None:
        self.item, self.user, self.hidden = item, user, hidden
        queue = item.queue
        marks = Prefetch("marks", Mark.objects.order_by("ordinal", "id").prefetch_related("labels__code"))
        reviews = item.reviews.select_related("reviewer").prefetch_related(marks).order_by("submitted_at", "id")
        if hidden.labels:
            reviews = reviews.filter(reviewer=user)
        self.review = next((found for found in reviews if found.reviewer_id == user.pk), None)
        asks = self.review is not None and asks_guess(item, self.review)
        self.hides_skills = item.trial_id is not None and hidden.conditions
        without_skills = item.trial_id is not None and (hidden.conditions or lacks_skills(item))
        neighbours = queue.items.filter(ordinal__in=(item.ordinal - 1, item.ordinal + 1))
        around = {each.ordinal: each.get_absolute_url() for each in neighbours}
        self.codes = code_lines(queue.version, without_skills=without_skills)
        self.draft = draft_of(self.review, evidence)
        self.may_code = may_code(item, user)
        self.has_place = has_place(item, user)
        self.is_held = item.slots.filter(holder=user).exists()
        self.is_shared = queue.reviewers.exclude(pk=user.pk).exists()
        own = Review.objects.filter(item__queue=item.queue_id, reviewer=user)
        self.done = own.exclude(state=Review.State.DRAFT).count()
        self.total = queue.items.count()
        self.team = [] if hidden.labels else team_of(queue)[:MAX_TEAM]
        self.previous, self.following = around.get(item.ordinal - 1), around.get(item.ordinal + 1)
        self.first_pass, self.second_pass = first_pass_of(queue), second_pass_of(queue)
        self.others = [found for found in reviews if found.reviewer_id != user.pk and found.is_final][:MAX_OTHERS]
        self.guess = guess_options(item) if asks else []
        self.number = item.ordinal + 1
        self.is_final = self.review is not None and self.review.is_final
        self.is_open = self.may_code and self.has_place and not self.is_final and queue.is_open  # to what they write
        self.ready = [line for line in self.codes if not line.waits]
        self.waiting = [line for line in self.codes if line.waits]
        # why codes about skills cannot be set, as the end of a sentence
        self.why_waiting = "it waits for pass 2, which shows the skills" if self.hides_skills else NONE_MOUNTED
        self.attributions = [  # (value, word, key, cannot be judged here)
            (each.value, each.label, str(number), bool(self.waiting) and each in BLAMES)
            for number, each in enumerate(Attribution, start=1)
        ]

    def page(self) -> dict[str, object]:
        """Return what the page's script works with."""
        names = ("save", "submit", "skip", "release", "ahead", "guess", "propose")
        known = {line.code.pk for line in self.codes}
        labels = [label for mark in (self.review.marks.all() if self.review else ()) for label in mark.labels.all()]
        others = {label.code.public_id: label.code.name for label in labels if label.code_id not in known}
        return {
            "item": str(self.item.public_id),
            "reviewer": self.user.get_username(),
            "revision": self.review.revision if self.review else 0,
            "saved_at": self.review.saved_at.isoformat() if self.review else None,
            "draft": self.draft,
            "state": self.review.state if self.review else None,
            "is_open": self.is_open,
            "is_held": self.is_held,
            "is_shared": self.is_shared,
            "codes": [
                {"id": str(line.code.public_id), "name": line.code.name, "key": line.key, "waits": line.waits}
                for line in self.codes
            ],
            "why_waiting": self.why_waiting,
            "other_codes": [{"id": str(key), "name": name} for key, name in others.items()],  # of a carried draft
            "urls": {
                **{name: reverse(f"review-{name}", args=[self.item.public_id]) for name in names},
                "queue": self.item.queue.get_absolute_url(),
                "previous": self.previous,
                "following": self.following,
                "login": reverse("login"),
            },
        }


def code_lines(version: CodebookVersion, *, without_skills: bool) -> list[CodeLine]:
    """List the tree of a version in order, each code with its key. Three queries."""
    flat = in_order(version.codes.order_by("ordinal", "id"))
    parents = {code.parent_id for code, _ in flat}
    keys = keys_of(version)
    waits = judging_skills(code for code, _ in flat) if without_skills else frozenset()
    return [CodeLine(code, depth, keys[code.pk], code.pk in parents, code.pk in waits) for code, depth in flat]


class Saved(BaseModel):
    """What the page sends: who wrote it (the login may have changed since), the revision it starts from,
    and the draft."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    reviewer: Annotated[str, Field(max_length=150)]
    revision: Annotated[int, Field(ge=0, lt=2**31 - 1)]
    draft: Draft
    nothing_wrong: bool = False
    reason: Annotated[str, Field(max_length=5000)] = ""


class Guessed(BaseModel):
    """The condition that the reviewer thinks it was."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    guess: Annotated[str, Field(max_length=100)]


class Proposed(BaseModel):
    """A code that the codebook lacks, and the person's saved mark that shows it."""

    model_config = ConfigDict(extra="forbid", frozen=True)

    mark: UUID
    name: Annotated[str, Field(max_length=1000)]


@never_cache
@ensure_csrf_cookie
def item(request: HttpRequest, public_id: UUID, *, as_json: bool = False) -> HttpResponse:
    found, user = load_item(public_id), user_of(request)
    if closed := item_closed_to(request, found, as_json=as_json):
        return closed
    hidden = hidden_in(found, user)
    coding = CodingPanel(found, user, hidden=hidden, evidence=evidence_of(found, hidden))
    if coding.others:
        note_seen(user, found.queue, found)
    exhibit = None if coding.guess else Exhibit(found, user, request.GET)
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
            "next": None,
        }
        following = exhibit.trial.window.next if exhibit and exhibit.trial else None
        if following is not None:  # the next page of steps
            query = request.GET.copy()
            query.pop("step", None)
            query["first"] = str(following)
            data["next"] = request.build_absolute_uri(f"{request.path}?{query.urlencode()}")
    return render_page(request, "review/coding.html", data=data, context=context, as_json=as_json)


Act = Callable[[QueueItem, User, Saved, ItemEvidence], JsonResponse]


def _takes_draft(act: Act) -> Callable[..., HttpResponse]:
    """Wrap a view that takes what the page sends.
    Every refusal is JSON that the page can show; none loses a draft."""

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
            return JsonResponse({"error": str(conflict), **_state_of(conflict.review, evidence)}, status=409)
        except Finished as finished:
            return JsonResponse({"error": str(finished), **_state_of(finished.review, evidence)}, status=410)
        except Unfinished as error:
            return JsonResponse({"error": str(error), "problems": error.problems}, status=422)
        except DraftRefused as error:
            return JsonResponse({"error": str(error)}, status=422)

    return view


@needs(User.Level.REVIEWER)
@_takes_draft
def save(item: QueueItem, user: User, sent: Saved, evidence: ItemEvidence) -> JsonResponse:
    """Save the draft and hold the item for the full time again; `held` says whether it is still theirs."""
    review = save_draft(item, user, sent.draft, revision=sent.revision, evidence=evidence)
    return JsonResponse({**_state_of(review, evidence), "held": hold(item, user)})


@needs(User.Level.REVIEWER)
@_takes_draft
def finish(item: QueueItem, user: User, sent: Saved, evidence: ItemEvidence) -> JsonResponse:
    review = submit(item, user, sent.draft, revision=sent.revision, nothing_wrong=sent.nothing_wrong, evidence=evidence)
    return _after(item, user, review)


@needs(User.Level.REVIEWER)
@_takes_draft
def pass_over(item: QueueItem, user: User, sent: Saved, evidence: ItemEvidence) -> JsonResponse:
    review = skip(item, user, sent.draft, revision=sent.revision, reason=sent.reason, evidence=evidence)
    return _after(item, user, review)


@needs(User.Level.REVIEWER)
def release(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Give the item back; a draft stays. A page that is being left asks for this as well, for the item kept ready."""
    found = load_item(public_id)
    given = give_back(found, user_of(request))
    return JsonResponse({"released": given, "next": found.queue.get_absolute_url()})


@needs(User.Level.REVIEWER)
def ahead(request: HttpRequest, public_id: UUID) -> HttpResponse:
    """Reserve the item after this one, so that the page can fetch it early. null if none is left."""
    found = load_item(public_id)
    user = user_of(request)
    following = claim(found.queue, user, besides=1) if found.slots.filter(holder=user, review=None).exists() else None
    return JsonResponse({"next": following.get_absolute_url() if following else None})


def _takes_json(act: Callable[[QueueItem, User, bytes], JsonResponse]) -> Callable[..., HttpResponse]:
    """Wrap a view that takes one JSON object. What is wrong with it is reported in words."""

    @wraps(act)
    def view(request: HttpRequest, public_id: UUID) -> HttpResponse:
        found = load_item(public_id)
        if not_json := _refuse_form(request):
            return not_json
        try:
            return act(found, user_of(request), request.body)
        except ValidationError as error:
            return JsonResponse({"error": _first_problem(error)}, status=422)
        except (CodebookRefused, DraftRefused) as error:
            return JsonResponse({"error": str(error)}, status=422)

    return view


@needs(User.Level.REVIEWER)
@_takes_json
def guess_condition(item: QueueItem, user: User, sent: bytes) -> JsonResponse:
    """Save which condition the reviewer thinks it was; "" if they do not know.
    It is final, and what was hidden is shown."""
    return JsonResponse({"guess": guess(item, user, Guessed.model_validate_json(sent).guess).guess})


@needs(User.Level.REVIEWER)
@_takes_json
def propose(item: QueueItem, user: User, sent: bytes) -> JsonResponse:
    """Put a code that the finder lacks into the draft of the codebook; the queue's own codes stay as they are."""
    proposed = Proposed.model_validate_json(sent)
    mark = Mark.objects.filter(review__item=item, review__reviewer=user, public_id=proposed.mark).first()
    if mark is None:
        return JsonResponse({"error": "That mark is not saved."}, status=422)
    code = propose_from_mark(mark, proposed.name, user)
    return JsonResponse({"name": code.name, "version": str(code.version), "url": code.version.get_absolute_url()})


def _refuse_form(request: HttpRequest) -> JsonResponse | None:
    """Refuse a form in place of a draft; the body of one with files cannot even be read again."""
    if request.content_type == "application/json":
        return None
    return JsonResponse({"error": "Send application/json."}, status=415)


def _parse_draft(body: bytes) -> Saved:
    """Parse what the page sent. Half of a surrogate pair, which a browser writes as an escape, is no reason to lose a
    draft: the strict reader refuses it, the other one reads it, and `without_unstorable` replaces it."""
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
    """Return the evidence of an item.
    Marks are counted in the text this person is shown, and kept in that of the record."""
    return ItemEvidence(item, ShownFields(item, hidden))


def _after(item: QueueItem, user: User, review: Review) -> JsonResponse:
    """Return where to go from an answered item, and which guess is asked for before."""
    following = claim(item.queue, user)
    options = [(each, name_condition(each).title) for each in guess_options(item)] if asks_guess(item, review) else None
    return JsonResponse(
        {"state": review.state, "next": following.get_absolute_url() if following else None, "guess": options}
    )


def _state_of(review: Review, evidence: ItemEvidence) -> dict[str, object]:
    return {
        "state": review.state,
        "revision": review.revision,
        "saved_at": review.saved_at.isoformat(),
        "draft": draft_of(review, evidence),
    }


def _first_problem(error: ValidationError) -> str:
    """Say where the draft is wrong and what was expected, without what was sent."""
    first = error.errors(include_input=False, include_url=False)[0]
    return f"{'.'.join(map(str, first['loc'])) or 'the request'}: {first['msg']}."


MARK = JsonShape(
    "step field path",
    ("codes", lambda mark: [label.code.name for label in mark.labels.all()]),
    "attribution first=is_first_failure memo",
)
REVIEW = JsonShape(
    "reviewer=reviewer.username state confidence memo", ("marks", lambda review: MARK.read_all(review.marks.all()))
)
ITEM = JsonShape(
    "item=item.public_id queue=item.queue.name unit=item.queue.unit instructions=item.queue.instructions",
    ("codebook", lambda coding: str(coding.item.queue.version)),
    "codes state=review.state draft",
    ("others", lambda coding: REVIEW.read_all(coding.others)),
    ("guess", lambda coding: list(coding.guess) or None),
)
