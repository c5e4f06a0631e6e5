"""Differences corrected together: joint sign flips against a slow loop, and when they give way to Holm."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchapp.stats.inference.correction import correct
from benchapp.stats.inference.difference import Difference, compare
from benchapp.stats.inference.joint_flips import Flips, flip_jointly
from benchapp.stats.inference.sides import TaskMeans

shares = st.integers(-15, 15).map(lambda k: k / 15)


def flips(values: list[float], places: range) -> Flips:
    """One task a cluster, so that its place is all that names it."""
    keys = np.array(places)
    return Flips(np.array(values), keys, keys + 1000, np.arange(len(values)))


def slow_joint_p(rows: list[list[float]]) -> list[float]:
    """Westfall and Young's step-down maxT over all sign patterns, counted one by one; rows hold 0 for a cluster they lack."""
    sizes = [sum(value**2 for value in row) ** 0.5 or 1.0 for row in rows]

    def measure(row: int, signs: tuple[int, ...]) -> float:
        return abs(sum(s * v for s, v in zip(signs, rows[row], strict=True))) / sizes[row]

    patterns = list(product((1, -1), repeat=len(rows[0])))
    seen = [measure(row, patterns[0]) for row in range(len(rows))]
    left, running, found = sorted(range(len(rows)), key=lambda row: -seen[row]), 0.0, [0.0] * len(rows)
    while left:
        beyond = sum(max(measure(row, signs) for row in left) >= seen[left[0]] - 1e-9 for signs in patterns)
        running = max(running, beyond / len(patterns))
        found[left.pop(0)] = running
    return found


@settings(max_examples=40, deadline=None)
@given(st.lists(st.lists(shares, min_size=7, max_size=7), min_size=1, max_size=4))
def test_it_counts_as_a_slow_loop_does(rows: list[list[float]]) -> None:
    assert flip_jointly([flips(row, range(7)) for row in rows]) == pytest.approx(slow_joint_p(rows))


def test_differences_may_lack_a_cluster_or_share_none() -> None:
    rng = np.random.default_rng(1)
    a, b = rng.normal(0.5, 1, 6).tolist(), rng.normal(0.5, 1, 4).tolist()
    part = flip_jointly([flips(a, range(6)), flips(b, range(2, 6))])
    assert part == pytest.approx(slow_joint_p([a, [0.0, 0.0, *b]]))
    apart = flip_jointly([flips(a, range(6)), flips(b, range(50, 54))])
    assert apart == pytest.approx(slow_joint_p([[*a, *[0.0] * 4], [*[0.0] * 6, *b]]))


def test_clusters_are_one_by_a_task_or_by_a_name() -> None:
    """Two metrics of one pair have other tasks and the same episodes; two suites may have the same tasks in nothing."""
    rng = np.random.default_rng(2)
    a, b = rng.normal(0.5, 1, 6).tolist(), rng.normal(0.5, 1, 6).tolist()
    first = flips(a, range(6))
    other_tasks = Flips(np.array(b), np.arange(100, 106), first.named, np.arange(6))
    other_names = Flips(np.array(b), first.task, np.arange(7000, 7006), np.arange(6))
    for second in (other_tasks, other_names):
        assert flip_jointly([first, second]) == pytest.approx(slow_joint_p([a, b]))


def test_it_gives_way_where_one_difference_cuts_anothers_clusters() -> None:
    tasks = np.arange(6)
    whole = Flips(np.ones(3), tasks, np.array([0, 0, 1, 1, 2, 2]), np.array([0, 0, 1, 1, 2, 2]))
    cut = Flips(np.ones(6), tasks, tasks + 50, tasks)
    assert flip_jointly([whole, cut]) is None
    assert flip_jointly([whole, whole]) == [0.25, 0.25]


def test_its_random_patterns_come_close_to_all_of_them() -> None:
    rng = np.random.default_rng(3)
    rows = rng.normal(0.3, 1, size=(3, 16))
    signs = np.array(list(product((1.0, -1.0), repeat=16)))
    seen = np.abs(rows.sum(axis=1)) / np.linalg.norm(rows, axis=1)
    sizes = np.abs(signs @ (rows / np.linalg.norm(rows, axis=1, keepdims=True)).T)
    largest = (sizes.max(axis=1) >= seen.max() - 1e-9).mean()
    found = flip_jointly([flips(row.tolist(), range(16)) for row in rows])
    assert found is not None
    assert min(found) == pytest.approx(largest, abs=4 * np.sqrt(largest / 2**14))
    assert found == flip_jointly([flips(row.tolist(), range(16)) for row in rows])


@pytest.mark.parametrize(("clusters", "count"), [(6, 8), (8, 4), (10, 16)])
def test_a_family_that_shares_its_baseline_keeps_its_level(clusters: int, count: int) -> None:
    """Rare passes and shared libraries: no condition does anything, all are held against one. 1 SE is 0.7 points."""
    rng = np.random.default_rng(clusters)
    found = []
    for _ in range(1000):
        luck = rng.normal(-1.5, 1.5, size=(count + 1, clusters, 1))
        runs = (rng.random((count + 1, clusters, 6)) < 1 / (1 + np.exp(-luck))).mean(axis=2)
        p = flip_jointly([flips(row.tolist(), range(clusters)) for row in runs[1:] - runs[0]])
        assert p is not None
        found.append(min(p) <= 0.05)
    assert np.mean(found) < 0.065


# --- which correction decides ------------------------------------------------------------------------------------------


def make(clusters: int, gain: float, replicates: int = 1, seed: int = 1) -> Difference | None:
    rng, n = np.random.default_rng(seed), np.arange(clusters * 5)

    def learn(chance: float) -> TaskMeans:
        return TaskMeans(n, n // 5, n, (rng.random(len(n)) < chance).astype(float))

    return compare([learn(0.3 + gain) for _ in range(replicates)], [learn(0.3) for _ in range(replicates)])


def test_six_episodes_can_find_something_among_several() -> None:
    family = [make(6, gain, seed=seed) for seed, gain in enumerate((0.7, 0.7, 0.0, 0.0))]
    found = correct(family)
    assert found.holm[0] == pytest.approx(4 * 2 / 64), "by Holm six episodes find nothing among four"
    assert found.joint is not None
    assert found.decides == found.joint
    assert found.joint[0] is not None
    assert found.joint[0] <= 0.05
    assert found.says == "corrected for 4 comparisons together (joint sign-flip)"
    assert correct(family, joint=False).joint is None


@pytest.mark.parametrize("other", [make(6, 0.1, replicates=3), make(6, 0.1, replicates=2)])
def test_holm_decides_where_one_is_tested_in_another_way(other: Difference | None) -> None:
    found = correct([make(6, 0.6), other])
    assert found.joint is None
    assert found.decides == found.holm
    assert found.says == "corrected for 2 comparisons together (Holm)"


def test_what_has_no_p_takes_nothing_from_the_others() -> None:
    alone, found = make(8, 0.4), correct([make(8, 0.4), None])
    assert alone is not None
    assert found.joint == pytest.approx((alone.p, None))
    assert found.holm[0] == pytest.approx(2 * (alone.p or 0))
    assert correct([None]).decides == (None,)
    assert correct([]).decides == ()


@settings(max_examples=25, deadline=None)
@given(st.integers(6, 17), st.integers(2, 5), st.integers(0, 1000))
def test_no_corrected_p_is_below_its_own(clusters: int, count: int, seed: int) -> None:
    family = [make(clusters, 0.1 * place, seed=seed + place) for place in range(count)]
    found = correct(family)
    assert found.joint is not None
    for each, p in zip(family, found.joint, strict=True):
        assert each is not None
        assert p is not None
        assert each.p is not None
        assert each.p - 1e-12 <= p <= 1
