from __future__ import annotations

from typing import Any, NoReturn

from django.db import models


class Appended(TypeError):
    """Rows that are only ever added cannot be changed or removed."""


class ActivityQuerySet(models.QuerySet["Activity"]):
    """Only reads and adds. A log that its own application can rewrite proves nothing."""

    def _refuse(self, *args: object, **kwargs: object) -> NoReturn:
        raise Appended("the activity log is appended to, never changed")

    update = delete = bulk_update = update_or_create = _refuse


class Activity(models.Model):
    """A human act on the record: who, when, what, why. Appended, never changed."""

    at = models.DateTimeField(auto_now_add=True, db_index=True)
    actor = models.ForeignKey("benchapp.User", null=True, on_delete=models.SET_NULL, related_name="activities")
    actor_name = models.CharField(max_length=200)  # survives the account
    verb = models.CharField(max_length=64)
    target_kind = models.CharField(max_length=64)
    target_id = models.UUIDField(null=True)
    detail = models.JSONField(default=dict)  # old and new values
    reason = models.TextField(blank=True)

    objects = ActivityQuerySet.as_manager()

    class Meta:
        ordering = ["-at", "-id"]

    def save(self, *args: Any, **kwargs: Any) -> None:
        if not self._state.adding:
            raise Appended("the activity log is appended to, never changed")
        super().save(*args, **{**kwargs, "force_insert": True})

    def delete(self, *args: object, **kwargs: object) -> NoReturn:
        raise Appended("nothing is removed from the activity log")
