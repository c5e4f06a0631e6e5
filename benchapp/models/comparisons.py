from __future__ import annotations

from django.db import models
from django.urls import reverse

from benchapp.models.base import PublicModel
from benchapp.models.people import User


class Comparison(PublicModel):
    """A saved comparison: its subject, its moment, and which differences are corrected together.

    Appended, never edited: another question is another comparison, so nobody can shrink the set of hypotheses after
    seeing the results.
    """

    name = models.CharField(max_length=200)
    query = models.TextField()  # the choices, as a query string with `as_of`
    metrics = models.JSONField(default=list)  # keys of the metrics that are corrected together, every group of each
    fingerprint = models.CharField(max_length=64)  # of the numbers it was saved with
    created_at = models.DateTimeField(auto_now_add=True, db_index=True)
    created_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")

    class Meta:
        ordering = ["-created_at", "-id"]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("comparison", args=[self.public_id])
