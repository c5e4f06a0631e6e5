"""Remove deleted experiments with their rows, then the contents that nothing refers to."""

from __future__ import annotations

from dataclasses import dataclass

from django.core.management.base import BaseCommand, CommandError
from django.db import transaction
from django.db.models import Exists, ForeignObjectRel, Model, OuterRef, QuerySet
from django.db.models.functions import Now

from benchapp.imports.batch import turn
from benchapp.imports.uploads import sweep_uploads
from benchapp.models import Blob, Episode, Experiment, ImportBatch, Refusal, Seal, Seeding, Skip, Snapshot, Trial
from benchapp.models.experiments import describe_pointers, filter_pointed_at
from benchapp.stats.comparing.columns import clear_columns
from benchapp.stats.learning.computed_runs import clear_facts

TRIALS, CONTENTS = 200, 1_000  # removed in one transaction


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
    """Remove for good, a batch in each transaction: what a killed sweep left, the next one removes. Raise StillWorking
    while an episode is held or an import runs; no import begins before the end. A deleted experiment that a review
    refers to by now is kept and named."""
    _refuse_while_working()
    with turn(lambda: None):
        # A joined experiment is needed to split the join again, and to recognise its job at the next import.
        deleted = Experiment.objects.exclude(deleted_at=None).filter(joined_runs=None)
        kept = filter_pointed_at(deleted)
        entombed = list(deleted.exclude(pk__in=[each.pk for each in kept]))
        for experiment in entombed:
            _remove(experiment)
        for target in (Seeding, Seal, Refusal, Skip):  # entries point at these, so no cascade reaches them
            target._default_manager.filter(entry=None).delete()
        names = tuple(f"{each.name} ({describe_pointers(each)})" for each in kept)
        return Swept(len(entombed), _remove_unreferenced(Snapshot), _remove_unreferenced(Blob), names)


def _refuse_while_working() -> None:
    if Episode.objects.filter(lease_until__gt=Now()).exists():
        raise StillWorking("an episode is running: wait for it, or pause it")
    if ImportBatch.objects.filter(status=ImportBatch.Status.RUNNING).exists():
        raise StillWorking("an import is running, or was interrupted: repeat it to its end first")


def _remove(experiment: Experiment) -> None:
    """Remove its trials in batches, with all below them, then what is left of it: Django holds in memory what it
    removes together."""
    clear_columns(experiment.runs.all())
    clear_facts(Experiment.objects.filter(pk=experiment.pk))
    trials = Trial.objects.filter(episode__run__experiment=experiment).order_by("pk").values_list("pk", flat=True)
    while batch := list(trials[:TRIALS]):
        Trial.objects.filter(pk__in=batch).delete()
    for run in experiment.runs.all():
        run.delete()
    experiment.delete()


def _remove_unreferenced(model: type[Model]) -> int:
    """Remove rows that no row of another table refers to. A snapshot's own files belong to it and do not count. Keys
    are looked at in their order, so that each is looked at once."""
    rows: QuerySet[Model] = model._default_manager.order_by("pk")
    for relation in model._meta.get_fields(include_hidden=True):
        if isinstance(relation, ForeignObjectRel) and relation.one_to_many and relation.name != "files":
            pointing = relation.field.model._default_manager.filter(**{relation.field.name: OuterRef("pk")})
            rows = rows.filter(~Exists(pointing))
    keys, total = rows.values_list("pk", flat=True), 0
    batch = list(keys[:CONTENTS])
    while batch:
        with transaction.atomic():
            _refuse_while_working()  # a worker stores contents before the rows that refer to them
            model._default_manager.filter(pk__in=batch).only("pk").delete()
        total += len(batch)
        batch = list(keys.filter(pk__gt=batch[-1])[:CONTENTS])
    return total


class Command(BaseCommand):
    help = "Permanently removes deleted experiments and contents that nothing uses, and unfinished uploads."

    def handle(self, *args: object, **options: object) -> None:
        try:
            swept = sweep()
        except StillWorking as error:
            raise CommandError(f"{error}; then sweep again") from None
        self.stdout.write(f"removed {swept.experiments} experiments, {swept.snapshots} snapshots, {swept.blobs} blobs")
        if uploads := sweep_uploads():
            self.stdout.write(f"removed {uploads} unfinished uploads")
        for name in swept.kept:
            self.stdout.write(f"kept {name}: people reviewed or commented on it")
