from __future__ import annotations

from pathlib import Path

from django.conf import settings
from django.db import models

from benchapp.models.base import SlicedModel, SlicedQuerySet


class Publication(SlicedModel):
    """One zip file for readers without an account, made in the background. `facts`: what is in it and what is not."""

    class Form(models.TextChoices):
        SITE = "site"  # the pages of an experiment
        REPORT = "report"  # of a comparison
        DATA = "data"  # of a comparison: rows, values, differences, and what each column means
        TAXONOMY = "taxonomy"  # the results of a queue

    form = models.CharField(max_length=16, choices=Form)
    title = models.CharField(max_length=300)
    experiment = models.ForeignKey("benchapp.Experiment", null=True, on_delete=models.CASCADE, related_name="+")
    queue = models.ForeignKey("benchapp.Queue", null=True, on_delete=models.CASCADE, related_name="+")
    query = models.TextField(blank=True)  # the choices of the comparison, pinned
    trials = models.CharField(max_length=8, default="failed")  # which get a page in a site: all, failed, none
    origin = models.CharField(max_length=300, blank=True)  # scheme and host of the installation, for the way back
    made_by = models.ForeignKey("benchapp.User", null=True, on_delete=models.SET_NULL, related_name="+")
    made_at = models.DateTimeField(auto_now_add=True)
    finished_at = models.DateTimeField(null=True)
    pages_drawn = models.PositiveIntegerField(default=0)
    pages_known = models.PositiveIntegerField(default=0)
    facts = models.JSONField(default=dict)

    objects = SlicedQuerySet["Publication"].as_manager()

    class Meta:
        ordering = ["-made_at", "-id"]

    @property
    def path(self) -> Path:
        return publications_folder() / f"{self.public_id}.zip"


def publications_folder() -> Path:
    return Path(settings.VAR_DIR) / "publications"
