"""Percentile intervals against every resample there is, and against resamples drawn one by one."""

from __future__ import annotations

from itertools import product
from random import Random

import numpy as np
import pytest

from benchapp.stats.inference.interval import by_cluster, by_task


def every_resample(clusters: list[list[float]]) -> list[float]:
    """The mean over tasks of each way to draw as many clusters as there are."""
    found = []
    for drawn in product(clusters, repeat=len(clusters)):
        tasks = [value for cluster in drawn for value in cluster]
        found.append(sum(tasks) / len(tasks))
    return found


def one_by_one(clusters: list[list[float]], times: int) -> list[float]:
    random, found = Random(5), []
    for _ in range(times):
        tasks = [value for _ in clusters for value in random.choice(clusters)]
        found.append(sum(tasks) / len(tasks))
    return found


def columns(clusters: list[list[float]]) -> tuple[np.ndarray, np.ndarray]:
    values = [value for cluster in clusters for value in cluster]
    owner = [place for place, cluster in enumerate(clusters) for _ in cluster]
    return np.array(values), np.array(owner)


@pytest.mark.parametrize("values", [[1, 0, 0, 0], [1, 1, 0, 0, 0], [0, 0.5, 1, 0.5]])
def test_few_tasks_give_the_ends_of_every_resample(values: list[float]) -> None:
    low, high = np.quantile(every_resample([[value] for value in values]), (0.025, 0.975))
    found = by_task(np.array(values))
    assert found is not None
    assert (found.low, found.high) == pytest.approx((low, high), abs=1e-9)


def test_few_corpora_are_drawn_whole() -> None:
    clusters = [[1.0, 1.0, 1.0], [0.0], [0.0, 1.0], [0.0, 0.0]]
    low, high = np.quantile(every_resample(clusters), (0.025, 0.975))
    found = by_cluster(*columns(clusters))
    assert found is not None
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.03)


def test_many_tasks_agree_with_drawing_one_by_one() -> None:
    values = [1.0] * 37 + [0.0] * 150  # 187 tasks, the size of the published suite
    low, high = np.quantile(one_by_one([[value] for value in values], 4_000), (0.025, 0.975))
    found = by_task(np.array(values))
    assert found is not None
    assert (found.low, found.high) == pytest.approx((low, high), abs=0.008)
    assert (found.high - found.low) / 2 == pytest.approx(0.057, abs=0.005)


def test_corpora_whose_tasks_go_together_give_a_wider_interval_than_tasks() -> None:
    values, owner = columns([[1.0] * 10] * 5 + [[0.0] * 10] * 5)
    tasks, corpora = by_task(values), by_cluster(values, owner)
    assert tasks is not None
    assert corpora is not None
    assert corpora.high - corpora.low > 2 * (tasks.high - tasks.low)


def test_it_is_the_same_every_time_and_in_any_order() -> None:
    values = np.array([1.0, 0.0, 0.0, 1.0, 0.0])
    assert by_task(values) == by_task(values[::-1])
    assert by_cluster(values, np.array([7, 7, 3, 3, 9])) == by_cluster(values, np.array([1, 1, 0, 0, 2]))


@pytest.mark.parametrize("values", [[], [1.0], [1.0, 1.0, 1.0]])
def test_it_gives_no_interval_without_spread(values: list[float]) -> None:
    assert by_task(np.array(values)) is None
    assert by_cluster(np.array(values), np.arange(len(values))) is None


def test_it_gives_none_of_one_corpus() -> None:
    assert by_cluster(np.array([1.0, 0.0]), np.array([4, 4])) is None
