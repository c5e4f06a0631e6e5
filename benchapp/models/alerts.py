from __future__ import annotations

from django.db import models

from benchapp.models.experiments import Experiment


class Alert(models.Model):
    """An event of an experiment to notify people of. `key` distinguishes one occasion from the next."""

    class Kind(models.TextChoices):
        ENDED = "ended"
        BLOCKED = "blocked"  # episodes wait for an operator
        BUDGET = "budget"  # a run has spent its limit

    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="alerts")
    kind = models.CharField(max_length=16, choices=Kind)
    key = models.CharField(max_length=64)
    words = models.CharField(max_length=500)
    at = models.DateTimeField(auto_now_add=True)
    # When it was sent, or sending started; null: not yet, or nothing is configured.
    posted_at = models.DateTimeField(null=True)
    mailed_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["experiment", "kind", "key"], name="one_notice_per_occasion"),
        ]
