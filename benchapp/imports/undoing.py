"""Undo an import: delete the experiments that it made. What was here before it stays."""

from __future__ import annotations

from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone

from benchapp.imports.audited_edits import EditRefused
from benchapp.models import Experiment, ImportBatch, Run, User
from benchapp.models.experiments import StillReviewed, StillRunning


@dataclass(frozen=True, slots=True)
class Undoing:
    """What an undo of the import deletes, and what it keeps because it existed before."""

    deleted: tuple[Experiment, ...]
    kept: tuple[Experiment, ...]

    @classmethod
    def of(cls, batch: ImportBatch) -> Undoing:
        standing = Experiment.objects.standing()
        deleted = standing.made_by(batch).order_by("name", "pk")
        return cls(tuple(deleted), tuple(standing.brought_by(batch).exclude(pk__in=deleted).order_by("name", "pk")))


def undo_import(batch: ImportBatch, *, user: User, reason: str) -> Undoing:
    """Delete all experiments that the import made, or none: EditRefused names what keeps one."""
    if not reason.strip():
        raise EditRefused("Say why: it is kept with the deletion.")
    if batch.status == ImportBatch.Status.RUNNING:
        raise EditRefused("This import still runs. Wait for its end.")
    undoing = Undoing.of(batch)
    made = {each.pk for each in undoing.deleted} | set(
        batch.arrivals.filter(is_new=True).values_list("experiment", flat=True)
    )
    try:
        with transaction.atomic():
            for experiment in undoing.deleted:
                joined = Run.objects.filter(experiment=experiment).exclude(joined_from=None)
                if joined.exclude(joined_from__in=made).exists():
                    raise EditRefused(f"{experiment.name} also has runs of other imports: split it first.")
                experiment.entomb(actor=user, reason=reason)
            if undoing.deleted:
                batch.undone_at, batch.undone_by, batch.undo_reason = timezone.now(), user, reason
                batch.save(update_fields=["undone_at", "undone_by", "undo_reason"])
    except (StillReviewed, StillRunning) as refusal:
        raise EditRefused(f"{refusal}. Nothing was deleted.") from refusal
    return undoing
