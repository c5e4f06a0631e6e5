from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.urls import reverse

from benchapp.models.base import PublicModel
from benchapp.models.codebooks import CodebookVersion
from benchapp.models.episodes import Episode
from benchapp.models.libraries import Decision, Snapshot
from benchapp.models.people import User
from benchapp.models.trials import Trial


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
