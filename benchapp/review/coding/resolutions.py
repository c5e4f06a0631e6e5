"""The adjudicator's answer about an item, next to the reviews. It changes none of them; a later one supersedes it."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.utils import timezone

from benchapp.models import Attribution, Code, Label, QueueItem, Resolution, Review, User
from benchapp.record.writing.human_acts import note_activity
from benchapp.review.codebooks.skill_codes import NONE_MOUNTED, judging_skills, lacks_skills
from benchapp.review.coding.answer_overlap import still_to_review
from benchapp.review.coding.queue_agreement import was_opened
from benchapp.review.review_access import ELSEWHERE, asked_elsewhere

MAX_MEMO = 20_000
DISAGREED = "The reviewers disagreed here, so choose a different reason."


@dataclass(frozen=True, slots=True)
class AdjudicatorVerdict:
    """The adjudicator's answer: codes of the queue's version or `nothing_wrong`, what failed, why reviews differed."""

    codes: frozenset[UUID]
    category: str
    attribution: str = ""
    memo: str = ""
    nothing_wrong: bool = False


class Unresolvable(ValueError):
    """What is wrong with an answer, one sentence each."""

    def __init__(self, problems: Collection[str]) -> None:
        super().__init__(" ".join(problems))
        self.problems = list(problems)


class Superseded(Exception):
    """Somebody resolved the item since the page was opened; `standing` is their answer."""

    def __init__(self, standing: Resolution | None) -> None:
        super().__init__("Somebody else settled this item first. Yours was not saved; both are shown.")
        self.standing = standing


def explain_barred(item: QueueItem, user: User) -> str:
    """Return why this person may not resolve the item; empty where they may.

    Reviewers may resolve items they did not answer: nobody judges their own. Admins always may. Nobody may who still
    has items of the overlap to review blind.
    """
    if not user.may(User.Level.REVIEWER):
        return f"Only reviewers settle disagreements. Your level is {user.level}; an admin can change it."
    if left := still_to_review(item.queue, user):
        return closed_sentence(left)
    if asked_elsewhere([item.queue], user):
        return ELSEWHERE
    own = Review.objects.filter(item=item, reviewer=user).exclude(state=Review.State.DRAFT)
    if not user.may(User.Level.ADMIN) and own.exists():
        return "You reviewed this item. Somebody else or an admin must settle it."
    return ""


def closed_sentence(left: int) -> str:
    items = "1 item" if left == 1 else f"{left:,} items"
    return f"You still have {items} of this queue's overlap to review before you see other reviews. Finish them first."


def resolve(item: QueueItem, user: User, verdict: AdjudicatorVerdict, *, seen: UUID | None) -> Resolution:
    """Save the answer in place of `seen`, the resolution that the page showed (None: there was none).

    Raises PermissionDenied, Unresolvable (nothing to resolve, or an answer that contradicts itself), Superseded.
    """
    if reason := explain_barred(item, user):
        raise PermissionDenied(reason)
    codes = _check(item, verdict)
    standing = Resolution.objects.filter(item=item, superseded_at=None)
    now = timezone.now()
    try:
        with transaction.atomic():
            replaced = standing.filter(public_id=seen).update(superseded_at=now) if seen else 0
            if seen and not replaced:
                raise Superseded(standing.first())
            made = Resolution.objects.create(
                item=item,
                adjudicator=user,
                category=verdict.category,
                attribution=verdict.attribution,
                memo=verdict.memo,
            )
            made.codes.set(codes)
            note_activity(user, "item.resolved", item, detail=_detail(made, codes, seen), reason=verdict.memo)
    except IntegrityError as error:  # there is another one: the constraint allows only one
        raise Superseded(standing.first()) from error
    return made


def _check(item: QueueItem, verdict: AdjudicatorVerdict) -> list[Code]:
    """Return the rows of its codes. Unresolvable with everything that is wrong. An empty answer must be explicit."""
    codes = list(item.queue.version.codes.filter(public_id__in=verdict.codes))
    problems = []
    if not verdict.codes and not verdict.nothing_wrong:
        problems.append("No code is set. Press 0, or tick “Nothing wrong”, if nothing is wrong here.")
    if verdict.codes and verdict.nothing_wrong:
        problems.append("You said that nothing is wrong, and set codes.")
    if len(codes) < len(verdict.codes):
        problems.append("A code is not of this queue's codebook version.")
    if verdict.category not in Resolution.Category.values:
        problems.append("Choose why they differ.")
    if verdict.attribution and verdict.attribution not in Attribution.values:
        problems.append("Unknown attribution.")
    if len(verdict.memo) > MAX_MEMO:
        problems.append(f"The memo is longer than {MAX_MEMO:,} characters.")
    if not was_opened(item.queue):
        problems.append("Open this queue's disagreements first: that saves the agreement.")
    if lacks_skills(item):
        barred = judging_skills(item.queue.version.codes.all())
        problems += [f"“{code.name}” is about skills, and {NONE_MOUNTED}." for code in codes if code.pk in barred]
    said = read_code_sets(item)
    if len(said) < 2:
        problems.append("Fewer than two people reviewed this item, so there is nothing to settle.")
    elif verdict.category == Resolution.Category.AGREED and (
        len(set(said)) > 1 or {code.pk for code in codes} not in said
    ):
        problems.append(DISAGREED)
    if problems:
        raise Unresolvable(problems)
    return codes


def read_code_sets(item: QueueItem) -> list[frozenset[int]]:
    """Return the code sets of the submitted reviews of an item, by keys."""
    reviews = Review.objects.filter(item=item, state=Review.State.SUBMITTED).order_by("reviewer")
    labels = Label.objects.filter(mark__review__in=reviews).values_list("mark__review", "code")
    codes: dict[int, set[int]] = {pk: set() for pk in reviews.values_list("pk", flat=True)}
    for review, code in labels:
        codes[review].add(code)
    return [frozenset(found) for found in codes.values()]


def _detail(made: Resolution, codes: list[Code], seen: UUID | None) -> dict[str, object]:
    return {
        "resolution": str(made.public_id),
        "supersedes": str(seen) if seen else None,
        "codes": sorted(code.name for code in codes),
        "category": made.category,
        "attribution": made.attribution,
    }
