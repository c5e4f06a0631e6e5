from __future__ import annotations

from django.db import models

from benchapp.models.episodes import Episode
from benchapp.models.libraries import Snapshot
from benchapp.models.trials import Trial


class LibraryDiagnosis(models.Model):
    """What the rules of one version found in one state of an episode's library. Derived: it can be recomputed.

    It belongs to the episode as well as to the snapshot, because a leak is text that *this* episode's trials showed.
    """

    episode = models.ForeignKey(Episode, on_delete=models.CASCADE, related_name="diagnoses")
    snapshot = models.ForeignKey(Snapshot, on_delete=models.CASCADE, related_name="diagnoses")
    rules_version = models.CharField(max_length=64)
    sources_digest = models.CharField(max_length=64)  # of everything the library was compared with
    alarms = models.PositiveIntegerField()
    warnings = models.PositiveIntegerField()
    notes = models.PositiveIntegerField()
    skills = models.JSONField(default=list)  # [{skill, pattern, files, words, cues: {group: {cue: bool}}}]
    left_out = models.JSONField(default=dict)  # rule -> findings beyond those kept
    cut = models.JSONField(default=list)  # files that were read only at the beginning
    tasks_seen = models.PositiveIntegerField()
    trials_read = models.PositiveIntegerField()
    trials_left_out = models.PositiveIntegerField()
    references = models.PositiveIntegerField()  # texts of reference skills that were available
    diagnosed_at = models.DateTimeField()

    class Meta:
        verbose_name_plural = "library diagnoses"
        constraints = [models.UniqueConstraint(fields=["episode", "snapshot"], name="diagnosis_of_state")]

    def __str__(self) -> str:
        return f"{self.alarms} alarms, {self.warnings} warnings, {self.notes} notes"


class LibraryFinding(models.Model):
    """One hit of one rule. start and end count characters of the file; equal, and line 0, for the whole file."""

    diagnosis = models.ForeignKey(LibraryDiagnosis, on_delete=models.CASCADE, related_name="findings")
    ordinal = models.PositiveIntegerField()
    rule = models.CharField(max_length=64)
    group = models.CharField(max_length=16)
    severity = models.CharField(max_length=8)  # alarm, warning, note
    path = models.CharField(max_length=1000)
    start = models.PositiveIntegerField()
    end = models.PositiveIntegerField()
    line = models.PositiveIntegerField()
    quote = models.TextField(blank=True)
    says = models.TextField()
    trial = models.ForeignKey(Trial, null=True, on_delete=models.SET_NULL, related_name="+")  # where it was seen
    step = models.PositiveIntegerField(null=True)
    field = models.CharField(max_length=100, blank=True)

    class Meta:
        ordering = ["ordinal"]
        constraints = [models.UniqueConstraint(fields=["diagnosis", "ordinal"], name="finding_place")]

    @property
    def skill(self) -> str:
        return self.path.partition("/")[0]
