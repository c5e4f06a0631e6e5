from __future__ import annotations

from django.db import models

from benchapp.models.base import PublicModel
from benchapp.models.experiments import Run
from benchapp.models.people import User
from benchapp.models.trials import Trial


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
