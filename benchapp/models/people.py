from __future__ import annotations

from django.contrib.auth.models import AbstractUser
from django.db import models


class User(AbstractUser):
    class Level(models.TextChoices):
        VIEWER = "viewer"
        REVIEWER = "reviewer"
        OPERATOR = "operator"
        ADMIN = "admin"

    level = models.CharField(max_length=16, choices=Level, default=Level.REVIEWER)
