"""Where the people of a queue differ, item by item, and the adjudicator's answer there, next to the reviews.

It changes none of them; a later one supersedes it.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass
from enum import StrEnum
from itertools import combinations
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.utils import timezone

from benchapp.models import Attribution, Code, Label, Queue, QueueItem, Resolution, Review, User
from benchapp.record.writing.human_acts import note_activity
from benchapp.review.blinding import AskedElsewhere, asked_elsewhere
from benchapp.review.coding.queue_agreement import Answered, answered_items, still_to_review, was_opened
from benchapp.review.queues.passes import NONE_MOUNTED, judging_skills, lacks_skills
from benchapp.review.queues.review_progress import differ
from benchapp.stats.agreement import Cell, cells_of
from runner.base.text import plural


class About(StrEnum):
    """What an item's answers can differ in."""

    CODES = "codes"
    ATTRIBUTION = "attribution"
    STEP = "step"  # of the first upstream failure


class DisputeStatus(StrEnum):
    OPEN = "open"  # a dispute: codes differ, and nobody has decided
    RESOLVED = "resolved"
    AGREED = "agreed"  # the same codes, even if the rest differs


@dataclass(frozen=True, slots=True)
class Compared:
    """An item with two answers or more. differs: in what. resolution: the current one."""

    item: Answered
    differs: frozenset[About]
    resolution: Resolution | None

    @property
    def status(self) -> DisputeStatus:
        if self.resolution:
            return DisputeStatus.RESOLVED
        return DisputeStatus.OPEN if About.CODES in self.differs else DisputeStatus.AGREED

    def is_in(self, cell: Cell) -> bool:
        """Does some pair of its reviews count in that cell of the confusion matrix?"""
        sets = [answer.codes for answer in self.item.answers if answer.counts]
        either = {cell, cell[::-1]}
        return any(either.intersection(cells_of(one, other)) for one, other in combinations(sets, 2))


@dataclass(frozen=True, slots=True)
class Wanted:
    """Which items to list. cell: a cell of the confusion matrix, by keys of codes; one on the diagonal lists items that
    agree. about: None lists everything that was answered twice."""

    about: About | None = About.CODES
    status: DisputeStatus | None = None
    cell: Cell | None = None

    def takes(self, each: Compared) -> bool:
        if self.status and each.status != self.status:
            return False
        if self.cell is not None:
            return each.item.is_overlap and each.is_in(self.cell)
        return self.about is None or self.about in each.differs


def compared_items(queue: Queue) -> list[Compared]:
    """Return all items of the queue with two submitted reviews or more, in its order; also those outside the overlap
    that got a second review because a reservation ran out."""
    resolutions = Resolution.objects.filter(item__queue=queue, superseded_at=None).select_related("adjudicator")
    current = {each.item_id: each for each in resolutions.prefetch_related("codes")}
    return [
        Compared(item, differences(item), current.get(item.pk))
        for item in answered_items(queue)
        if len(item.answers) > 1
    ]


def differences(item: Answered) -> frozenset[About]:
    """Compare the answers. A missing attribution is not a difference; a missing first failure is."""
    answers = item.answers
    found = set()
    if differ(answer.codes for answer in answers):
        found.add(About.CODES)
    if len({answer.attribution for answer in answers if answer.attribution}) > 1:
        found.add(About.ATTRIBUTION)
    if len({answer.first for answer in answers}) > 1:
        found.add(About.STEP)
    return frozenset(found)


def after(rows: Sequence[Compared], ordinal: int) -> Compared | None:
    """Return the next item without a resolution after that place in the queue, else the first one before it."""
    undecided = [each for each in rows if each.resolution is None and each.item.ordinal != ordinal]
    later = (each for each in undecided if each.item.ordinal > ordinal)
    return next(later, undecided[0] if undecided else None)


def count_open(rows: Sequence[Compared]) -> int:
    return sum(each.status == DisputeStatus.OPEN for each in rows)


def code_names(queue: Queue) -> dict[int, Code]:
    return {code.pk: code for code in queue.version.codes.all()}


# --- resolutions -----------------------------------------------------------------------------------------------------

MAX_MEMO = 20_000
DISAGREED = "The reviewers disagreed here, so choose a different reason."


@dataclass(frozen=True, slots=True)
class AdjudicatorVerdict:
    """The adjudicator's answer: codes of the queue's version or `nothing_wrong`, what failed, why reviews differed."""

    codes: frozenset[UUID]
    category: str = ""
    attribution: str = ""
    memo: str = ""
    nothing_wrong: bool = False


class Unresolvable(ValueError):
    """What is wrong with an answer, one sentence each."""

    def __init__(self, problems: Collection[str]) -> None:
        super().__init__(" ".join(problems))
        self.problems = list(problems)


class Superseded(Exception):
    """Somebody resolved the item since the page was opened; `resolution` is their answer."""

    def __init__(self, resolution: Resolution | None) -> None:
        super().__init__("Somebody else settled this item first. Yours was not saved; both are shown.")
        self.resolution = resolution


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
        return str(AskedElsewhere([item.queue], user))
    own = Review.objects.filter(item=item, reviewer=user).exclude(state=Review.State.DRAFT)
    if not user.may(User.Level.ADMIN) and own.exists():
        return "You reviewed this item. Somebody else or an admin must settle it."
    return ""


def closed_sentence(left: int) -> str:
    items = plural(left, "item")
    return f"You still have {items} of this queue's overlap to review before you see other reviews. Finish them first."


def resolve(item: QueueItem, user: User, verdict: AdjudicatorVerdict, *, seen: UUID | None) -> Resolution:
    """Save the answer in place of `seen`, the resolution that the page showed (None: there was none).

    Raises PermissionDenied, Unresolvable (nothing to resolve, or an answer that contradicts itself), Superseded.
    """
    if reason := explain_barred(item, user):
        raise PermissionDenied(reason)
    codes = _check(item, verdict)
    current = Resolution.objects.filter(item=item, superseded_at=None)
    now = timezone.now()
    try:
        with transaction.atomic():
            replaced = current.filter(public_id=seen).update(superseded_at=now) if seen else 0
            if seen and not replaced:
                raise Superseded(current.first())
            made = Resolution.objects.create(
                item=item,
                adjudicator=user,
                category=verdict.category,
                attribution=verdict.attribution,
                memo=verdict.memo,
            )
            made.codes.set(codes)
            detail = {
                "resolution": str(made.public_id),
                "supersedes": str(seen) if seen else None,
                "codes": sorted(code.name for code in codes),
                "category": made.category,
                "attribution": made.attribution,
            }
            note_activity(user, "item.resolved", item, detail=detail, reason=verdict.memo)
    except IntegrityError as error:  # there is another one: the constraint allows only one
        raise Superseded(current.first()) from error
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
    code_sets = read_code_sets(item)
    if len(code_sets) < 2:
        problems.append("Fewer than two people reviewed this item, so there is nothing to settle.")
    elif verdict.category == Resolution.Category.AGREED and (
        len(set(code_sets)) > 1 or {code.pk for code in codes} not in code_sets
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
