"""Remove deleted experiments with their rows, then the contents that nothing refers to."""

from __future__ import annotations

from dataclasses import dataclass

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.db.models import Exists, ForeignObjectRel, Model, OuterRef, QuerySet
from django.db.models.functions import Now

from benchapp.imports.uploads import sweep_uploads
from benchapp.models import Blob, Episode, Experiment, ImportBatch, Refusal, Run, Seal, Seeding, Skip, Snapshot
from benchapp.models.experiments import describe_pointers, filter_pointed_at
from benchapp.stats.comparing.columns import clear_columns
from benchapp.stats.learning.computed_runs import clear_facts


class StillWorking(Exception):
    """Another process is writing. Contents are stored before the rows that refer to them, so a sweep must wait."""


@dataclass(frozen=True, slots=True)
class Swept:
    """How many rows a sweep removed."""

    experiments: int
    snapshots: int
    blobs: int
    kept: tuple[str, ...] = ()  # deleted experiments that people's work refers to, and that work


def sweep() -> Swept:
    """Remove for good. Raise StillWorking, with nothing removed, while an episode is held or an import runs. A deleted
    experiment that a review refers to by now is kept and named."""
    if Episode.objects.filter(lease_until__gt=Now()).exists():
        raise StillWorking("an episode is running: wait for it, or pause it")
    if ImportBatch.objects.filter(status=ImportBatch.Status.RUNNING).exists():
        raise StillWorking("an import is running, or was interrupted: repeat it to its end first")
    with transaction.atomic():
        # A joined experiment is needed to split the join again, and to recognise its job at the next import.
        deleted = Experiment.objects.exclude(deleted_at=None).filter(joined_runs=None)
        kept = filter_pointed_at(deleted)
        entombed = deleted.exclude(pk__in=[each.pk for each in kept])
        clear_columns(Run.objects.filter(experiment__in=entombed))
        clear_facts(entombed)
        experiments = entombed.count()
        entombed.delete()
        for target in (Seeding, Seal, Refusal, Skip):  # entries point at these, so no cascade reaches them
            target._default_manager.filter(entry=None).delete()
        names = tuple(f"{each.name} ({describe_pointers(each)})" for each in kept)
        return Swept(experiments, _remove_unreferenced(Snapshot), _remove_unreferenced(Blob), names)


def _remove_unreferenced(model: type[Model]) -> int:
    """Remove rows that no row of another table refers to. A snapshot's own files belong to it and do not count."""
    rows: QuerySet[Model] = model._default_manager.all()
    for relation in model._meta.get_fields(include_hidden=True):
        if isinstance(relation, ForeignObjectRel) and relation.one_to_many and relation.name != "files":
            pointing = relation.field.model._default_manager.filter(**{relation.field.name: OuterRef("pk")})
            rows = rows.filter(~Exists(pointing))
    total = rows.count()
    rows.delete()
    return total


class Command(BaseCommand):
    help = "Permanently removes deleted experiments and contents that nothing uses, and unfinished uploads."

    def handle(self, *args: object, **options: object) -> None:
        try:
            swept = sweep()
        except StillWorking as error:
            raise CommandError(f"{error}; nothing was removed") from None
        self.stdout.write(f"removed {swept.experiments} experiments, {swept.snapshots} snapshots, {swept.blobs} blobs")
        if uploads := sweep_uploads():
            self.stdout.write(f"removed {uploads} unfinished uploads")
        for name in swept.kept:
            self.stdout.write(f"kept {name}: people reviewed or commented on it")
