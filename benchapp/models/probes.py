from __future__ import annotations

from django.db import models

from benchapp.models.base import PublicModel
from benchapp.models.episodes import Episode
from benchapp.models.experiments import Run
from benchapp.models.libraries import Decision, Snapshot


class ProbeQuerySet(models.QuerySet["Probe"]):
    """Probes by the runs they come from."""

    def standing(self) -> ProbeQuerySet:
        """Probes whose experiment was not deleted, newest first, with the rows a page needs."""
        kept = self.filter(run__experiment__deleted_at=None)
        return kept.select_related(
            "run__experiment", "origin__run__experiment", "decision", "frozen", "library", "actor"
        ).order_by("-created_at", "-id")


class Probe(PublicModel):
    """An extra run with one library frozen from the start: a round of `origin`, whole or without some hunks.

    The run is an experiment of its own and never pooled with what learned. `frozen` is the round as it was; `library`
    is what was mounted, the same where nothing was reverted. A probe without reverts is the control of those with
    reverts at the same round.
    """

    run = models.OneToOneField(Run, on_delete=models.CASCADE, related_name="probe")
    origin = models.ForeignKey(Episode, null=True, on_delete=models.SET_NULL, related_name="probes")
    decision = models.ForeignKey(Decision, null=True, on_delete=models.SET_NULL, related_name="probes")
    state = models.CharField(max_length=20)  # the round as the time machine names it: R0, R3, S1
    frozen = models.ForeignKey(Snapshot, on_delete=models.PROTECT, related_name="+")
    library = models.ForeignKey(Snapshot, on_delete=models.PROTECT, related_name="+")
    reverted = models.JSONField(default=list)  # [{id, path, place, did}] of the reverted hunks of `decision`
    reverted_digest = models.CharField(max_length=64, blank=True)  # over their ids, in order; empty: none
    skill = models.CharField(
        max_length=200, blank=True
    )  # the folder of a skill left out whole: then `reverted` are its files
    times = models.PositiveIntegerField()  # trials of each task
    reason = models.TextField()
    actor = models.ForeignKey("benchapp.User", null=True, on_delete=models.SET_NULL, related_name="+")
    actor_name = models.CharField(max_length=150)
    created_at = models.DateTimeField(auto_now_add=True)

    objects = ProbeQuerySet.as_manager()

    def __str__(self) -> str:
        changes = len(self.reverted)
        if self.skill:
            return f"{self.state} without {self.skill}"
        return (
            f"{self.state} without {changes} change{'' if changes == 1 else 's'}"
            if changes
            else f"{self.state} as it was"
        )

    @property
    def is_control(self) -> bool:
        return not self.reverted
