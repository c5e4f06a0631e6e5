from __future__ import annotations

import secrets
from typing import Any, NoReturn

from django.contrib.auth.models import AbstractUser
from django.db import models
from django.utils import timezone

from benchapp.models.base import PublicModel

# No letter that looks like a digit: a pseudonym is read aloud and typed again.
LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"


def new_pseudonym() -> str:
    """Draw the name that exports use for a person. It stays the same and reveals nothing about the person."""
    return "person-" + "".join(secrets.choice(LETTERS) for _ in range(6))


class User(AbstractUser):
    """A member of the team. Accounts are only made inactive, never deleted: what a person did keeps its author."""

    class Level(models.TextChoices):
        VIEWER = "viewer"  # reads
        REVIEWER = "reviewer"  # codes, comments, saves comparisons
        OPERATOR = "operator"  # imports, launches, cancels
        ADMIN = "admin"  # accounts, queues of others

    level = models.CharField(max_length=16, choices=Level, default=Level.VIEWER)
    pseudonym = models.CharField(max_length=32, unique=True, default=new_pseudonym, editable=False)

    def may(self, level: str) -> bool:
        """Is the account active and at this level or above?"""
        order = self.Level.values
        return self.is_active and order.index(self.level) >= order.index(level)


class InvitationQuerySet(models.QuerySet["Invitation"]):
    def open(self) -> InvitationQuerySet:
        return self.filter(used_at=None, withdrawn_at=None, expires_at__gt=timezone.now())


class Invitation(PublicModel):
    """A one-time code that creates an account, or gives `account` a new password. Only the code's digest is kept."""

    digest = models.CharField(max_length=64, unique=True, editable=False)
    account = models.ForeignKey(User, null=True, on_delete=models.CASCADE, related_name="invitations")
    name = models.CharField(max_length=150, blank=True)  # suggested; the person may choose another
    level = models.CharField(max_length=16, choices=User.Level)
    made_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    made_at = models.DateTimeField(auto_now_add=True)
    expires_at = models.DateTimeField()
    used_at = models.DateTimeField(null=True)
    withdrawn_at = models.DateTimeField(null=True)

    objects = InvitationQuerySet.as_manager()

    class Meta:
        ordering = ["-made_at", "-id"]


class ApiToken(PublicModel):
    """Lets a program act as `owner`, within a scope. Only the token's digest is kept; `hint` is how it begins."""

    class Scope(models.TextChoices):
        READ = "read"  # every page that its owner may read
        LOG = "log"  # and uploads runs

    digest = models.CharField(max_length=64, unique=True, editable=False)
    hint = models.CharField(max_length=16, editable=False)
    owner = models.ForeignKey(User, on_delete=models.CASCADE, related_name="tokens")
    name = models.CharField(max_length=100)
    scope = models.CharField(max_length=8, choices=Scope, default=Scope.READ)
    made_at = models.DateTimeField(auto_now_add=True)
    last_used_at = models.DateTimeField(null=True)
    revoked_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["-made_at", "-id"]


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
