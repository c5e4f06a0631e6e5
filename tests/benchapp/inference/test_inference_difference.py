"""The whole way: two sides in, one difference and one sentence out."""

from __future__ import annotations

import numpy as np

from benchapp.inference.difference import Difference, TaskMeans, compare


def side(values: list[float], per_cluster: int = 1, per_family: int = 1) -> TaskMeans:
    n = np.arange(len(values))
    return TaskMeans(n, n // per_cluster, n // per_family, np.array(values))


def difference(own: list[TaskMeans], other: list[TaskMeans]) -> Difference:
    found = compare(own, other)
    assert found is not None
    return found


def test_it_takes_the_sign_flip_test_with_one_run_and_few_episodes() -> None:
    found = difference([side([1, 1, 1, 0, 1, 1], 1)], [side([0, 0, 0, 0, 0, 1], 1)])
    assert (found.method, found.clusters, found.tasks) == ("sign-flip", 6, 6)
    assert found.discordant == (4, 0)
    assert found.smallest_p == 2 / 64


def test_it_takes_welch_where_both_sides_were_learned_twice() -> None:
    found = difference([side([1, 1, 0, 1]), side([1, 0, 0, 1])], [side([0, 1, 0, 0]), side([0, 0, 0, 0])])
    assert (found.method, found.replicates) == ("welch", (2, 2))
