"""Align two conditions on the tasks that both were scored on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from benchapp.stats.inference.interval import Floats, Ints
from benchapp.stats.numerics import link

KINDS = (*((name, np.int64) for name in ("task", "cluster", "family", "samples")), ("value", np.float64))


@dataclass(frozen=True, slots=True, eq=False)
class TaskMeans:
    """One replicate of one condition on the tasks that were scored in it. Columns of [n] each.

    task: unique keys, the same on both sides of a comparison. cluster: what shared a library (the episode); only the
    grouping counts, so keys need not agree between replicates or sides. Where nothing was shared, give each task its
    own. family: the task's family, a fact of the suite. value: mean over the task's samples (0 or 1 with one sample),
    in the metric's unit; never NaN: a task without a verdict has no row. samples: how many that mean is over; None: one
    each. missing: trials that would be samples, of these tasks or of others, if they had a value.
    """

    task: Ints
    cluster: Ints
    family: Ints
    value: Floats
    samples: Ints | None = None
    missing: int = 0

    def __post_init__(self) -> None:
        if self.samples is None:
            object.__setattr__(self, "samples", np.ones(len(self.task)))
        for name, kind in KINDS:
            column = np.asarray(getattr(self, name), dtype=kind)
            if column.ndim != 1 or len(column) != len(self.task):
                raise ValueError(f"TaskMeans.{name}: expected one column of {len(self.task)}, got {column.shape}")
            object.__setattr__(self, name, column)
        if not is_rising(self.task) and len(np.unique(self.task)) != len(self.task):
            raise ValueError("TaskMeans.task: expected each task once; take the mean over its samples first")
        if not np.isfinite(self.value).all():
            raise ValueError("TaskMeans.value: expected finite numbers; leave a task without a verdict out")

    def take(self, rows: Ints | NDArray[np.bool_]) -> TaskMeans:
        """Return these rows alone, by their places or as a mask [n]."""
        samples = np.asarray(self.samples)[rows]
        return TaskMeans(
            self.task[rows], self.cluster[rows], self.family[rows], self.value[rows], samples, self.missing
        )


@dataclass(frozen=True, eq=False)
class Paired:
    """n tasks scored in every replicate of both sides, in the order of their keys.

    task, family: [n]. cluster: [n], 0..clusters-1, see `pair`. own: [r, n], other: [s, n]. samples: [n], of each
    replicate. weight: of a task in every mean of these, [n], sum 1. dropped: tasks scored in some replicate but not in
    all, which no number here uses.
    """

    task: Ints
    cluster: Ints
    family: Ints
    own: Floats
    other: Floats
    samples: Floats
    weight: Floats
    dropped: int

    @property
    def clusters(self) -> int:
        return int(self.cluster.max()) + 1

    @property
    def replicates(self) -> tuple[int, int]:
        return len(self.own), len(self.other)

    @property
    def delta(self) -> Floats:
        """Own minus other for each task, over the means of the replicates: [n], in the metric's unit."""
        return np.asarray(self.own.mean(axis=0) - self.other.mean(axis=0))

    def cells(self, values: Floats) -> Floats:
        """Average each replicate in each cluster, times the cluster's weight over an equal part of the whole: [r, n] ->
        [r, clusters], so that the mean over clusters is the weighted mean over tasks."""
        weighted = values * self.weight * self.clusters
        return np.stack([np.bincount(self.cluster, weights=row) for row in weighted])

    @property
    def trial_variance(self) -> float:
        """The variance of such a cell over that of one trial, mean over clusters: 1 / tasks where all are alike."""
        return float(self.clusters * (self.weight**2 / self.samples).sum())

    @property
    def binary(self) -> bool:
        """True if one replicate a side passed or failed each task, with all its samples: counts of tasks are enough."""
        return self.replicates == (1, 1) and bool(np.isin((self.own, self.other), (0.0, 1.0)).all())


def weights_of(tasks: Ints, families: Ints, *, by_family: bool) -> Floats:
    """Return the weight of each task, [n], sum 1, from the keys tasks and families, [n]: equal per task, or equal per
    family and then per task within it. A task without a family counts as a family of its own."""
    if not by_family:
        return np.full(len(tasks), 1 / len(tasks))
    _, place = np.unique(np.where(families >= 0, families, -2 - tasks), return_inverse=True)
    sizes = np.bincount(place)
    return np.asarray(1 / (len(sizes) * sizes[place]))


def pair(own: Sequence[TaskMeans], other: Sequence[TaskMeans], *, by_family: bool = False) -> Paired | None:
    """Align the replicates of two sides; None where no task was scored in all of them. `by_family`: see `weights_of`.

    Tasks that one side's episodes keep together stay together: clusters are the finest groups that no episode of any
    replicate crosses. Where one side's episodes contain the other's, these are the larger ones.
    """
    sides = [*own, *other]
    if not own or not other:
        return None
    task, seen = _common([side.task for side in sides])
    if not len(task):
        return None
    if task is not sides[0].task:
        sides = [_pick(side, task) for side in sides]
    first, values = sides[0], np.array([side.value for side in sides])
    return Paired(
        task=task,
        cluster=join_partitions([side.cluster for side in sides]),
        family=first.family,
        own=values[: len(own)],
        other=values[len(own) :],
        samples=np.mean([np.asarray(side.samples) for side in sides], axis=0),
        weight=weights_of(task, first.family, by_family=by_family),
        dropped=seen - len(task),
    )


def _common(columns: Sequence[Ints]) -> tuple[Ints, int]:
    """Return tasks found in all columns [n of each], sorted, [n]; and the number of those found in any. The first
    column itself where nothing has to be picked or sorted."""
    first, rest = columns[0], columns[1:]
    if _are_equal(first, rest):  # the usual case, and by far the cheapest
        return first if is_rising(first) else np.sort(first), len(first)
    seen, counts = np.unique(np.concatenate(columns), return_counts=True)
    return seen[counts == len(columns)], len(seen)


def _pick(side: TaskMeans, task: Ints) -> TaskMeans:
    """Return the side's rows of `task`, [n], in their order; mostly it has no others."""
    if _are_equal(task, [side.task]):
        return side
    order = np.argsort(side.task)
    return side.take(order[np.searchsorted(side.task, task, sorter=order)])


def _are_equal(first: Ints, others: Sequence[Ints]) -> bool:
    """Are they all equal? As np.array_equal, which takes several times as long for columns as short as these."""
    return all(len(other) == len(first) and bool((other == first).all()) for other in others)


def is_rising(keys: Ints) -> bool:
    return bool((keys[1:] > keys[:-1]).all())


def join_partitions(partitions: Sequence[Ints]) -> Ints:
    """Return labels 0.. of the finest partition that all the given ones refine, [n] each -> [n]: tasks linked through
    any shared cluster."""
    first_one = partitions[0]
    if _are_equal(first_one, partitions[1:]):
        return np.asarray(np.unique(first_one, return_inverse=True)[1], dtype=np.int64)
    n = len(first_one)
    heads, tails = [], []
    for labels in partitions:
        _, first, group = np.unique(labels, return_index=True, return_inverse=True)
        heads.append(np.arange(n))
        tails.append(first[group])
    return link(np.concatenate(heads), np.concatenate(tails), n)
