"""What people wrote about an experiment. While something points at an experiment, it cannot be deleted."""

from __future__ import annotations

from typing import TYPE_CHECKING

from django.apps import apps
from django.db.models import Q, QuerySet

if TYPE_CHECKING:
    from benchapp.models.experiments import Experiment

TRIAL, DECISION = "trial__episode__run__experiment", "decision__episode__run__experiment"
# (model, paths to the experiment, one in words, several in words). Models by name: they import experiments themselves.
POINTING: tuple[tuple[str, tuple[str, ...], str, str], ...] = (
    ("QueueItem", (TRIAL, DECISION, "episode__run__experiment"), "item of a review queue", "items of review queues"),
    ("CodeExample", (TRIAL, DECISION), "example in a codebook", "examples in codebooks"),
    ("Mark", ("trajectory__attempt__" + TRIAL,), "mark of a review", "marks of reviews"),
    ("Comment", (TRIAL, "run__experiment"), "comment", "comments"),
)


def describe_pointers(experiment: Experiment) -> str:
    """Return what points at it in words, like "40 items of review queues, 1 comment". Empty where nothing does."""
    found = []
    for model, paths, one, several in POINTING:
        wanted = Q()
        for path in paths:
            wanted |= Q(**{path: experiment.pk})
        if total := apps.get_model("benchapp", model)._default_manager.filter(wanted).count():
            found.append(f"{total} {one if total == 1 else several}")
    return ", ".join(found)


def filter_pointed_at(experiments: QuerySet[Experiment]) -> list[Experiment]:
    """Return the experiments that something points at."""
    return [experiment for experiment in experiments if describe_pointers(experiment)]
