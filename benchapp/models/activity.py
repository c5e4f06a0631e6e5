from __future__ import annotations

from django.db import models


class Activity(models.Model):
    """A human act on the record: who, when, what, why. Appended, never changed."""

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor = models.ForeignKey("benchapp.User", null=True, on_delete=models.SET_NULL, related_name="activities")
    actor_name = models.CharField(max_length=200)  # survives the account
    verb = models.CharField(max_length=64)
    target_kind = models.CharField(max_length=64)
    target_id = models.UUIDField(null=True)
    detail = models.JSONField(default=dict)  # what was before, what is now
    reason = models.TextField(blank=True)

    class Meta:
        ordering = ["-at", "-id"]
