from __future__ import annotations

from django.db import models
from django.db.models import Count, Q
from django.urls import reverse

from benchapp.models.base import PublicModel
from benchapp.models.suites import Suite


class ExperimentQuerySet(models.QuerySet["Experiment"]):
    def standing(self) -> ExperimentQuerySet:
        """Everything that was not deleted."""
        return self.filter(deleted_at=None)

    def for_list(self) -> ExperimentQuerySet:
        """Newest first, with counts of runs and of trials (total, done, passed, scored) by SQL."""
        trials = "runs__episodes__trials"
        return (
            self.standing()
            .select_related("suite")
            .annotate(
                runs_total=Count("runs", distinct=True),
                trials_total=Count(trials, distinct=True),
                trials_done=Count(trials, filter=Q(**{f"{trials}__is_done": True}), distinct=True),
                trials_scored=Count(trials, filter=Q(**{f"{trials}__success__isnull": False}), distinct=True),
                trials_passed=Count(trials, filter=Q(**{f"{trials}__success": True}), distinct=True),
            )
            .order_by("-created_at", "-id")
        )


class Experiment(PublicModel):
    """What a person launches or imports together and compares."""

    class Status(models.TextChoices):
        WAITING = "waiting"
        RUNNING = "running"
        DONE = "done"
        BLOCKED = "blocked"
        CANCELLED = "cancelled"

    class Origin(models.TextChoices):
        RUN = "run"
        IMPORTED = "imported"
        SYNTHETIC = "synthetic"

    name = models.CharField(max_length=300)
    origin = models.CharField(max_length=16, choices=Origin, default=Origin.RUN)
    status = models.CharField(max_length=16, choices=Status, default=Status.WAITING)
    suite = models.ForeignKey(Suite, null=True, on_delete=models.PROTECT, related_name="experiments")
    spec = models.JSONField(default=dict)  # the experiment file it was launched from, or the redacted source config
    source = models.CharField(max_length=1000, blank=True)  # where an import came from, as the person named it
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    created_by = models.ForeignKey("benchapp.User", null=True, on_delete=models.SET_NULL, related_name="+")
    started_at = models.DateTimeField(null=True)
    finished_at = models.DateTimeField(null=True)
    deleted_at = models.DateTimeField(null=True)  # tombstone; the sweep removes it later

    objects = ExperimentQuerySet.as_manager()

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("experiment", args=[self.public_id])


class RunQuerySet(models.QuerySet["Run"]):
    def standing(self) -> RunQuerySet:
        return self.filter(experiment__deleted_at=None)

    def with_counts(self) -> RunQuerySet:
        trials = "episodes__trials"
        return self.annotate(
            trials_total=Count(trials, distinct=True),
            trials_done=Count(trials, filter=Q(**{f"{trials}__is_done": True}), distinct=True),
            trials_scored=Count(trials, filter=Q(**{f"{trials}__success__isnull": False}), distinct=True),
            trials_passed=Count(trials, filter=Q(**{f"{trials}__success": True}), distinct=True),
        )

    def for_detail(self) -> RunQuerySet:
        return self.standing().select_related("experiment", "experiment__suite")


class Run(PublicModel):
    """One cell of an experiment: one agent model, author model, harness, condition and replicate."""

    class Status(models.TextChoices):
        WAITING = "waiting"
        RUNNING = "running"
        DONE = "done"
        BLOCKED = "blocked"
        CANCELLED = "cancelled"

    UNKNOWN = "unknown"

    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="runs")
    condition = models.CharField(max_length=100, default=UNKNOWN, db_index=True)
    replicate = models.PositiveIntegerField(null=True)  # from 1; null: the source does not tell
    harness = models.CharField(max_length=100, default=UNKNOWN)
    harness_version = models.CharField(max_length=100, blank=True)
    agent_model = models.CharField(max_length=200, default=UNKNOWN)
    author_model = models.CharField(max_length=200, default=UNKNOWN)  # "" where the condition has no author
    scripted = models.BooleanField(default=False)  # a scripted or recorded model took part
    status = models.CharField(max_length=16, choices=Status, default=Status.WAITING)
    seed = models.BigIntegerField(null=True)
    setup = models.JSONField(default=dict)  # what the setup digest covers, by name
    setup_digest = models.CharField(max_length=64, blank=True)  # empty: unknown, never equal to anything
    forked_from = models.ForeignKey("self", null=True, on_delete=models.SET_NULL, related_name="forks")
    source_key = models.CharField(max_length=1000, blank=True)  # what tells runs of one import apart
    created_at = models.DateTimeField(auto_now_add=True)

    objects = RunQuerySet.as_manager()

    class Meta:
        ordering = ["id"]

    def __str__(self) -> str:
        return self.label

    @property
    def label(self) -> str:
        """What tells it apart on a page: condition, then replicate."""
        return self.condition if self.replicate is None else f"{self.condition} · rep {self.replicate}"

    def get_absolute_url(self) -> str:
        return reverse("run", args=[self.public_id])
