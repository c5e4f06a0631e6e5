"""Make one experiment of several imported ones, and several again of one that was joined.

A run keeps the experiment it came with (`Run.joined_from`): importing its job again finds the run where it is, and
splitting brings it back. Only the run's place in the list changes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from django.db import transaction
from django.utils import timezone

from benchapp.imports.audited_edits import EDITABLE, Author, EditRefused, note_change
from benchapp.models import Experiment, Run

MAX_NAME = 300


def join_experiments(experiments: Sequence[Experiment], *, name: str, author: Author, reason: str) -> Experiment:
    """Create one new experiment with the runs of these, which are deleted. Raise EditRefused, with nothing changed, if
    one was launched here."""
    if len(experiments) < 2:
        raise EditRefused("choose at least two experiments to join")
    _check(experiments, name)
    sources = [each.source for each in experiments if each.source]
    suites = {each.suite for each in experiments}
    with transaction.atomic():
        whole = Experiment.objects.create(
            name=name.strip(),
            origin=experiments[0].origin,
            status=experiments[0].status,
            suite=suites.pop() if len(suites) == 1 else None,
            source=_find_common_folder(sources),
            started_at=min((each.started_at for each in experiments if each.started_at), default=None),
            finished_at=max((each.finished_at for each in experiments if each.finished_at), default=None),
        )
        for each in experiments:
            runs = Run.objects.filter(experiment=each)
            runs.filter(joined_from=None).update(joined_from=each)
            note_change(runs)
            runs.update(experiment=whole)
            author.note(each, {"experiment": each.name}, {"experiment": whole.name}, reason, verb="join")
        Experiment.objects.filter(pk__in=[each.pk for each in experiments]).update(deleted_at=timezone.now())
    return whole


def split_experiment(joined: Experiment, *, author: Author, reason: str) -> list[Experiment]:
    """Return each run to the experiment it came with. Raise EditRefused for an experiment that is not joined."""
    runs = Run.objects.filter(experiment=joined)
    origins = list(Experiment.objects.filter(joined_runs__in=runs).distinct().order_by("pk"))
    if not origins or runs.filter(joined_from=None).exists():
        raise EditRefused(f"{joined.name}: not every run of it was joined from another experiment")
    with transaction.atomic():
        for each in origins:
            own = Run.objects.filter(experiment=joined, joined_from=each)
            note_change(own)
            own.update(experiment=each, joined_from=None)
        Experiment.objects.filter(pk__in=[each.pk for each in origins]).update(deleted_at=None)
        Experiment.objects.filter(pk=joined.pk).update(deleted_at=timezone.now())
        author.note(joined, {"experiment": joined.name}, {"experiments": len(origins)}, reason, verb="split")
    return origins


def rename_experiment(experiment: Experiment, *, name: str, author: Author, reason: str) -> bool:
    """Rename it. Return False if it has that name already."""
    _check([experiment], name)
    if experiment.name == name.strip():
        return False
    before, experiment.name = experiment.name, name.strip()
    experiment.save(update_fields=["name"])
    author.note(experiment, {"name": before}, {"name": experiment.name}, reason)
    return True


def _check(experiments: Sequence[Experiment], name: str) -> None:
    if not 0 < len(name.strip()) <= MAX_NAME:
        raise EditRefused(f"name: expected 1 to {MAX_NAME} characters")
    for each in experiments:
        if each.origin not in EDITABLE:
            raise EditRefused(f"{each.name}: launched here, so it stays as it is")


def _find_common_folder(paths: Sequence[str]) -> str:
    try:
        return os.path.commonpath(paths)
    except ValueError:  # none, or relative and absolute ones
        return ""
