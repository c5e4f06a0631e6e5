from __future__ import annotations

from django.db import models
from django.db.models import Q

from benchapp.models.base import PublicModel, SlicedModel, SlicedQuerySet
from benchapp.models.blobs import Blob
from benchapp.models.libraries import Snapshot
from benchapp.models.people import User
from benchapp.models.stand_ins import StandIn, find_stand_ins
from benchapp.models.suites import Suite
from runner.drafting.draft import Loop
from runner.models import is_scripted


class DraftQuerySet(SlicedQuerySet["Draft"]):
    """Drafts by who works on them. A person who edited a draft that is done can make it continue."""

    def of_suite(self, suite: Suite) -> DraftQuerySet:
        """Drafts that try out their tasks there, or had them admitted into it."""
        return self.filter(Q(admitted_as=suite) | Q(suite=suite))


class Draft(SlicedModel):
    """A family of tasks in progress. `head` is its current state; the steps are its history."""

    name = models.CharField(max_length=200)
    loop = models.CharField(max_length=16, choices=[(each.value, each.value) for each in Loop])
    brief = models.JSONField()  # the DraftBrief, plain
    model = models.CharField(max_length=200)  # as asked for
    max_calls = models.PositiveIntegerField(null=True)  # null: no limit
    max_usd = models.FloatField(null=True)
    head = models.ForeignKey(Snapshot, on_delete=models.PROTECT, related_name="+")
    asked_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    asked_at = models.DateTimeField()
    suite = models.ForeignKey(
        Suite, null=True, on_delete=models.SET_NULL, related_name="+"
    )  # under trial: all its tasks
    admitted_as = models.ForeignKey(Suite, null=True, on_delete=models.SET_NULL, related_name="drafts")

    objects = DraftQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.name

    @property
    def stand_ins(self) -> frozenset[StandIn]:
        """Return each `StandIn` by the model that was asked for. Pages know more, from the answers."""
        return find_stand_ins(is_scripted(self.model), self.model)


class DraftStep(PublicModel):
    """One step of a draft, numbered in order. The request is committed before the model is asked, and the reply before
    it is used; `after` is the resulting files."""

    class Kind(models.TextChoices):
        GIVEN = "given"  # the files it began with
        ANSWER = "answer"  # of a model
        EDIT = "edit"  # by a person
        TRIAL = "trial"  # written as a suite, to be screened and qualified
        ADMISSION = "admission"  # into a suite

    class Status(models.TextChoices):
        STARTED = "started"
        TAKEN = "taken"
        UNUSABLE = "unusable"  # the reply is kept; `error` says what was expected
        FAILED = "failed"  # no reply

    draft = models.ForeignKey(Draft, on_delete=models.CASCADE, related_name="steps")
    number = models.PositiveIntegerField()
    kind = models.CharField(max_length=16, choices=Kind)
    status = models.CharField(max_length=16, choices=Status)
    key = models.CharField(max_length=300, blank=True)  # of an answer: which ask it answers
    role = models.CharField(max_length=32, blank=True)
    by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    before = models.ForeignKey(Snapshot, on_delete=models.PROTECT, related_name="+")
    after = models.ForeignKey(Snapshot, on_delete=models.PROTECT, related_name="+")
    summary = models.TextField(blank=True)
    accepts = models.BooleanField(null=True)  # the critic's verdict
    words = models.TextField(blank=True)
    findings = models.JSONField(default=list)  # a line each
    error = models.TextField(blank=True)
    model = models.CharField(max_length=200, blank=True)
    scripted = models.BooleanField(default=False)
    request = models.ForeignKey(Blob, null=True, on_delete=models.PROTECT, related_name="+")  # JSON of the ModelRequest
    reply = models.ForeignKey(Blob, null=True, on_delete=models.PROTECT, related_name="+")  # JSON of the ModelReply
    input_tokens = models.PositiveBigIntegerField(null=True)
    output_tokens = models.PositiveBigIntegerField(null=True)
    cost_usd = models.FloatField(null=True)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["draft", "number"], name="draft_step_number"),
            models.UniqueConstraint(
                fields=["draft", "key"], condition=Q(status="taken") & ~Q(key=""), name="one_draft_answer_per_key"
            ),
        ]

    @property
    def stand_ins(self) -> frozenset[StandIn]:
        return find_stand_ins(self.scripted, self.model)
