from __future__ import annotations

import uuid
from collections.abc import Iterable
from typing import Any, Self, TypeVar

from django.db import models
from django.db.models import Q
from django.urls import reverse

from benchapp.models.base import GuardedModel, GuardedQuerySet, PublicModel
from benchapp.models.blobs import Blob
from benchapp.models.episodes import Episode
from benchapp.models.experiments import Run
from benchapp.models.libraries import Decision, Snapshot
from benchapp.models.people import User
from benchapp.models.stand_ins import StandIn, find_stand_ins
from benchapp.models.trajectories import Trajectory
from benchapp.models.trials import Trial


class FrozenVersion(Exception):
    """A frozen version, or something in it, cannot be changed."""


def _refuse_frozen(found: models.QuerySet[models.Model]) -> None:
    if found.exists():
        raise FrozenVersion("A frozen version of a codebook never changes; change the draft of its next version.")


class VersionQuerySet(GuardedQuerySet["CodebookVersion"]):
    """Freezing is an update of drafts: `drafts().filter(...).update(frozen_at=...)`."""

    def drafts(self) -> Self:
        return self.filter(frozen_at=None)

    def frozen(self) -> Self:
        return self.exclude(frozen_at=None)

    def refuse_fixed(self) -> None:
        _refuse_frozen(self.frozen())


class VersionPart(GuardedModel):
    """A row that belongs to a version of a codebook and is frozen with it."""

    TO_VERSION = "version"

    class Meta:
        abstract = True

    def version_id_of(self) -> int:
        raise NotImplementedError

    def refuse_fixed(self) -> None:
        _refuse_frozen(CodebookVersion.objects.frozen().filter(pk=self.version_id_of()))


Part = TypeVar("Part", bound=VersionPart)


class PartQuerySet(GuardedQuerySet[Part]):
    """Rows that each belong to one version, found along the model's `TO_VERSION`. Frozen ones never change."""

    def bulk_create(self, objs: Iterable[Part], *args: Any, **kwargs: Any) -> list[Part]:
        rows = list(objs)
        _refuse_frozen(CodebookVersion.objects.frozen().filter(pk__in={row.version_id_of() for row in rows}))
        return super().bulk_create(rows, *args, **kwargs)

    def refuse_fixed(self) -> None:
        _refuse_frozen(self.exclude(**{f"{self.model.TO_VERSION}__frozen_at": None}))


class Codebook(PublicModel):
    """A failure taxonomy in progress. Its versions hold the content."""

    name = models.CharField(max_length=200, unique=True)
    about = models.TextField(blank=True)
    cloned_from = models.CharField(max_length=200, blank=True)  # "starter NAME", or the public id of a version
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("codebook", args=[self.public_id])


class CodebookVersion(GuardedModel, PublicModel):
    """A draft, one at a time, until it is frozen. A frozen version never changes, and only its codes can label."""

    codebook = models.ForeignKey(Codebook, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    previous = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="followers")
    note = models.TextField(blank=True)  # why this version
    digest = models.CharField(max_length=64, blank=True)  # of its codes in canonical JSON, taken when frozen
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")
    frozen_at = models.DateTimeField(null=True)
    frozen_by = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")

    objects = VersionQuerySet.as_manager()

    class Meta:
        ordering = ["codebook", "-number"]
        constraints = [
            models.UniqueConstraint(fields=["codebook", "number"], name="codebook_version_number"),
            models.UniqueConstraint(fields=["codebook"], condition=Q(frozen_at=None), name="one_draft_per_codebook"),
        ]

    def __str__(self) -> str:
        return f"{self.codebook.name} v{self.number}"

    def get_absolute_url(self) -> str:
        return reverse("codebook-version", args=[self.public_id])

    def refuse_fixed(self) -> None:
        if self.pk is not None:
            CodebookVersion.objects.filter(pk=self.pk).refuse_fixed()

    @property
    def is_frozen(self) -> bool:
        return self.frozen_at is not None


class Code(VersionPart, PublicModel):
    """One kind of failure in one version. Its origins say which codes of the version before it came from."""

    version = models.ForeignKey(CodebookVersion, on_delete=models.PROTECT, related_name="codes")
    parent = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="children")
    name = models.CharField(max_length=120)
    definition = models.TextField(blank=True)
    include = models.TextField(blank=True)  # label it when ...
    exclude = models.TextField(blank=True)  # do not when ..., and what to use instead
    ordinal = models.PositiveIntegerField(default=0)

    objects = PartQuerySet.as_manager()

    class Meta:
        ordering = ["ordinal", "id"]
        constraints = [models.UniqueConstraint(fields=["version", "name"], name="code_name")]

    def __str__(self) -> str:
        return self.name

    def version_id_of(self) -> int:
        return self.version_id


class CodeOrigin(VersionPart):
    """How a code follows from one of the version before. A code of the old version without a follower was retired."""

    class Kind(models.TextChoices):
        KEPT = "kept"
        RENAMED = "renamed"
        REDEFINED = "redefined"  # definition, include or exclude differs
        MERGED = "merged"  # several became this one
        SPLIT = "split"  # this is one of several that one became

    code = models.ForeignKey(Code, on_delete=models.CASCADE, related_name="origins")
    before = models.ForeignKey(Code, on_delete=models.PROTECT, related_name="became")
    kind = models.CharField(max_length=16, choices=Kind)

    TO_VERSION = "code__version"
    objects = PartQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["code", "before"], name="code_origin")]

    def version_id_of(self) -> int:
        return self.code.version_id


class CodeExample(VersionPart, PublicModel):
    """An anchor in real evidence that shows what a code means, or (`is_counter`) what it does not."""

    code = models.ForeignKey(Code, on_delete=models.CASCADE, related_name="examples")
    trial = models.ForeignKey(Trial, null=True, on_delete=models.PROTECT, related_name="+")
    decision = models.ForeignKey(Decision, null=True, on_delete=models.PROTECT, related_name="+")
    step = models.PositiveIntegerField(null=True)
    field = models.CharField(max_length=64, blank=True)
    start = models.PositiveBigIntegerField(null=True)
    end = models.PositiveBigIntegerField(null=True)
    path = models.CharField(max_length=1000, blank=True)  # of a skill file, for a decision
    quote = models.TextField(blank=True)
    note = models.TextField(blank=True)
    is_counter = models.BooleanField(default=False)
    added_by = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")

    TO_VERSION = "code__version"
    objects = PartQuerySet.as_manager()

    class Meta:
        ordering = ["id"]

    def version_id_of(self) -> int:
        return self.code.version_id


class Queue(PublicModel):
    """What is reviewed: version, reviewers, reviews for each item, and what is hidden from them. Fixed when it is made,
    but the number of reviews can be raised."""

    class Unit(models.TextChoices):
        TRIAL = "trial"
        DECISION = "decision"
        SNAPSHOT = "snapshot"

    class Sampling(models.TextChoices):
        ALL = "all"
        RANDOM = "random"
        STRATIFIED = "stratified"

    name = models.CharField(max_length=200)
    version = models.ForeignKey(CodebookVersion, on_delete=models.PROTECT, related_name="queues")  # frozen
    unit = models.CharField(max_length=16, choices=Unit, default=Unit.TRIAL)
    instructions = models.TextField(blank=True)
    population = models.TextField(blank=True)  # the filter it was drawn from, as a query string
    population_total = models.PositiveIntegerField()
    sampling = models.CharField(max_length=16, choices=Sampling)
    strata = models.CharField(max_length=64, blank=True)  # the facet that stratifies
    seed = models.PositiveBigIntegerField(default=0)
    reviews_per_item = models.PositiveSmallIntegerField(default=1)  # of items in the overlap
    overlap_share = models.FloatField(default=1.0)  # of the items; the others get one review
    hides_labels = models.BooleanField(default=True)  # other people's, until one's own review is submitted
    hides_suggestions = models.BooleanField(default=True)
    hides_conditions = models.BooleanField(default=True)
    hides_models = models.BooleanField(default=True)
    reservation_seconds = models.PositiveIntegerField(default=1800)
    reviewers = models.ManyToManyField(User, related_name="queues")
    carried_from = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="carried_to")
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")
    closed_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-created_at", "-id"]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("queue", args=[self.public_id])

    @property
    def is_open(self) -> bool:
        return self.closed_at is None

    @property
    def is_blind(self) -> bool:
        """True where an item shows less than the record knows about the trial, decision or library."""
        return self.hides_conditions or self.hides_models


class QueueItem(PublicModel):
    """One unit under review. Its public id reveals nothing about what it points at."""

    queue = models.ForeignKey(Queue, on_delete=models.PROTECT, related_name="items")
    ordinal = models.PositiveIntegerField()
    trial = models.ForeignKey(Trial, null=True, on_delete=models.PROTECT, related_name="review_items")
    decision = models.ForeignKey(Decision, null=True, on_delete=models.PROTECT, related_name="review_items")
    snapshot = models.ForeignKey(Snapshot, null=True, on_delete=models.PROTECT, related_name="review_items")
    episode = models.ForeignKey(Episode, null=True, on_delete=models.PROTECT, related_name="+")  # of the snapshot
    stratum = models.CharField(max_length=300, blank=True)
    inclusion = models.FloatField()  # the probability that the draw took it, > 0 and <= 1
    is_control = models.BooleanField(default=False)  # a pass among failures
    is_overlap = models.BooleanField(default=False)
    reviews_needed = models.PositiveSmallIntegerField(default=1)

    class Meta:
        ordering = ["ordinal"]
        constraints = [
            models.UniqueConstraint(fields=["queue", "ordinal"], name="queue_item_place"),
            models.UniqueConstraint(fields=["queue", "trial"], condition=~Q(trial=None), name="queue_trial_once"),
            models.UniqueConstraint(
                fields=["queue", "decision"], condition=~Q(decision=None), name="queue_decision_once"
            ),
            models.CheckConstraint(condition=Q(inclusion__gt=0, inclusion__lte=1), name="inclusion_is_a_probability"),
            models.CheckConstraint(
                condition=Q(trial__isnull=False, decision=None, snapshot=None)
                | Q(trial=None, decision__isnull=False, snapshot=None)
                | Q(trial=None, decision=None, snapshot__isnull=False),
                name="queue_item_is_one_unit",
            ),
        ]

    def get_absolute_url(self) -> str:
        return reverse("review-item", args=[self.public_id])

    @property
    def library(self) -> tuple[Snapshot, Episode]:
        """Return the library under review. ValueError for an item about a trial or a decision."""
        if self.snapshot is None or self.episode is None:
            raise ValueError(f"item {self.public_id} reviews no library")
        return self.snapshot, self.episode


class Slot(models.Model):
    """A place for one review of an item: held by one person at a time, then filled by their review for good."""

    item = models.ForeignKey(QueueItem, on_delete=models.CASCADE, related_name="slots")
    place = models.PositiveSmallIntegerField()
    holder = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="held_slots")
    held_until = models.DateTimeField(null=True)
    review = models.OneToOneField("benchapp.Review", null=True, on_delete=models.PROTECT, related_name="slot")

    class Meta:
        ordering = ["item", "place"]
        constraints = [
            models.UniqueConstraint(fields=["item", "place"], name="slot_place"),
            models.UniqueConstraint(fields=["item", "holder"], condition=~Q(holder=None), name="one_slot_per_person"),
        ]


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

    class Status(models.TextChoices):
        STARTED = "started"
        ANSWERED = "answered"
        REFUSED = "refused"
        UNREADABLE = "unreadable"
        FAILED = "failed"

    queue = models.ForeignKey(Queue, on_delete=models.PROTECT, related_name="judge_calls")
    item = models.ForeignKey(QueueItem, on_delete=models.PROTECT, related_name="judge_calls")
    model = models.CharField(max_length=200)
    prompt_version = models.CharField(max_length=64)
    scripted = models.BooleanField(default=False)
    status = models.CharField(max_length=16)  # a Status
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
    # null: no such code
    code = models.ForeignKey(Code, null=True, on_delete=models.PROTECT, related_name="suggestions")
    code_name = models.CharField(max_length=120)
    attribution = models.CharField(max_length=16, choices=Attribution, blank=True)
    step = models.PositiveIntegerField(null=True)
    quote = models.TextField(blank=True)
    reason = models.TextField(blank=True)
    call = models.ForeignKey(JudgeCall, null=True, on_delete=models.PROTECT, related_name="suggestions")
    made_at = models.DateTimeField(auto_now_add=True)

    class Meta:
        ordering = ["item", "id"]


class Comment(PublicModel):
    """A remark on a step, a line of a diff or a chart. Never edited; its author may retract it, which stays visible."""

    class On(models.TextChoices):
        STEP = "step"
        LINE = "line"
        CHART = "chart"

    on = models.CharField(max_length=16, choices=On)
    place = models.CharField(max_length=1000, db_index=True)  # canonical name of the place; equal places, equal text
    address = models.CharField(max_length=2000)  # path and query of the page that shows it
    trial = models.ForeignKey(Trial, null=True, on_delete=models.PROTECT, related_name="comments")
    run = models.ForeignKey(Run, null=True, on_delete=models.PROTECT, related_name="comments")
    parent = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="replies")
    author = models.ForeignKey(User, on_delete=models.PROTECT, related_name="comments")
    text = models.TextField()
    written_at = models.DateTimeField(auto_now_add=True, db_index=True)
    retracted_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["written_at", "id"]


class Mention(models.Model):
    """A comment that names somebody, and whether they have read it."""

    comment = models.ForeignKey(Comment, on_delete=models.CASCADE, related_name="mentions")
    user = models.ForeignKey(User, on_delete=models.PROTECT, related_name="mentions")
    read_at = models.DateTimeField(null=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["comment", "user"], name="mention_once")]
