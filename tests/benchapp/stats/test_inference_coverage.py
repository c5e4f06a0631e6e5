"""The simulation of benchmarks/coverage.py: it measures what the pages use, and a small run of it holds the promise."""

from __future__ import annotations

import numpy as np
import pytest

from benchapp.stats.inference.clusters import sign_flip
from benchapp.stats.inference.correction import correct
from benchapp.stats.inference.difference import compare
from benchapp.stats.inference.holm import holm
from benchapp.stats.inference.joint_flips import Flips, flip_jointly
from benchapp.stats.inference.random_effects import opine
from benchapp.stats.inference.sides import TaskMeans, pair
from benchmarks import levels
from benchmarks.coverage import Draws, Scene, draw, measure, methods


def columns(draws: Draws, index: int, scene: Scene) -> tuple[list[TaskMeans], list[TaskMeans]]:
    n = np.arange(scene.total)
    family, cluster = n // scene.tasks, n // (scene.tasks * 5)
    own, other = (
        [TaskMeans(n, cluster, family, passes.reshape(-1)) for passes in side[index]]
        for side in (draws.own, draws.other)
    )
    return own, other


@pytest.mark.parametrize(
    ("clusters", "replicates"), [(6, (1, 1)), (10, (1, 3)), (20, (1, 1)), (6, (2, 2)), (20, (3, 3))]
)
def test_its_primary_method_is_the_one_of_the_pages(clusters: int, replicates: tuple[int, int]) -> None:
    scene = Scene(clusters, replicates, 3, 0.8, 0.8)
    draws = draw(scene, 6, np.random.default_rng(1))
    found = methods(scene, draws)
    for index in range(6):
        difference = compare(*columns(draws, index, scene))
        assert difference is not None
        assert difference.interval is not None
        ends = found["primary"].low[index], found["primary"].high[index], found["primary"].p[index]
        assert ends == pytest.approx((difference.interval.low, difference.interval.high, difference.p))
        family = found["family bootstrap"]
        shown = [interval for interval in difference.secondary if "family" in interval.method]
        assert (family.low[index], family.high[index]) == pytest.approx((shown[0].low, shown[0].high))


def test_its_truth_is_what_endless_learning_shows() -> None:
    """Expected shares by quadrature against many replicates of one comparison."""
    scene = Scene(6, (4000, 4000), 3, 0.8, 0.8)
    draws = draw(scene, 1, np.random.default_rng(2))
    assert draws.own.mean() - draws.other.mean() == pytest.approx(draws.truth[0], abs=0.005)
    assert draws.own.mean() == pytest.approx(draws.truth_own[0], abs=0.004)


def test_its_trials_that_share_a_library_are_not_independent() -> None:
    """Spread of an episode's share over replicates: what independent trials would give, and what sharing adds."""
    scene = Scene(1, (20000, 1), 3, 0.8, 0.0)
    shares = draw(scene, 1, np.random.default_rng(3)).own[0].mean(axis=(2, 3))[:, 0]
    independent = shares.mean() * (1 - shares.mean()) / 15  # at most, were the 15 trials independent
    assert shares.var() > 1.6 * independent


@pytest.mark.parametrize(("clusters", "replicates"), [(6, (1, 1)), (10, (1, 1)), (6, (5, 5)), (20, (1, 1))])
def test_its_primary_intervals_cover_and_its_naive_ones_do_not(clusters: int, replicates: tuple[int, int]) -> None:
    scene = Scene(clusters, replicates, 3, 0.8, 0.0)
    rows = {row.method: row for row in measure(scene, 800, np.random.default_rng(4))}
    assert rows["primary"].coverage > 0.93
    assert rows["primary"].level < 0.07
    assert rows["family bootstrap"].coverage < 0.85
    if replicates == (1, 1):
        assert rows["Newcombe paired"].coverage < 0.85
        assert rows["McNemar"].level > 0.15


# --- levels and families -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("replicates", [(1, 1), (1, 3), (3, 3), (4, 10)])
@pytest.mark.parametrize("world", ["shared", "uneven"])
def test_the_test_whose_level_is_measured_is_the_one_of_the_pages(world: str, replicates: tuple[int, int]) -> None:
    sides = levels.draw_means(levels.WORLDS[world], 8, replicates, 0.8, 5, np.random.default_rng(1))
    p = levels.run_tests(*sides)
    own, other, shares = sides
    sizes = levels.WORLDS[world].sizes(8)
    cluster = np.repeat(np.arange(8), sizes)
    n = np.arange(len(cluster))
    assert shares == pytest.approx(sizes / sizes.sum())
    for index in range(5):
        means = ([TaskMeans(n, cluster, n, row[cluster]) for row in side[index]] for side in (own, other))
        difference = compare(*means)
        assert difference is not None
        assert p["decides"][index] == pytest.approx(difference.p)
        if "t" in p:
            beside = difference.secondary[0]
            assert beside.excludes_zero == (p["t"][index] < 0.05)


def test_the_family_whose_level_is_measured_is_corrected_as_on_the_pages() -> None:
    rng = np.random.default_rng(2)
    values = levels.draw_family(levels.WORLDS["shared"], 8, (3, 2), np.array([0.8, 0.0, 0.0]), 5, rng)
    found = levels.correct_many(values)
    places = np.arange(8)
    for index, family in enumerate(values):
        own = sign_flip_p(family)
        assert found["joint"][index] == pytest.approx(
            flip_jointly([Flips(row / 8, places, places, places) for row in family])
        )
        expected = holm({str(place): p for place, p in enumerate(own)})
        assert found["holm"][index] == pytest.approx([expected[str(place)] for place in range(6)])


def sign_flip_p(family: np.ndarray) -> list[float]:
    return [sign_flip(row).p or 0.0 for row in family]


# --- ranks and second opinions -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("replicates", [1, 3])
def test_pairs_are_called_as_on_the_pages(replicates: int) -> None:
    world, clusters = levels.WORLDS["uneven"], 10
    sizes = world.sizes(clusters)
    cluster = np.repeat(np.arange(clusters), sizes)
    n, starts = np.arange(len(cluster)), np.cumsum([0, *sizes[:-1]])
    gains = [(replicates, gain) for gain in (0.0, 1.5, 3.0)]
    _, sides = levels.draw_passes(world, clusters, gains, 6, np.random.default_rng(3))
    means = [np.add.reduceat(passes, starts, axis=2, dtype=float) / sizes for passes in sides]
    found = levels.find_above(means, sizes / sizes.sum())
    assert found.any()
    for index in range(6):
        runs = [[TaskMeans(n, cluster, n, row) for row in side[index].astype(float)] for side in sides]
        pairs = [(0, 1), (0, 2), (1, 2)]
        differences = [compare(runs[i], runs[j]) for i, j in pairs]
        for (i, j), difference, p in zip(pairs, differences, correct(differences).decides, strict=True):
            assert difference is not None
            assert p is not None
            is_sure = difference.excludes_zero and p <= 0.05
            assert found[index, j, i] == (is_sure and difference.delta > 0)
            assert found[index, i, j] == (is_sure and difference.delta < 0)


def test_true_ranks_of_conditions_alike_are_all_they_share() -> None:
    """Where nothing is called, nothing is left out; where all are alike, each call leaves a true rank out."""
    rng = np.random.default_rng(4)
    wrong, wide = levels.rank_many(levels.WORLDS["shared"], 8, 1, np.zeros(3), 400, rng)
    assert 0.005 < wrong < 0.08
    assert 2.9 < wide < 3
    wrong, wide = levels.rank_many(levels.WORLDS["shared"], 20, 1, np.array([0.0, 2.0, 4.0]), 100, rng)
    assert wrong == 0
    assert wide < 1.2


def test_the_second_opinion_that_is_measured_is_that_of_the_pages() -> None:
    world = levels.WORLDS["uneven"]
    differences, truth = levels.draw_differences(world, 6, 0.8, 5, np.random.default_rng(5))
    sizes = world.sizes(6)
    cluster, n = np.repeat(np.arange(6), sizes), np.arange(sizes.sum())
    low, high = levels.give_intervals(differences, sizes)[-1]
    assert (truth > 0).all()
    for index, row in enumerate(differences):
        paired = pair([TaskMeans(n, cluster, n, row)], [TaskMeans(n, cluster, n, np.zeros(len(n)))])
        assert paired is not None
        opinion = opine(paired)
        assert opinion is not None
        assert (opinion.low, opinion.high) == pytest.approx((max(-1, low[index]), min(1, high[index])))


def test_looking_again_finds_something_too_often_and_evidence_does_not() -> None:
    found = levels._look(levels.WORLDS["shared"], 0.0, 1_500, 1)
    again, end, evidence = (found[name][20].mean() for name in ("test, every look", "test, one look", "evidence"))
    assert again > 0.10
    assert end < 0.065
    assert 0.01 < evidence < 0.05
