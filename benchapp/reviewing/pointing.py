"""What people said about an experiment: as long as it points there, the experiment cannot be deleted."""

from __future__ import annotations

from collections.abc import Mapping

from django.db.models import Model, Q, QuerySet

from benchapp.models import CodeExample, Comment, Experiment, Mark, QueueItem

TRIAL, DECISION = "trial__episode__run__experiment", "decision__episode__run__experiment"
# what points -> (how, one and several in words)
POINTING: Mapping[type[Model], tuple[tuple[str, ...], str, str]] = {
    QueueItem: ((TRIAL, DECISION, "episode__run__experiment"), "item of a review queue", "items of review queues"),
    CodeExample: ((TRIAL, DECISION), "example in a codebook", "examples in codebooks"),
    Mark: (("trajectory__attempt__" + TRIAL,), "mark of a review", "marks of reviews"),
    Comment: ((TRIAL, "run__experiment"), "comment", "comments"),
}


def pointing_at(experiment: Experiment) -> str:
    """In words: "40 items of review queues, 1 comment"; empty where nothing points at it."""
    said = []
    for model, (paths, one, several) in POINTING.items():
        wanted = Q()
        for path in paths:
            wanted |= Q(**{path: experiment.pk})
        if total := model._default_manager.filter(wanted).count():
            said.append(f"{total} {one if total == 1 else several}")
    return ", ".join(said)


def pointed_at(experiments: QuerySet[Experiment]) -> list[Experiment]:
    """Those of them that something points at."""
    return [experiment for experiment in experiments if pointing_at(experiment)]
