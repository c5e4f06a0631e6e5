"""Labels of workers: what some trials need and not every host has, such as a GPU, memory or a region.

An experiment names the labels that it needs (`worker_labels` in its file). Each set of labels has a queue of its own,
and a worker takes from the queues of all sets that it has. Work that needs none is in the queue of every worker.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from itertools import combinations

import django_rq
from rq.queue import Queue

from benchapp.models import Experiment

DEFAULT = "default"
Labels = frozenset[str]


def queue_for(labels: Iterable[str] = ()) -> Queue:
    """Return the queue of work that needs exactly these."""
    every = django_rq.get_queue(DEFAULT)
    named = ":".join((DEFAULT, *sorted(labels)))
    return every if named == DEFAULT else Queue(named, connection=every.connection)


def queues_of(labels: Collection[str]) -> list[Queue]:
    """Return the queues that a worker with these takes from, those that need most first: fewer workers can."""
    sizes = range(len(labels), -1, -1)
    return [queue_for(each) for size in sizes for each in combinations(sorted(labels), size)]


def list_queues() -> list[Queue]:
    """Return the queue of each set of labels that was ever used."""
    every = django_rq.get_queue(DEFAULT)
    return [each for each in Queue.all(every.connection) if each.name.split(":")[0] == DEFAULT]


def labels_of(queues: Iterable[str]) -> Labels:
    """Return the labels of a worker that takes from these queues."""
    return frozenset(label for queue in queues for label in queue.split(":")[1:])


def needs_of(experiment: Experiment) -> Labels:
    return frozenset(experiment.spec.get("worker_labels") or ())


def list_needs() -> dict[int, Labels]:
    """Return experiment pk -> the labels that it needs, of unfinished experiments that need any."""
    found = Experiment.objects.filter(origin=Experiment.Origin.RUN, deleted_at=None, spec__has_key="worker_labels")
    unfinished = found.exclude(status__in=(Experiment.Status.DONE, Experiment.Status.CANCELLED)).only("spec")
    return {experiment.pk: needs_of(experiment) for experiment in unfinished}
