"""Several differences over the same clusters, tested together: a sign that flips a cluster flips it in all of them.

Differences that share a baseline, or are two metrics of one pair, rise and fall together. Holm's correction takes the worst
that any dependence could do; the joint flips show what this one does (Westfall and Young 1993, maxT).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray
from scipy.sparse import coo_array
from scipy.sparse.csgraph import connected_components

from benchapp.stats.inference.clusters import FLIPS, SEED
from benchapp.stats.inference.interval import Floats, Ints

BLOCK = 2**10  # patterns at a time
SAME = 1e-9  # of statistics, which are about 1: as far out as the one seen, but for rounding


@dataclass(frozen=True, slots=True, eq=False)
class Flips:
    """One difference. added: what each cluster adds to it, its mean difference times its weight, [m], in the metric's unit.
    task: its tasks, [n]; named: what shared a library with them, by a key that other differences may use too, [n];
    cluster: [n], 0..m-1."""

    added: Floats
    task: Ints
    named: Ints
    cluster: Ints


def flip_jointly(family: Sequence[Flips]) -> list[float] | None:
    """The p of each difference, corrected for all of them together by step-down maxT; None where one difference's clusters
    cut another's, so that there are none in common to flip.

    Each difference is divided by the root of its own sum of squares, which no flip changes: the order of patterns is that of
    Student's t, in any unit. Signs are drawn for the union of all clusters.
    """
    places = _number_clusters(family)
    if places is None:
        return None
    m = 1 + max((int(place.max()) for place in places), default=-1)
    table = np.zeros((len(family), m))
    for row, (each, place) in enumerate(zip(family, places, strict=True)):
        table[row, place] = each.added / (float(np.linalg.norm(each.added)) or 1.0)
    return [float(p) for p in _step_down(table)]


def _step_down(table: Floats) -> Floats:
    """[differences, m] -> corrected p, [differences]: of the largest over all, of the next over all but that, and so on."""
    seen = np.abs(table.sum(axis=1))
    order = np.argsort(-seen, kind="stable")
    bar, counts, tried = seen[order][:, np.newaxis] - SAME, np.zeros(len(table)), 0
    for signs in _draw_signs(table.shape[1]):
        sizes = np.abs(table[order] @ signs)
        highest = np.maximum.accumulate(sizes[::-1], axis=0)[::-1]
        counts += (highest >= bar).sum(axis=1)
        tried += signs.shape[1]
    found = np.empty(len(table))
    found[order] = np.maximum.accumulate(counts / tried)
    return found


def _draw_signs(m: int) -> Iterator[Floats]:
    """1 or -1 for m clusters, [m, up to BLOCK] at a time, the observed pattern first. Of two opposite patterns, which are
    equally far out, one is enough: the first cluster is never flipped."""
    if 2**m <= FLIPS:
        codes = np.arange(2 ** (m - 1))
        for start in range(0, len(codes), BLOCK):
            part = codes[start : start + BLOCK]
            yield _sign((part[np.newaxis] << 1 >> np.arange(m)[:, np.newaxis]) & 1)
        return
    rng = np.random.default_rng((SEED, m))
    for start in range(0, FLIPS, BLOCK):
        signs = _sign(rng.integers(0, 2, size=(m, BLOCK), dtype=np.int8))
        if start == 0:
            signs[:, 0] = 1
        yield signs


def _sign(flipped: NDArray[np.integer]) -> Floats:
    """0 or 1 as 1 or -1, [m, patterns]."""
    return np.asarray(1 - 2 * flipped, dtype=np.float64)


def _number_clusters(family: Sequence[Flips]) -> list[Ints] | None:
    """For each difference the places of its clusters, [its m], in the union of all; None where one has more clusters than
    places, because another holds some of them together. Clusters are one where they share a task or a name."""
    tasks, task = np.unique(np.concatenate([each.task for each in family]), return_inverse=True)
    names, name = np.unique(np.concatenate([each.named for each in family]), return_inverse=True)
    first = [np.unique(each.cluster, return_index=True)[1] for each in family]
    starts = np.cumsum([0, *(len(each.task) for each in family)])
    heads = [task[start + found[each.cluster]] for start, found, each in zip(starts, first, family, strict=False)]
    edges = np.concatenate((task, task)), np.concatenate((name + len(tasks), *heads))
    size = len(tasks) + len(names)
    graph = coo_array((np.ones(len(edges[0]), dtype=np.int8), edges), shape=(size, size))
    joined = connected_components(graph, directed=False)[1]
    places = [
        np.asarray(joined[task[start + found]], dtype=np.int64) for start, found in zip(starts, first, strict=False)
    ]
    return None if any(len(np.unique(place)) < len(place) for place in places) else places
