"""What a design can find: predicted with the test that decides, held against comparisons drawn another way."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from scipy.special import expit

from benchapp.stats.inference.difference import primary, primary_p_many
from benchapp.stats.inference.sides import Paired
from benchapp.stats.planning.power import POWER, Design, find_least, predict_power
from benchapp.stats.planning.settling import ADDED, DesignCost, RunCost, Settling, count_added
from benchapp.stats.planning.spread import (
    GUESS,
    Measured,
    Spread,
    measure_groups,
    measure_pairs,
    state_spread,
    to_log_odds,
)
from benchmarks import planner

SIX = Design((5,) * 6, (3, 3))


def pair_of(own: np.ndarray, other: np.ndarray, tasks: int) -> Paired:
    """Sides [r, clusters * tasks]."""
    n = own.shape[1]
    cluster = np.repeat(np.arange(n // tasks), tasks)
    return Paired(np.arange(n), cluster, cluster, np.arange(n), own, other, np.full(n, 1 / n), 0)


@pytest.mark.parametrize("replicates", [(1, 1), (1, 3), (3, 1), (2, 2), (2, 5), (4, 10)])
@pytest.mark.parametrize("chance", [0.5, 0.03])  # with 0.03 replicates are often all alike
def test_many_comparisons_are_decided_as_one_is(replicates: tuple[int, int], chance: float) -> None:
    rng = np.random.default_rng(5)
    sides = [(rng.random((30, count, 24)) < chance).astype(float) for count in replicates]
    pairs = [pair_of(own, other, 3) for own, other in zip(*sides, strict=True)]
    own, other = (side.reshape(30, side.shape[1], 8, 3).mean(axis=3) for side in sides)
    alone = [primary(each).p for each in pairs]
    assert primary_p_many(own, other, np.full(8, 1 / 8)) == pytest.approx(alone)


@pytest.mark.parametrize(
    "spread",
    [
        GUESS,
        Spread(0.05, 0.05, 0.02, 0.0),
        Spread(0.4, 0.2, 0.3, 0.1),
        Spread(0.1, 0.0, 0.2, 0.0),
        Spread(0.5, 0, 0, 0),
    ],
)
def test_log_odds_have_the_spreads_that_were_stated(spread: Spread) -> None:
    rng, odds = np.random.default_rng(2), to_log_odds(spread)
    tasks = rng.normal(0, 1, (2_000, 1)) * odds.task
    rerun = rng.normal(0, 1, 2_000) * odds.rerun
    chances = expit(odds.middle + tasks + rerun + rng.normal(0, 1, 2_000) * odds.episode)
    assert chances.mean() == pytest.approx(spread.share, abs=0.01)
    assert chances.mean(axis=1).std() == pytest.approx(spread.task, abs=0.012)
    assert chances.mean(axis=0).std() == pytest.approx(np.hypot(spread.episode, spread.rerun), abs=0.012)
    only_reruns = expit(odds.middle + tasks[:100] + rerun[:400] + rng.normal(0, 1, (150, 1, 1)) * odds.episode)
    assert only_reruns.mean(axis=(0, 1)).std() == pytest.approx(spread.rerun, abs=0.012)


def test_the_four_parts_make_up_what_a_trial_varies() -> None:
    parts = GUESS.sample**2 + GUESS.task**2 + GUESS.episode**2 + GUESS.rerun**2
    assert parts == pytest.approx(GUESS.share * (1 - GUESS.share))


def draw_runs(rng: np.random.Generator, spread: Spread, replicates: int, tasks: np.ndarray) -> np.ndarray:
    """Passes [replicates, 60] of 12 episodes of 5 tasks."""
    odds = to_log_odds(spread)
    library = np.repeat(rng.normal(0, odds.episode, (replicates, 12)), 5, axis=1)
    chances = expit(odds.middle + tasks + library + rng.normal(0, 1, (replicates, 1)) * odds.rerun)
    return (rng.random(chances.shape) < chances).astype(float)


def test_spreads_are_measured_on_runs() -> None:
    """On average over pilots; one alone shows little."""
    rng, true = np.random.default_rng(4), Spread(0.5, 0.2, 0.15, 0.1)
    tasks = rng.normal(0, 1, 60) * to_log_odds(true).task
    found = [measure_pairs([pair_of(*(draw_runs(rng, true, 5, tasks) for _ in "ab"), 5)]).spread for _ in range(200)]
    for name, off in (("share", 0.04), ("task", 0.03), ("episode", 0.02), ("rerun", 0.02)):
        root = np.sqrt(np.mean([getattr(each, name) ** 2 for each in found]))
        assert root == pytest.approx(getattr(true, name), abs=off), name


def test_one_run_a_side_shows_nothing_of_reruns() -> None:
    rng = np.random.default_rng(6)
    tasks = rng.normal(0, 1, 60)
    measured = measure_pairs([pair_of(*(draw_runs(rng, GUESS, 1, tasks) for _ in "ab"), 5)])
    assert measured.guessed
    assert measured.is_rough
    assert measured.spread.rerun == pytest.approx(GUESS.rerun, rel=0.05)
    assert not measure_pairs([pair_of(*(draw_runs(rng, GUESS, 3, tasks) for _ in "ab"), 5)]).is_rough


def test_too_few_reruns_are_no_measurement() -> None:
    rng = np.random.default_rng(7)
    runs = draw_runs(rng, GUESS, 3, rng.normal(0, 1, 60))
    cluster = np.repeat(np.arange(12), 5)
    assert measure_groups([(runs, cluster)]) is None
    found = measure_groups([(runs, cluster), (runs, cluster)])
    assert found is not None
    assert (found.runs, found.freedom) == (6, 4)


def test_runs_that_pairs_share_are_counted_once() -> None:
    rng = np.random.default_rng(8)
    tasks = rng.normal(0, 1, 60)
    one, two, baseline = (draw_runs(rng, GUESS, 3, tasks) for _ in range(3))
    both = measure_pairs([pair_of(one, baseline, 5), pair_of(two, baseline, 5)])
    assert (both.runs, both.freedom) == (9, 6)
    assert both.spread.share == pytest.approx((one.mean() + two.mean() + 2 * baseline.mean()) / 4)


def test_no_part_states_more_than_a_share_can_vary() -> None:
    stated = state_spread(GUESS, {"task": 0.5, "episode": 0.5})
    assert stated.sample > 0
    assert state_spread(GUESS, {}) is GUESS


# Three of benchmarks/planner.py, which has 25: by place.
@pytest.mark.parametrize("place", [1, 14, 18])
def test_predicted_power_is_that_of_comparisons_drawn_another_way(place: int) -> None:
    scene, rng = list(planner.scenes())[place], np.random.default_rng((3, place))
    tasks = planner.draw_tasks(scene, rng)
    spread, truth = planner.describe(scene, tasks, rng)
    power = np.mean([planner.is_found(each) for each in planner.simulate(scene, tasks, 1_000, rng)])
    assert predict_power(scene.design, spread, truth) == pytest.approx(power, abs=0.05 + 0.03)  # 0.03: of 1,000 draws


def test_the_smallest_difference_is_found_eight_times_of_ten() -> None:
    least = find_least(SIX, GUESS)
    assert least is not None
    assert (predict_power(SIX, GUESS, least) or 0) >= POWER > (predict_power(SIX, GUESS, least - 0.01) or 0)


def test_one_replicate_of_few_episodes_finds_nothing() -> None:
    assert find_least(Design((5,) * 5, (1, 1)), GUESS) is None  # the least p of 2**5 signs is 0.0625
    assert predict_power(Design((5,) * 5, (1, 1)), GUESS, 0.3) == 0
    assert find_least(Design((5,) * 6, (1, 1)), GUESS) is not None


def test_shares_cannot_differ_by_more_than_all() -> None:
    assert predict_power(SIX, GUESS, 1.0) is None
    assert predict_power(SIX, replace(GUESS, share=0.02, task=0.05, episode=0.02), 0.5) is not None


def test_more_of_anything_finds_less() -> None:
    for unit in ADDED:
        found = [predict_power(ADDED[unit](SIX, more), GUESS, 0.15) or 0 for more in (0, 4, 8)]
        assert found == sorted(found), unit


def test_the_fewest_are_added_that_find_it() -> None:
    more = count_added(SIX, GUESS, 0.15, "replicate")
    assert more is not None
    enough, fewer = (predict_power(ADDED["replicate"](SIX, each), GUESS, 0.15) or 0 for each in (more, more - 1))
    assert enough >= POWER > fewer
    reruns = replace(GUESS, rerun=0.15)  # what a whole run has in common, no episode and no sample makes up for
    assert count_added(SIX, reruns, 0.10, "episode") is None
    assert count_added(SIX, reruns, 0.10, "sample") is None


def test_nothing_is_added_to_a_design_that_finds_it() -> None:
    none = RunCost(0)
    settling = Settling(Design((10,) * 20, (10, 10)), Measured(GUESS, 20, 18), DesignCost(none, none, none), 0.2)
    assert settling.is_enough
    assert (settling.routes, settling.in_vain, settling.find_route("replicate")) == ([], [], None)


def test_one_against_three_is_made_even() -> None:
    assert ADDED["replicate"](Design((5,) * 6, (1, 3)), 1).replicates == (2, 3)
    assert ADDED["replicate"](Design((5,) * 6, (1, 3)), 4).replicates == (5, 5)
    assert ADDED["episode"](Design((5, 2), (1, 1), weights=(0.5, 0.5)), 3).tasks == (5, 2, 5, 2, 5)


def test_the_cheapest_way_comes_first() -> None:
    own, other = RunCost(60, 3.0, 600.0), RunCost(60, 1.0, None)
    cost = DesignCost(own, other, RunCost(180, 0.3, 500.0))
    steady = Spread(0.5, 0.1, 0.02, 0.0)  # hardly anything but luck at the single trial: samples will do
    settling = Settling(SIX, Measured(steady, 6, 4), cost, 0.2)
    found = {route.unit: route for route in settling.routes}
    assert list(found)[0] == "sample"
    more = found["replicate"].more
    assert found["replicate"].cost == RunCost(120 * more, 4.0 * more, None)
    assert found["episode"].cost.usd == pytest.approx(12.0 * found["episode"].more / 6)
    assert found["sample"].cost.usd == pytest.approx(0.3 * found["sample"].more)
