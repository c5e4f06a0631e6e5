from __future__ import annotations

from django.db import models

from benchapp.models.base import PublicModel


class ImportBatch(PublicModel):
    """One call of the importer: its input, what came in, and what it could not read."""

    class Status(models.TextChoices):
        RUNNING = "running"
        DONE = "done"
        INTERRUPTED = "interrupted"

    paths = models.JSONField()
    format = models.CharField(max_length=32)
    status = models.CharField(max_length=16, choices=Status, default=Status.RUNNING)
    counts = models.JSONField(default=dict)
    started_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)
    actor = models.ForeignKey("benchapp.User", null=True, on_delete=models.SET_NULL, related_name="+")
    undone_at = models.DateTimeField(null=True)
    undone_by = models.ForeignKey("benchapp.User", null=True, on_delete=models.SET_NULL, related_name="+")
    undo_reason = models.TextField(blank=True)

    class Meta:
        ordering = ["-started_at", "-id"]


class ImportedExperiment(models.Model):
    """An experiment that an import read. `is_new`: this import created it, or restored it after it was deleted."""

    batch = models.ForeignKey(ImportBatch, on_delete=models.CASCADE, related_name="arrivals")
    experiment = models.ForeignKey("benchapp.Experiment", on_delete=models.CASCADE, related_name="arrivals")
    is_new = models.BooleanField()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["batch", "experiment"], name="arrival_once")]


class ImportProblem(models.Model):
    """Something that could not be read as it was: where, what was expected, what was found."""

    batch = models.ForeignKey(ImportBatch, on_delete=models.CASCADE, related_name="problems")
    path = models.CharField(max_length=1000)
    place = models.CharField(max_length=300, blank=True)
    expected = models.CharField(max_length=500)
    message = models.TextField()

    class Meta:
        ordering = ["id"]
