from __future__ import annotations

import uuid
from typing import Any, TypeVar

from django.db import models
from django.db.models import Q

from benchapp.models.base import GuardedModel, GuardedQuerySet, PublicModel
from benchapp.models.blobs import Blob
from benchapp.models.codebooks import Code, CodebookVersion
from benchapp.models.people import User
from benchapp.models.queues import Queue, QueueItem
from benchapp.models.stand_ins import StandIn, find_stand_ins
from benchapp.models.trajectories import Trajectory


class Attribution(models.TextChoices):
    """Who or what failed, kept apart from how: else a taxonomy mixes the two."""

    AGENT = "agent", "agent"
    SKILL = "skill", "skill text"
    AUTHOR = "author", "author's decision"
    COMPACTION = "compaction", "compaction"
    VERIFIER = "verifier", "verifier"
    HARNESS = "harness", "harness"
    TASK = "task", "task"


class FinalReview(Exception):
    """A submitted review cannot be changed."""


class ReviewQuerySet(GuardedQuerySet["Review"]):
    """Changes drafts only: a submitted or skipped review stays as it is, except for the guess that comes after it."""

    AFTERWARDS = frozenset({"guess", "guessed_at"})

    def update(self, **fields: Any) -> int:
        if set(fields) <= self.AFTERWARDS:
            return models.QuerySet.update(self, **fields)
        return super().update(**fields)

    update.alters_data = True  # type: ignore[attr-defined]

    def refuse_fixed(self) -> None:
        if self.exclude(state=Review.State.DRAFT).exists():
            raise FinalReview("A submitted or skipped review never changes.")


class Review(GuardedModel, PublicModel):
    """One person's coding of one item. Drafts may change; a submitted one never does (FinalReview)."""

    class State(models.TextChoices):
        DRAFT = "draft"
        SUBMITTED = "submitted"
        SKIPPED = "skipped"

    class Confidence(models.IntegerChoices):
        LOW = 1
        MEDIUM = 2
        HIGH = 3

    item = models.ForeignKey(QueueItem, on_delete=models.PROTECT, related_name="reviews")
    reviewer = models.ForeignKey(User, on_delete=models.PROTECT, related_name="reviews")
    state = models.CharField(max_length=16, choices=State, default=State.DRAFT)
    revision = models.PositiveIntegerField(default=0)  # counts saves; a save names the one it started from
    memo = models.TextField(blank=True)
    confidence = models.PositiveSmallIntegerField(null=True, choices=Confidence)
    skip_reason = models.CharField(max_length=500, blank=True)
    started_at = models.DateTimeField(auto_now_add=True)
    saved_at = models.DateTimeField(auto_now=True)
    submitted_at = models.DateTimeField(null=True)  # or skipped
    seconds = models.FloatField(default=0)  # the page was in front and somebody was active
    # The condition the reviewer thinks it was, after submitting. With guessed_at and without a guess: does not know.
    guess = models.CharField(max_length=100, blank=True)
    guessed_at = models.DateTimeField(null=True)
    carried_from = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="carried_to")

    objects = ReviewQuerySet.as_manager()

    class Meta:
        ordering = ["item", "id"]
        constraints = [models.UniqueConstraint(fields=["item", "reviewer"], name="one_review_per_person")]

    @property
    def is_final(self) -> bool:
        return self.state != self.State.DRAFT

    def save(self, *args: Any, **kwargs: Any) -> None:
        fields = kwargs.get("update_fields")
        if fields and set(fields) <= ReviewQuerySet.AFTERWARDS:
            models.Model.save(self, *args, **kwargs)
        else:
            super().save(*args, **kwargs)

    save.alters_data = True  # type: ignore[attr-defined]

    def refuse_fixed(self) -> None:
        if self.pk:
            Review.objects.filter(pk=self.pk).refuse_fixed()


def _refuse_said(found: models.QuerySet[Said], state: str) -> None:
    if found.exclude(**{state: Review.State.DRAFT}).exists():
        raise FinalReview("The marks and labels of a submitted review never change.")


class OfReview(GuardedModel):
    """Written with a review, and as final as it is. `STATE`: the path from a row to the review's state."""

    STATE = ""

    class Meta:
        abstract = True

    def refuse_fixed(self) -> None:
        if self.pk:
            _refuse_said(type(self)._default_manager.filter(pk=self.pk), self.STATE)


Said = TypeVar("Said", bound=OfReview)


class OfReviewQuerySet(GuardedQuerySet[Said]):
    """Marks and labels. Those of a final review are final."""

    def refuse_fixed(self) -> None:
        _refuse_said(self, self.model.STATE)


class Mark(OfReview):
    """A reviewer's remark on a place in the evidence. A mark without a place is about the whole item.

    `public_id` is drawn by the page, so that saving twice makes one mark. Offsets count characters of the field's
    canonical text (runner.trajectories.fields); in a skill file (`path`) `start` and `end` are lines from 1.
    """

    STATE = "review__state"
    ANCHOR = ("step", "field", "start", "end", "quote", "path")  # where it points, in its trajectory or in the files

    public_id = models.UUIDField(default=uuid.uuid4, editable=False)
    review = models.ForeignKey(Review, on_delete=models.CASCADE, related_name="marks")
    ordinal = models.PositiveIntegerField(default=0)
    trajectory = models.ForeignKey(Trajectory, null=True, on_delete=models.PROTECT, related_name="+")
    step = models.PositiveIntegerField(null=True)
    field = models.CharField(max_length=64, blank=True)
    start = models.PositiveBigIntegerField(null=True)
    end = models.PositiveBigIntegerField(null=True)
    quote = models.TextField(blank=True)
    path = models.CharField(max_length=1000, blank=True)
    attribution = models.CharField(max_length=16, choices=Attribution, blank=True)
    is_first_failure = models.BooleanField(default=False)  # the first upstream failure of the item
    memo = models.TextField(blank=True)

    objects = OfReviewQuerySet.as_manager()

    class Meta:
        ordering = ["ordinal", "id"]
        constraints = [
            models.UniqueConstraint(fields=["review", "public_id"], name="mark_once"),
            models.UniqueConstraint(fields=["review"], condition=Q(is_first_failure=True), name="one_first_failure"),
        ]


class Label(OfReview):
    """A code on a mark. `needs_look`: carried over from another version whose code was split, redefined or retired."""

    STATE = "mark__review__state"

    mark = models.ForeignKey(Mark, on_delete=models.CASCADE, related_name="labels")
    code = models.ForeignKey(Code, on_delete=models.PROTECT, related_name="labels")
    needs_look = models.BooleanField(default=False)
    carried_from = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="carried_to")

    objects = OfReviewQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["mark", "code"], name="label_once")]


class Resolution(PublicModel):
    """The adjudicator's answer, next to the reviews and never over them. A later one supersedes it; both are kept."""

    class Category(models.TextChoices):
        SLIP = "slip", "a reviewer overlooked it"
        DEFINITION = "definition", "the code's definition is unclear"
        OVERLAP = "overlap", "two codes cover the same thing"
        EVIDENCE = "evidence", "the evidence allows both"
        UNIT = "unit", "they marked different places"
        AGREED = "agreed", "no disagreement, confirmed"

    item = models.ForeignKey(QueueItem, on_delete=models.PROTECT, related_name="resolutions")
    adjudicator = models.ForeignKey(User, on_delete=models.PROTECT, related_name="+")
    category = models.CharField(max_length=16, choices=Category)
    codes = models.ManyToManyField(Code, related_name="resolutions")  # none: nothing is wrong here
    attribution = models.CharField(max_length=16, choices=Attribution, blank=True)
    memo = models.TextField(blank=True)
    resolved_at = models.DateTimeField(auto_now_add=True)
    superseded_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["item", "-resolved_at", "-id"]
        constraints = [
            models.UniqueConstraint(fields=["item"], condition=Q(superseded_at=None), name="one_standing_resolution")
        ]


class AgreementReport(PublicModel):
    """Agreement as it was at one moment. The report that counts is taken before any discussion or resolution."""

    class Occasion(models.TextChoices):
        COMPLETE = "complete", "every item of the overlap was reviewed"
        DISCUSSION = "discussion", "somebody opened the disagreements"
        ASKED = "asked", "somebody asked for it"

    queue = models.ForeignKey(Queue, on_delete=models.PROTECT, related_name="agreement_reports")
    version = models.ForeignKey(CodebookVersion, on_delete=models.PROTECT, related_name="+")
    occasion = models.CharField(max_length=16, choices=Occasion)
    is_before_discussion = models.BooleanField()
    items_total = models.PositiveIntegerField()  # with at least two submitted reviews
    reviewers_total = models.PositiveIntegerField()
    values = models.JSONField()  # what benchapp.stats.agreement found: alpha, interval, per code, matrix
    taken_at = models.DateTimeField(auto_now_add=True)
    taken_by = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ["queue", "-taken_at", "-id"]


class JudgeCall(PublicModel):
    """One question to a judging model about one item: prompt, reply, usage, cost, or the error."""

    queue = models.ForeignKey(Queue, on_delete=models.PROTECT, related_name="judge_calls")
    item = models.ForeignKey(QueueItem, on_delete=models.PROTECT, related_name="judge_calls")
    model = models.CharField(max_length=200)
    prompt_version = models.CharField(max_length=64)
    scripted = models.BooleanField(default=False)
    status = models.CharField(max_length=16)  # started, answered, refused, unreadable, failed
    request = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="+")
    reply = models.ForeignKey(Blob, null=True, on_delete=models.PROTECT, related_name="+")
    error = models.TextField(blank=True)
    input_tokens = models.PositiveBigIntegerField(null=True)
    output_tokens = models.PositiveBigIntegerField(null=True)
    cost_usd = models.FloatField(null=True)
    called_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["id"]

    @property
    def stand_ins(self) -> frozenset[StandIn]:
        return find_stand_ins(self.scripted, self.model)


class Suggestion(PublicModel):
    """What a rule or a judge proposes for an item. Never a label: only people label."""

    item = models.ForeignKey(QueueItem, on_delete=models.PROTECT, related_name="suggestions")
    source = models.CharField(max_length=200)  # "rules", or "judge MODEL"
    rule = models.CharField(max_length=64, blank=True)  # key of the rule
    source_version = models.CharField(max_length=64)
    code = models.ForeignKey(
        Code, null=True, on_delete=models.PROTECT, related_name="suggestions"
    )  # null: no such code
    code_name = models.CharField(max_length=120)
    attribution = models.CharField(max_length=16, choices=Attribution, blank=True)
    step = models.PositiveIntegerField(null=True)
    quote = models.TextField(blank=True)
    reason = models.TextField(blank=True)
    call = models.ForeignKey(JudgeCall, null=True, on_delete=models.PROTECT, related_name="suggestions")
    made_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["item", "id"]
