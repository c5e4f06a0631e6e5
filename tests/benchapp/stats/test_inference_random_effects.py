"""The second opinion on few episodes: its posterior against one made by brute force, and what it is not sure of."""

from __future__ import annotations

import numpy as np
import pytest

from benchapp.stats.inference.random_effects import SPREAD, opine, opine_many, pool_errors
from benchapp.stats.inference.sentences import say_opinion
from benchapp.stats.inference.sides import Paired, TaskMeans, pair


def line_up(own: list[list[float]], other: list[list[float]]) -> Paired:
    """One run a side: tasks of each episode."""
    cluster = np.repeat(np.arange(len(own)), [len(each) for each in own])
    n = np.arange(len(cluster))
    sides = [TaskMeans(n, cluster, n, np.concatenate(side)) for side in (own, other)]
    found = pair(sides[:1], sides[1:])
    assert found is not None
    return found


def test_its_posterior_is_that_of_a_grid_of_means_and_spreads() -> None:
    values, errors = np.array([0.4, -0.1, 0.2, 0.5, 0.1]), np.array([0.2, 0.15, 0.2, 0.3, 0.1])
    mu, tau = np.linspace(-3, 3, 3001)[:, np.newaxis], np.linspace(0.0005, 2.5, 2500)
    logs = -0.5 * (tau / SPREAD) ** 2 + sum(
        -0.5 * (np.log(s**2 + tau**2) + (d - mu) ** 2 / (s**2 + tau**2)) for d, s in zip(values, errors, strict=True)
    )
    chance = np.exp(logs - logs.max()).sum(axis=1)
    chance /= chance.sum()
    below = np.cumsum(chance)
    mean, low, high, above = (float(each[0]) for each in opine_many(values[np.newaxis], errors[np.newaxis]))
    assert mean == pytest.approx(float(chance @ mu[:, 0]), abs=0.002)
    assert low == pytest.approx(float(mu[np.searchsorted(below, 0.025), 0]), abs=0.01)
    assert high == pytest.approx(float(mu[np.searchsorted(below, 0.975), 0]), abs=0.01)
    assert above == pytest.approx(float(chance[mu[:, 0] > 0].sum()), abs=0.003)


def test_turned_sides_turn_the_opinion() -> None:
    values, errors = np.array([[0.4, -0.1, 0.2, 0.5]]), np.full((1, 4), 0.2)
    mean, low, high, above = (each[0] for each in opine_many(values, errors))
    turned = [each[0] for each in opine_many(-values, errors)]
    assert turned == pytest.approx([-mean, -high, -low, 1 - above], abs=1e-6)


def test_tasks_that_all_differ_alike_give_no_opinion() -> None:
    """0 of 24 against 0 of 24 made it sure of at most 8 points."""
    ties, ones = [[0.0, 0.0, 0.0]] * 4, [[1.0, 1.0, 1.0]] * 4
    assert opine(line_up(ties, ties)) is None
    assert opine(line_up(ones, ties)) is None
    assert opine(line_up([*ones[:3], [1.0, 1.0, 0.0]], ties)) is not None


def test_it_knows_the_spread_of_tasks_inside_episodes_and_not_that_between_them() -> None:
    squares, counts = np.array([3.5]), np.array([3, 3, 5])
    assert pool_errors(squares, counts)[0] == pytest.approx(np.sqrt(4.0 / 9 / counts))


@pytest.mark.parametrize("episodes", [3, 10])
def test_it_is_given_only_where_it_was_measured(episodes: int) -> None:
    assert opine(line_up([[1.0, 0.0]] * episodes, [[0.0, 0.0]] * episodes)) is None


def test_it_is_given_of_one_run_a_side_alone() -> None:
    n = np.arange(10)
    sides = [TaskMeans(n, n // 2, n, (n % 3 == 0).astype(float)) for _ in range(3)]
    found = pair(sides[:2], sides[2:])
    assert found is not None
    assert opine(found) is None


def test_it_says_that_it_decides_nothing() -> None:
    found = opine(line_up([[1.0, 1.0, 0.0]] * 5, [[0.0, 1.0, 0.0]] * 5))
    assert found is not None
    said = say_opinion(found)
    assert said.startswith(
        "Second opinion, deciding nothing: random effects over 5 episodes, each counted alike, give +33.3 points (95 % interval "
    )
    assert said.endswith("above 0 with probability 0.97.")
