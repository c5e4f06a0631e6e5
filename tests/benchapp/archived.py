"""Experiments that go into an archive and come back, for tests: the record is emptied between."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from benchapp.archive.archive_export import write_archive
from benchapp.experiments.launch import launch
from benchapp.experiments.work import advance, operations
from benchapp.imports.batch import ImportReport, import_paths
from benchapp.management.commands.sweep import sweep
from benchapp.models import Blob, Episode, Experiment, ImportBatch, Snapshot, Suite

SPEC: dict[str, Any] = {
    "name": "To be archived",
    "suite": "starter",
    "environments": ["E1"],
    "conditions": ["selfgen-always"],
    "replicates": 1,
    "seed": 3,
    "agent_model": "scripted/apprentice",
    "author_model": "scripted/apprentice",
}


def played(*, trials: int | None = None, **changes: Any) -> Experiment:
    """A launched experiment, played to its end; with `trials`, so many of them, then cancelled. `advance.hint` must be
    without effect."""
    experiment = launch({**SPEC, **changes})
    for episode in Episode.objects.filter(run__experiment=experiment):
        done = 0
        while Episode.objects.open().filter(pk=episode.pk).exists() and done != trials:
            advance.advance(str(episode.public_id))
            done += 1
    if trials is not None:
        operations.cancel(experiment, reason="enough")
    experiment.refresh_from_db()
    return experiment


def archived(experiment: Experiment, folder: Path, name: str = "one.tar.zst") -> Path:
    write_archive(experiment, folder / name)
    return folder / name


def forget_everything() -> None:
    """As on another installation: nothing of any experiment, suite or content is left."""
    for experiment in Experiment.objects.all():
        experiment.delete()
    sweep()
    Suite.objects.all().delete()
    Snapshot.objects.all().delete()
    Blob.objects.all().delete()
    ImportBatch.objects.all().delete()


def bring(path: Path) -> ImportReport:
    return import_paths([path])
