from __future__ import annotations

from django.db import models

from benchapp.models.experiments import Experiment


class Alert(models.Model):
    """Something about an experiment that people want to hear of without looking. `key` tells one occasion from the next."""

    class Kind(models.TextChoices):
        ENDED = "ended"
        BLOCKED = "blocked"  # episodes wait for an operator
        BUDGET = "budget"  # a run has spent what it was allowed

    experiment = models.ForeignKey(Experiment, on_delete=models.CASCADE, related_name="alerts")
    kind = models.CharField(max_length=16, choices=Kind)
    key = models.CharField(max_length=64)
    words = models.CharField(max_length=500)
    at = models.DateTimeField(auto_now_add=True)
    sent_at = models.DateTimeField(null=True)  # or being sent; null: to be sent, or nobody is configured

    class Meta:
        ordering = ["-id"]
        constraints = [
            models.UniqueConstraint(fields=["experiment", "kind", "key"], name="one_notice_per_occasion"),
        ]
