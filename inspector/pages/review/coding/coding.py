"""The coding panel: the codes with their keys, what the person said so far, and, once allowed, what others said."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from django.db.models import Prefetch
from django.urls import reverse

from benchapp.models import Attribution, Code, CodebookVersion, Mark, Queue, QueueItem, Review, User
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.review.blinding import Hidden
from benchapp.review.codebooks.hierarchy import in_order, keys_of
from benchapp.review.coding.anchors import ItemEvidence
from benchapp.review.coding.drafts import (
    MAX_LABELS,
    MAX_MARKS,
    MAX_MEMO,
    MAX_REASON,
    asks_guess,
    draft_of,
    guess_options,
    has_place,
    may_code,
)
from benchapp.review.queues.passes import (
    BLAMES,
    NONE_MOUNTED,
    first_pass_of,
    judging_skills,
    lacks_skills,
    second_pass_of,
)
from benchapp.review.queues.review_progress import team_of

MAX_OTHERS = 20
MAX_TEAM = 6


@dataclass(frozen=True, slots=True)
class CodeLine(Shaped):
    """A code in its place of the tree. `key` is what one presses for it, "" where the keys ran out: it is found by name.
    waits: nobody can judge it here, as skills are hidden or none was mounted."""

    code: Code
    depth: int
    key: str
    is_group: bool
    waits: bool

    json_shape = JsonShape(
        *("id=code.public_id", "name=code.name", "depth", "definition=code.definition", "include=code.include"),
        *("exclude=code.exclude", "keys=key", "waits_for_skills=waits"),
    )


@dataclass(frozen=True, slots=True)
class CodingPanel:
    """`review`: the person's own, None before the first save. `has_place`: an answer of theirs can begin or continue.
    `done`, `total`: items of the queue that they finished, and all. `team`: how far each is, and `others`: what they submitted,
    as soon as it may be shown."""

    limits: ClassVar = {"memo": MAX_MEMO, "reason": MAX_REASON, "marks": MAX_MARKS, "labels": MAX_LABELS}
    confidences: ClassVar = [(value, label.lower()) for value, label in Review.Confidence.choices]

    item: QueueItem
    user: User
    codes: tuple[CodeLine, ...]
    review: Review | None
    draft: dict[str, object]
    may_code: bool
    has_place: bool
    is_held: bool
    is_shared: bool  # other people code in this queue, so its places can run out
    hidden: Hidden
    done: int
    total: int
    team: tuple[tuple[User, int], ...]
    previous: str | None  # address of the item before it in the queue
    following: str | None
    first_pass: Queue | None
    second_pass: Queue | None
    others: tuple[Review, ...]
    guess: tuple[str, ...]

    @property
    def is_final(self) -> bool:
        return self.review is not None and self.review.is_final

    @property
    def is_open(self) -> bool:
        """The person may write here now."""
        return self.may_code and self.has_place and not self.is_final and self.item.queue.is_open

    @property
    def attributions(self) -> list[tuple[str, str, str, bool]]:
        """(value, word, key, cannot be judged here)"""
        return [
            (each.value, each.label, str(number), bool(self.waiting) and each in BLAMES)
            for number, each in enumerate(Attribution, start=1)
        ]

    @property
    def hides_skills(self) -> bool:
        """From this person, now."""
        return self.item.trial_id is not None and self.hidden.conditions

    @property
    def why_waiting(self) -> str:
        """Why codes about skills cannot be set, as the end of a sentence."""
        return "it waits for pass 2, which shows the skills" if self.hides_skills else NONE_MOUNTED

    @property
    def ready(self) -> list[CodeLine]:
        return [line for line in self.codes if not line.waits]

    @property
    def waiting(self) -> list[CodeLine]:
        return [line for line in self.codes if line.waits]

    @property
    def number(self) -> int:
        return self.item.ordinal + 1

    def page(self) -> dict[str, object]:
        """What the page's script works with."""
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
    """The tree of a version in order, each code with its key. Three queries."""
    flat = in_order(version.codes.order_by("ordinal", "id"))
    parents = {code.parent_id for code, _ in flat}
    keys = keys_of(version)
    waits = judging_skills(code for code, _ in flat) if without_skills else frozenset()
    return [CodeLine(code, depth, keys[code.pk], code.pk in parents, code.pk in waits) for code, depth in flat]


def coding_of(item: QueueItem, user: User, *, hidden: Hidden, evidence: ItemEvidence) -> CodingPanel:
    """`item` with its queue, version and codebook loaded. The number of queries does not grow with the reviews."""
    marks = Prefetch("marks", Mark.objects.order_by("ordinal", "id").prefetch_related("labels__code"))
    reviews = item.reviews.select_related("reviewer").prefetch_related(marks).order_by("submitted_at", "id")
    if hidden.labels:
        reviews = reviews.filter(reviewer=user)
    review = next((found for found in reviews if found.reviewer_id == user.pk), None)
    own = Review.objects.filter(item__queue=item.queue_id, reviewer=user)
    asks = review is not None and asks_guess(item, review)
    without_skills = item.trial_id is not None and (hidden.conditions or lacks_skills(item))
    neighbours = item.queue.items.filter(ordinal__in=(item.ordinal - 1, item.ordinal + 1))
    around = {each.ordinal: each.get_absolute_url() for each in neighbours}
    return CodingPanel(
        item=item,
        user=user,
        codes=tuple(code_lines(item.queue.version, without_skills=without_skills)),
        review=review,
        draft=draft_of(review, evidence),
        may_code=may_code(item, user),
        has_place=has_place(item, user),
        is_held=item.slots.filter(holder=user).exists(),
        is_shared=item.queue.reviewers.exclude(pk=user.pk).exists(),
        hidden=hidden,
        done=own.exclude(state=Review.State.DRAFT).count(),
        total=item.queue.items.count(),
        team=() if hidden.labels else tuple(team_of(item.queue)[:MAX_TEAM]),
        previous=around.get(item.ordinal - 1),
        following=around.get(item.ordinal + 1),
        first_pass=first_pass_of(item.queue),
        second_pass=second_pass_of(item.queue),
        others=tuple(found for found in reviews if found.reviewer_id != user.pk and found.is_final)[:MAX_OTHERS],
        guess=tuple(guess_options(item)) if asks else (),
    )
