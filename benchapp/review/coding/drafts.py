"""A reviewer's answers about an item: drafts that are saved repeatedly, then the final answer.

Every save names the revision it started from. A conditional UPDATE decides whether it still is the latest. If not, the
save raises `Conflict` with what another tab has written since, and nothing is overwritten. A submitted or skipped
review never changes (`Review` guards that); only the guess of a condition is added to it, once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, replace
from typing import Annotated, Literal
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.db.models import F, Value
from django.db.models.functions import Greatest
from django.utils import timezone
from pydantic import BaseModel, BeforeValidator, ConfigDict, Field, model_validator

from benchapp.models import Attribution, Label, Mark, Queue, QueueItem, Review, User
from benchapp.record.writing.human_acts import note_activity
from benchapp.review.blinding import hidden_in
from benchapp.review.coding.anchors import MAX_QUOTE, ItemEvidence, MarkPlace, Misplaced, place_of
from benchapp.review.coding.queue_agreement import note_submitted
from benchapp.review.queues.claims import fill, is_unfilled
from benchapp.review.queues.passes import NONE_MOUNTED, judging_skills, lacks_skills

MAX_MARKS = 200
MAX_LABELS = 20  # of one mark
MAX_MEMO = 20_000
MAX_SECONDS = 7 * 86_400
MAX_NUMBER = 2**31 - 1


def without_unstorable(text: object) -> object:
    """Replace what PostgreSQL cannot store: NUL and halves of surrogate pairs. What is not text fails later."""
    return text.replace("\x00", "").encode("utf-8", "replace").decode() if isinstance(text, str) else text


Count = Annotated[int, Field(ge=0, le=MAX_NUMBER)]
Text = Annotated[str, BeforeValidator(without_unstorable)]


class StrictDraft(BaseModel):
    model_config = ConfigDict(extra="forbid", frozen=True)


class LabelDraft(StrictDraft):
    """`needs_look` stays until the reviewer confirms a label that came from another version; nobody can set it."""

    code: UUID
    needs_look: bool = False


class MarkDraft(StrictDraft):
    """One mark. `id` is drawn by the page, so that saving twice makes one.
    `trajectory`: which of the trial's, from 0."""

    id: UUID
    trajectory: Annotated[int, Field(ge=-1, le=10_000)] = 0
    step: Count | None = None
    field: Annotated[Text, Field(max_length=64)] = ""
    start: Count | None = None
    end: Count | None = None
    quote: Annotated[Text, Field(max_length=MAX_QUOTE)] = ""
    path: Annotated[Text, Field(max_length=1000)] = ""
    labels: Annotated[tuple[LabelDraft, ...], Field(max_length=MAX_LABELS)] = ()
    attribution: Literal[("", *Attribution.values)] = ""  # type: ignore[valid-type]
    first: bool = False
    memo: Annotated[Text, Field(max_length=MAX_MEMO)] = ""

    @property
    def place(self) -> MarkPlace:
        return MarkPlace(self.trajectory, self.step, self.field, self.start, self.end, self.quote, self.path)

    @property
    def codes(self) -> frozenset[UUID]:
        return frozenset(label.code for label in self.labels)


class Draft(StrictDraft):
    """Everything a reviewer wrote about one item. `seconds`: total time that somebody was active on the page."""

    marks: Annotated[tuple[MarkDraft, ...], Field(max_length=MAX_MARKS)] = ()
    memo: Annotated[Text, Field(max_length=MAX_MEMO)] = ""
    confidence: Literal[1, 2, 3] | None = None
    seconds: Annotated[float, Field(ge=0, le=MAX_SECONDS, allow_inf_nan=False)] = 0

    @model_validator(mode="after")
    def _consistent(self) -> Draft:
        if len({mark.id for mark in self.marks}) < len(self.marks):
            raise ValueError("two marks have the same id")
        if sum(mark.first for mark in self.marks) > 1:
            raise ValueError("more than one mark is called the first upstream failure")
        if any(len(mark.codes) < len(mark.labels) for mark in self.marks):
            raise ValueError("a mark has the same code twice")
        return self


# --- saving ----------------------------------------------------------------------------------------------------------

MAX_REASON = 500
CLOSED = "The queue was closed; the draft is kept."


class Conflict(Exception):
    """Another tab saved a newer draft; `review` is the current one."""

    def __init__(self, review: Review) -> None:
        super().__init__("Another tab saved a newer draft of this item.")
        self.review = review


class Finished(Exception):
    """The review was submitted or skipped before; it never changes."""

    def __init__(self, review: Review) -> None:
        super().__init__(f"This item was {review.get_state_display().lower()} already; that answer stays.")
        self.review = review


class Unfinished(ValueError):
    """What keeps a draft from being submitted, one sentence each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(" ".join(problems))
        self.problems = list(problems)


class DraftRefused(ValueError):
    """The draft names a code or a place that the item does not have, or the item has no place for one more answer."""


def save_draft(
    item: QueueItem, user: User, draft: Draft, *, revision: int, evidence: ItemEvidence | None = None
) -> Review:
    """Replace the person's draft if `revision` still is the latest (0: none was saved yet).

    Raises Conflict, Finished, DraftRefused (with the wrong mark), PermissionDenied for people outside the queue.
    """
    _check_may_answer(item, user)
    found = _CheckedDraft(item, user, draft, evidence)
    with transaction.atomic():
        return _save(item, user, draft, revision, found)


def submit(
    item: QueueItem,
    user: User,
    draft: Draft,
    *,
    revision: int,
    nothing_wrong: bool = False,
    evidence: ItemEvidence | None = None,
) -> Review:
    """Save the draft as the final answer. `nothing_wrong` is required without a code: no empty answer by accident.

    Raises what `save_draft` raises, and Unfinished with every reason.
    """
    _check_may_answer(item, user)
    problems = [] if item.queue.is_open else [CLOSED]
    coded = any(mark.labels for mark in draft.marks)
    if not coded and not nothing_wrong:
        problems.append("No code is set. Press 0 if nothing is wrong here.")
    if coded and nothing_wrong:
        problems.append("You said that nothing is wrong, and set codes.")
    for place, mark in enumerate(draft.marks, start=1):
        if not mark.labels and not mark.memo.strip():
            problems.append(f"Mark {place} needs a code or a memo.")
    found = _CheckedDraft(item, user, draft, evidence)
    problems += found.problems()
    if problems:
        raise Unfinished(problems)
    with transaction.atomic():
        _keep_open(item)
        review = _save(item, user, draft, revision, found)
        _finish(review, Review.State.SUBMITTED)
        note_activity(user, "review.submitted", review, detail=_detail(item, draft))
    note_submitted(review)
    return review


def skip(
    item: QueueItem, user: User, draft: Draft, *, revision: int, reason: str, evidence: ItemEvidence | None = None
) -> Review:
    """Record that this person cannot answer the item, and why. What they wrote stays with it."""
    _check_may_answer(item, user)
    reason = str(without_unstorable(" ".join(reason.split())))
    if not reason or len(reason) > MAX_REASON:
        raise Unfinished([f"Say in 1 to {MAX_REASON} characters why it is skipped."])
    if not item.queue.is_open:
        raise Unfinished([CLOSED])
    found = _CheckedDraft(item, user, draft, evidence)
    with transaction.atomic():
        _keep_open(item)
        review = _save(item, user, draft, revision, found)
        _finish(review, Review.State.SKIPPED, skip_reason=reason)
        note_activity(user, "review.skipped", review, detail=_detail(item, draft), reason=reason)
    note_submitted(review)
    return review


def guess(item: QueueItem, user: User, condition: str) -> Review:
    """Keep the condition the person guesses; "" for "do not know". Once, and only after submitting."""
    review = item.reviews.filter(reviewer=user).first()
    if review is None or review.state != Review.State.SUBMITTED or not asks_guess(item, review):
        raise DraftRefused("There is nothing to guess here.")
    if condition and condition not in guess_options(item):
        raise DraftRefused("This queue does not have that condition.")
    asked = Review.objects.filter(pk=review.pk, state=Review.State.SUBMITTED, guessed_at=None)
    if not asked.update(guess=condition, guessed_at=timezone.now()):
        raise DraftRefused("You guessed before. The first guess counts.")
    review.refresh_from_db()
    return review


def asks_guess(item: QueueItem, review: Review) -> bool:
    """Should a guess be asked for? The queue hid the conditions, there are several, and none was guessed."""
    waiting = review.state == Review.State.SUBMITTED and review.guessed_at is None
    return item.queue.hides_conditions and waiting and len(guess_options(item)) > 1


def guess_options(item: QueueItem) -> list[str]:
    """List the conditions among the items of the queue in alphabetical order."""
    path = {"trial": "trial__episode__run", "decision": "decision__episode__run", "snapshot": "episode__run"}
    name = f"{path[item.queue.unit]}__condition"
    found = item.queue.items.order_by().values_list(name, flat=True).distinct()
    return sorted({condition for condition in found if condition})


def draft_of(review: Review | None, evidence: ItemEvidence) -> dict[str, object]:
    """Return the stored draft in `Draft`'s form, with JSON's own types; an empty one for None."""
    if review is None:
        return {"marks": [], "memo": "", "confidence": None, "seconds": 0}
    marks = review.marks.prefetch_related("labels__code").order_by("ordinal", "id")
    return {
        "marks": [_read_mark(mark, evidence) for mark in marks],
        "memo": review.memo,
        "confidence": review.confidence,
        "seconds": review.seconds,
    }


class _CheckedDraft:
    """The draft's places and codes, found in the record before the transaction that writes them."""

    def __init__(self, item: QueueItem, user: User, draft: Draft, evidence: ItemEvidence | None) -> None:
        self.item, self.user, self.evidence = item, user, evidence or ItemEvidence(item)
        rows = Mark.objects.filter(review__item=item, review__reviewer=user).prefetch_related("labels__code")
        self.known = {mark.public_id: mark for mark in rows}
        self.carried = {
            (mark.public_id, label.code.public_id): label for mark in self.known.values() for label in mark.labels.all()
        }
        self.codes = dict(item.queue.version.codes.values_list("public_id", "pk"))
        self.places = [self._place(number, mark) for number, mark in enumerate(draft.marks, start=1)]
        self.labels = [self._labels(number, mark) for number, mark in enumerate(draft.marks, start=1)]

    def problems(self) -> list[str]:
        """List problems with submitting that need the record: labels of another version that nobody looked at."""
        problems = []
        for number, labels in enumerate(self.labels, start=1):
            if any(label.needs_look for label in labels):
                problems.append(f"Mark {number} carries a code that must be looked at again.")
            elif any(label.code_id not in self.codes.values() for label in labels):
                problems.append(f"Mark {number} carries a code of another version.")
        return [*problems, *self._misplaced()]

    def _misplaced(self) -> list[str]:
        """List codes about skills where none was mounted, unless the condition is hidden: this would reveal it."""
        if not lacks_skills(self.item) or hidden_in(self.item, self.user).conditions:
            return []
        codes = {code.pk: code for code in self.item.queue.version.codes.all()}
        barred = judging_skills(codes.values())
        return [
            f"Mark {number}: “{codes[label.code_id].name}” is about skills, and {NONE_MOUNTED}."
            for number, labels in enumerate(self.labels, start=1)
            for label in labels
            if label.code_id in barred
        ]

    def _place(self, number: int, mark: MarkDraft) -> tuple[MarkPlace, int | None]:
        """Return (the checked place, key of its trajectory). An unmoved mark keeps its range and its trajectory."""
        known = self.known.get(mark.id)
        if known is not None and place_of(known, self.evidence) == mark.place:
            return replace(mark.place, start=known.start, end=known.end), known.trajectory_id
        try:
            place = self.evidence.check_place(mark.place)
        except Misplaced as error:
            raise DraftRefused(f"Mark {number}: {error}.") from error
        return place, self.evidence.trajectories[place.trajectory].pk if place.step is not None else None

    def _labels(self, number: int, mark: MarkDraft) -> list[Label]:
        labels = []
        for draft in mark.labels:
            carried = self.carried.get((mark.id, draft.code))
            code = self.codes.get(draft.code) or (carried.code_id if carried else None)
            if code is None:
                raise DraftRefused(f"Mark {number}: the codebook has no code {draft.code}.")
            looks, origin = (carried.needs_look, carried.carried_from_id) if carried else (False, None)
            labels.append(Label(code_id=code, needs_look=draft.needs_look and looks, carried_from_id=origin))
        return labels


def _save(item: QueueItem, user: User, draft: Draft, revision: int, checked: _CheckedDraft) -> Review:
    review = _next_revision(item, user, draft, revision)
    review.marks.all().delete()
    marks = Mark.objects.bulk_create(
        Mark(
            public_id=mark.id,
            review=review,
            ordinal=ordinal,
            trajectory_id=trajectory,
            attribution=mark.attribution,
            is_first_failure=mark.first,
            memo=mark.memo,
            **{name: getattr(place, name) for name in Mark.ANCHOR},
        )
        for ordinal, (mark, (place, trajectory)) in enumerate(zip(draft.marks, checked.places, strict=True))
    )
    for mark, labels in zip(marks, checked.labels, strict=True):
        for label in labels:
            label.mark = mark
    Label.objects.bulk_create([label for labels in checked.labels for label in labels])
    return review


def _next_revision(item: QueueItem, user: User, draft: Draft, revision: int) -> Review:
    """Return the person's review with the next revision. A second save from the same revision raises."""
    mine = Review.objects.filter(item=item, reviewer=user)
    written = mine.filter(revision=revision, state=Review.State.DRAFT).update(
        revision=F("revision") + 1,
        memo=draft.memo,
        confidence=draft.confidence,
        seconds=Greatest(F("seconds"), Value(float(draft.seconds))),
        saved_at=timezone.now(),
    )
    if not written and not mine.exists():
        try:
            with transaction.atomic():
                return Review.objects.create(
                    item=item,
                    reviewer=user,
                    revision=revision + 1,
                    memo=draft.memo,
                    confidence=draft.confidence,
                    seconds=draft.seconds,
                )
        except IntegrityError:  # two tabs started at once
            written = 0
    review = mine.get()
    if not written:
        raise Finished(review) if review.is_final else Conflict(review)
    return review


def _finish(review: Review, state: str, **fields: str) -> None:
    draft = Review.objects.filter(pk=review.pk, state=Review.State.DRAFT)
    draft.update(state=state, submitted_at=timezone.now(), **fields)
    review.refresh_from_db()
    fill(review.item, review.reviewer, review)


def _check_may_answer(item: QueueItem, user: User) -> None:
    if not may_code(item, user):
        raise PermissionDenied("You are not a reviewer of this queue.")
    if not has_place(item, user):
        raise DraftRefused("Others took every place of this item, and you can read their answers.")


def _keep_open(item: QueueItem) -> None:
    """Keep the queue from being closed or carried over until the transaction ends that makes a review final, so that
    none is left behind."""
    if not Queue.objects.filter(pk=item.queue_id, closed_at=None).update(closed_at=None):
        raise Unfinished([CLOSED])


def may_code(item: QueueItem, user: User) -> bool:
    """Does the queue name this person? A closed queue still takes their drafts, so that nothing written is lost."""
    return user.may(User.Level.REVIEWER) and item.queue.reviewers.filter(pk=user.pk).exists()


def has_place(item: QueueItem, user: User) -> bool:
    """May their answer start or continue? With all places taken nobody starts one: the item then hides nothing from
    them."""
    return item.slots.filter(is_unfilled()).exists() or item.reviews.filter(reviewer=user).exists()


def _detail(item: QueueItem, draft: Draft) -> dict[str, object]:
    return {
        "item": str(item.public_id),
        "queue": str(item.queue.public_id),
        "marks": len(draft.marks),
        "labels": sum(len(mark.labels) for mark in draft.marks),
        "seconds": round(draft.seconds, 1),
    }


def _read_mark(mark: Mark, evidence: ItemEvidence) -> dict[str, object]:
    labels = [{"code": str(label.code.public_id), "needs_look": label.needs_look} for label in mark.labels.all()]
    fields = {"labels": labels, "attribution": mark.attribution, "first": mark.is_first_failure, "memo": mark.memo}
    return {"id": str(mark.public_id), **asdict(place_of(mark, evidence)), **fields}
