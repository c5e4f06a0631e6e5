"""Two sides lined up on their common tasks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchapp.stats.inference.sides import TaskMeans, pair


def side(rows: dict[int, float], clusters: dict[int, int] | None = None) -> TaskMeans:
    """rows: task -> value; clusters: task -> cluster, else each task its own. Families are task // 3."""
    task = np.array(list(rows), dtype=np.int64)
    cluster = np.array([(clusters or {}).get(key, 1000 + key) for key in rows], dtype=np.int64)
    return TaskMeans(task, cluster, task // 3, np.array(list(rows.values()), dtype=float))


def test_it_uses_only_tasks_scored_in_every_replicate_of_both_sides() -> None:
    paired = pair([side({5: 1, 3: 0, 1: 1}), side({3: 1, 5: 0, 9: 1})], [side({1: 0, 3: 0, 5: 1, 7: 1})])
    assert paired is not None
    assert paired.task.tolist() == [3, 5]
    assert paired.own.tolist() == [[0, 1], [1, 0]]
    assert paired.other.tolist() == [[0, 1]]
    assert paired.family.tolist() == [1, 1]
    assert paired.dropped == 3  # 1, 7 and 9
    assert paired.delta.tolist() == [0.5, -0.5]


def test_it_knows_no_difference_where_nothing_is_common() -> None:
    assert pair([side({1: 1})], [side({2: 1})]) is None
    assert pair([], [side({2: 1})]) is None
    assert pair([side({})], [side({2: 1})]) is None


def test_it_takes_the_larger_episodes_where_one_side_contains_the_others() -> None:
    rows = dict.fromkeys(range(6), 1.0)
    small, large = {0: 7, 1: 7, 2: 8, 3: 8, 4: 9, 5: 9}, {0: 1, 1: 1, 2: 1, 3: 1, 4: 2, 5: 2}
    for first, second in ((small, large), (large, small)):
        paired = pair([side(rows, first)], [side(rows, second)])
        assert paired is not None
        assert paired.cluster.tolist() == [0, 0, 0, 0, 1, 1]


def test_it_keeps_together_what_any_replicate_held_together() -> None:
    rows = dict.fromkeys(range(4), 1.0)
    paired = pair([side(rows, {0: 1, 1: 1}), side(rows, {1: 5, 2: 5})], [side(rows)])
    assert paired is not None
    assert paired.cluster.tolist() == [0, 0, 0, 1]


@given(st.lists(st.tuples(st.integers(0, 4), st.integers(0, 4)), min_size=1, max_size=12))
def test_it_joins_clusters_as_a_slow_search_does(labels: list[tuple[int, int]]) -> None:
    own, other = ({task: label[which] for task, label in enumerate(labels)} for which in (0, 1))
    rows = dict.fromkeys(range(len(labels)), 1.0)
    paired = pair([side(rows, own)], [side(rows, other)])
    assert paired is not None
    for task in rows:
        reached, grown = {task}, True
        while grown:
            near = {b for a in reached for b in rows if own[a] == own[b] or other[a] == other[b]}
            grown, reached = not near <= reached, reached | near
        assert set(np.flatnonzero(paired.cluster == paired.cluster[task]).tolist()) == reached


def test_it_means_tasks_inside_their_cluster() -> None:
    clusters = {0: 1, 1: 1, 2: 1, 3: 2}
    paired = pair([side({0: 1, 1: 1, 2: 0, 3: 1}, clusters)], [side({0: 0, 1: 1, 2: 1, 3: 0}, clusters)])
    assert paired is not None
    assert (paired.cells(paired.own) - paired.cells(paired.other)).mean() == pytest.approx(0.25)
    assert paired.delta.mean() == 0.25


def test_it_refuses_a_task_twice_a_missing_value_and_columns_of_different_length() -> None:
    three, two = np.arange(3), np.arange(2)
    with pytest.raises(ValueError, match="each task once"):
        TaskMeans(np.array([1, 1, 2]), three, three, np.ones(3))
    with pytest.raises(ValueError, match="finite numbers"):
        TaskMeans(three, three, three, np.array([1.0, np.nan, 0.0]))
    with pytest.raises(ValueError, match=r"TaskMeans.family: expected one column of 3"):
        TaskMeans(three, three, two, np.ones(3))
