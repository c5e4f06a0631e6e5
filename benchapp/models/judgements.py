"""A language model's judgements of a run's skills and trajectories, with every prompt and reply.

Levels 1 and 2 of SkillLearnBench. Not in the record digest: a judgement never changes the record.
"""

from __future__ import annotations

from django.db import models

from benchapp.models.base import PublicModel, SlicedModel, SlicedQuerySet
from benchapp.models.blobs import Blob
from benchapp.models.experiments import Run
from benchapp.models.libraries import Snapshot
from benchapp.models.stand_ins import StandIn, find_stand_ins
from benchapp.models.suites import Task
from benchapp.models.trials import Attempt
from runner.judging.metrics import Metric


class JudgingQuerySet(models.QuerySet["Judging"]):
    """Passes of judges over runs."""

    def of_run(self, run: Run) -> JudgingQuerySet:
        """Newest first."""
        return self.filter(run=run).order_by("-started_at", "-id")


class Judging(PublicModel):
    """One pass of one judging model over a run. Continuing it adds to it; another repeat asks everything again."""

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="judgings")
    model = models.CharField(max_length=200)
    model_version = models.CharField(max_length=64, blank=True)
    prompt_version = models.CharField(max_length=32)
    scripted = models.BooleanField(default=False)
    repeat = models.PositiveIntegerField(default=1)  # from 1
    metrics = models.JSONField(default=list)  # all that have been asked for
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)  # when it last completed; null: never
    stopped = models.TextField(blank=True)  # why it ended early; empty: it did not, or is still running

    objects = JudgingQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [
            models.UniqueConstraint(fields=["run", "model", "prompt_version", "repeat"], name="one_pass_of_a_judge")
        ]

    @property
    def stand_ins(self) -> frozenset[StandIn]:
        return find_stand_ins(self.scripted, self.model)

    def __str__(self) -> str:
        return f"{self.model}, {self.prompt_version}, repeat {self.repeat}"


class JudgingOrderQuerySet(SlicedQuerySet["JudgingOrder"]):
    """What is to be judged in the background."""

    def open(self) -> JudgingOrderQuerySet:
        return self.filter(status=JudgingOrder.Status.WAITING, run__experiment__deleted_at=None)

    def unfinished(self) -> JudgingOrderQuerySet:
        """Every order of experiments that have an open or stopped one, so that they can be counted together."""
        left = JudgingOrder.objects.exclude(status=JudgingOrder.Status.DONE).values("run__experiment")
        return self.filter(run__experiment__in=left)

    def due(self) -> SlicedQuerySet[JudgingOrder]:
        """Orders whose run has ended and that nobody works on."""
        return super().due().filter(run__status=Run.Status.DONE)


class JudgingOrder(SlicedModel):
    """An order to judge a run in the background after it ends, from an experiment file or a person.

    One for each run, model and prompts; asking again reopens it. `tasks_done` counts finished tasks of the run.
    """

    run = models.ForeignKey(Run, on_delete=models.CASCADE, related_name="judging_orders")
    model = models.CharField(max_length=200)  # as asked for
    prompts = models.CharField(max_length=100)
    metrics = models.JSONField(default=list)  # empty: all
    max_calls = models.PositiveIntegerField(null=True)  # null: no limit
    max_usd = models.FloatField(null=True)
    asked_by = models.ForeignKey("benchapp.User", null=True, on_delete=models.SET_NULL, related_name="+")
    asked_at = models.DateTimeField()
    judging = models.ForeignKey(Judging, null=True, on_delete=models.SET_NULL, related_name="orders")  # null: not begun
    tasks_done = models.PositiveIntegerField(default=0)
    tasks_total = models.PositiveIntegerField(null=True)  # null: not begun

    objects = JudgingOrderQuerySet.as_manager()

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["run", "model", "prompts"], name="one_judging_order")]

    def __str__(self) -> str:
        return f"{self.model} on {self.run}"


class JudgedUnit(PublicModel):
    """One question of a pass: a metric about a key point and a library, a skill, or an attempt; or a reference to draw.

    Level 1 has a snapshot, and a skill except for coverage; level 2 an attempt. `key` names the unit everywhere: it is
    equal in two passes over equal records, so that they can be paired.
    """

    class Status(models.TextChoices):
        ASKED = "asked"  # running, or its judge vanished
        OK = "ok"
        PARTIAL = "partial"  # a field is missing after every try; the others count
        MALFORMED = "malformed"
        PROSE = "prose"
        WRONG_TYPE = "wrong-type"
        OUT_OF_RANGE = "out-of-range"
        EMPTY = "empty"
        REFUSED = "refused"
        FAILED = "failed"  # the provider gave no reply; asked again when the pass continues
        NO_POINTS = "no-points"  # the task has no key points of this kind, and says so
        NO_REFERENCE = "no-reference"  # nothing to draw key points or steps from
        NO_TRAJECTORY = "no-trajectory"

    judging = models.ForeignKey(Judging, on_delete=models.CASCADE, related_name="units")
    key = models.CharField(max_length=600)
    metric = models.CharField(max_length=32, choices=[(metric.value, metric.value) for metric in Metric])
    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="+")
    snapshot = models.ForeignKey(Snapshot, null=True, on_delete=models.PROTECT, related_name="+")
    skill = models.CharField(max_length=200, blank=True)
    attempt = models.ForeignKey(Attempt, null=True, on_delete=models.CASCADE, related_name="+")
    point = models.TextField(blank=True)  # the key point asked about
    status = models.CharField(max_length=16, choices=Status, default=Status.ASKED, db_index=True)
    problem = models.TextField(blank=True)  # what was wrong with the last reply
    points = models.JSONField(default=list)  # of a reference: [{text, reason, reference}]
    source = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="+")  # of a copied one

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["judging", "key"], name="judged_once")]
        indexes = [models.Index(fields=["judging", "metric", "status"])]

    def __str__(self) -> str:
        return f"{self.metric} ({self.status})"


_NOT_ANSWERED = {"asked", "failed", "no-points", "no-reference", "no-trajectory"}  # asked again by the next call
SETTLED = frozenset(status.value for status in JudgedUnit.Status) - _NOT_ANSWERED
UNUSABLE = ("malformed", "prose", "wrong-type", "out-of-range", "empty", "refused", "failed")


class JudgingTry(models.Model):
    """One call for a unit. Request and reply are kept with any outcome; null: no reply came."""

    unit = models.ForeignKey(JudgedUnit, on_delete=models.CASCADE, related_name="tries")
    number = models.PositiveIntegerField()  # from 1, in the order asked
    request = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="+")  # JSON of the ModelRequest
    reply = models.ForeignKey(Blob, null=True, on_delete=models.PROTECT, related_name="+")  # JSON of the ModelReply
    error = models.TextField(blank=True)
    input_tokens = models.PositiveBigIntegerField(null=True)
    output_tokens = models.PositiveBigIntegerField(null=True)
    cost_usd = models.FloatField(null=True)
    price_table = models.CharField(max_length=64, blank=True)
    asked_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "judging tries"
        ordering = ["number"]
        constraints = [models.UniqueConstraint(fields=["unit", "number"], name="judging_try_number")]


class Judgement(models.Model):
    """One scored item of an answered unit. `raw`: 1..5, or 1 and 0 for a label that counts or not; `value`: 0..100."""

    unit = models.ForeignKey(JudgedUnit, on_delete=models.CASCADE, related_name="judgements")
    item = models.CharField(max_length=64)
    raw = models.FloatField()
    label = models.CharField(max_length=32, blank=True)
    value = models.FloatField()
    reason = models.TextField(blank=True)

    class Meta:
        ordering = ["id"]
        constraints = [models.UniqueConstraint(fields=["unit", "item"], name="judged_item")]
