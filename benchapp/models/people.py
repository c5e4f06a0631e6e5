from __future__ import annotations

import secrets

from django.contrib.auth.models import AbstractUser
from django.db import models

# No letter that looks like a digit: a pseudonym is read aloud and typed again.
LETTERS = "abcdefghjkmnpqrstuvwxyz23456789"


def new_pseudonym() -> str:
    """What an export says instead of a name; drawn once, so it tells nothing about the person and stays the same."""
    return "person-" + "".join(secrets.choice(LETTERS) for _ in range(6))


class User(AbstractUser):
    """Somebody of the team. Accounts are never deleted, only made inactive: what a person did keeps its author."""

    class Level(models.TextChoices):
        VIEWER = "viewer"  # reads
        REVIEWER = "reviewer"  # codes, comments, saves comparisons
        OPERATOR = "operator"  # imports, launches, cancels
        ADMIN = "admin"  # accounts, queues of others

    level = models.CharField(max_length=16, choices=Level, default=Level.VIEWER)
    pseudonym = models.CharField(max_length=32, unique=True, default=new_pseudonym, editable=False)

    def may(self, level: str) -> bool:
        """Each level may do what those before it may."""
        order = self.Level.values
        return self.is_active and order.index(self.level) >= order.index(level)
