"""What a design can find, compared with comparisons that are drawn and judged."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from benchapp.stats.inference.difference import compare
from benchapp.stats.inference.model import measure_run_factor
from benchapp.stats.inference.sides import Paired
from benchapp.stats.planning import (
    GUESS,
    POWER,
    UNITS,
    Design,
    DesignCost,
    Measured,
    RunCost,
    Settling,
    Spread,
    count_added,
    extend,
    find_least,
    measure_groups,
    measure_pairs,
    predict_power,
    state_spread,
)

SIX = Design((5,) * 6, (3, 3))


def pair_of(own: np.ndarray, other: np.ndarray, tasks: int) -> Paired:
    """Sides [r, clusters * tasks]."""
    n = own.shape[1]
    cluster = np.repeat(np.arange(n // tasks), tasks)
    return Paired(np.arange(n), cluster, np.arange(n), own, other, np.ones(n), np.full(n, 1 / n), 0)


def test_the_four_parts_make_up_what_a_trial_varies() -> None:
    parts = GUESS.sample**2 + GUESS.task**2 + GUESS.episode**2 + GUESS.rerun**2
    assert parts == pytest.approx(GUESS.share * (1 - GUESS.share))


def draw_runs(rng: np.random.Generator, spread: Spread, replicates: int, tasks: np.ndarray) -> np.ndarray:
    """Passes [replicates, 60] of 12 episodes of 5 tasks. tasks: standard normal, [60]."""
    library = np.repeat(rng.normal(0, spread.episode, (replicates, 12)), 5, axis=1)
    chances = spread.share + tasks * spread.task + library + rng.normal(0, spread.rerun, (replicates, 1))
    return (rng.random(chances.shape) < chances).astype(float)


def test_spreads_are_measured_on_runs() -> None:
    """On average over pilots; one alone shows little."""
    rng, true = np.random.default_rng(4), Spread(0.5, 0.15, 0.1, 0.05)
    tasks = rng.uniform(-1.7, 1.7, 60)
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


@pytest.mark.parametrize(
    "design", [Design((6,) * 10, (1, 1)), Design((6,) * 8, (3, 3)), Design((6,) * 8, (4, 4), is_block=False)]
)
def test_predicted_power_is_how_often_drawn_comparisons_find_it(design: Design) -> None:
    """800 comparisons of runs drawn with the spread that is stated; a Monte-Carlo error of two points."""
    rng, spread, delta = np.random.default_rng(3), Spread(0.5, 0.1, 0.08, 0.05), 0.12
    (r, _), episodes = design.replicates, len(design.tasks)
    hard = np.repeat(rng.uniform(-0.17, 0.17, (episodes * 6)), 1)
    found = 0
    for _ in range(800):
        shared = rng.normal(0, spread.rerun, (r, 1))
        sides = []
        for mean in (spread.share + delta / 2, spread.share - delta / 2):
            run = shared if design.is_block else rng.normal(0, spread.rerun, (r, 1))
            library = np.repeat(rng.normal(0, spread.episode, (r, episodes)), 6, axis=1)
            sides.append((rng.random((r, episodes * 6)) < mean + hard + library + run).astype(float))
        paired = pair_of(sides[0], sides[1], 6)
        cells = [paired.cells(side) for side in sides]
        is_block = design.is_block and r > 1
        factor = measure_run_factor(cells, is_block=is_block)
        test = compare(paired, is_share=True, is_block=is_block, factor=factor).test
        found += test is not None and test.p <= 0.05 and test.delta > 0
    assert predict_power(design, spread, delta) == pytest.approx(found / 800, abs=0.08)


def test_the_smallest_difference_is_found_eight_times_of_ten() -> None:
    least = find_least(SIX, GUESS)
    assert least is not None
    assert (predict_power(SIX, GUESS, least) or 0) >= POWER > (predict_power(SIX, GUESS, least - 0.01) or 0)


def test_one_replicate_of_two_episodes_finds_nothing() -> None:
    assert find_least(Design((5,) * 2, (1, 1)), GUESS) is None
    assert predict_power(Design((5,) * 2, (1, 1)), GUESS, 0.3) == 0
    assert find_least(Design((5,) * 6, (1, 1)), GUESS) is not None


def test_shares_cannot_differ_by_more_than_all() -> None:
    assert predict_power(SIX, GUESS, 1.1) is None


def test_more_of_anything_finds_less() -> None:
    for unit in UNITS:
        found = [predict_power(extend(SIX, unit, more), GUESS, 0.15) or 0 for more in (0, 4, 8)]
        assert found == sorted(found), unit


def test_the_fewest_are_added_that_find_it() -> None:
    more = count_added(SIX, GUESS, 0.15, "replicate")
    assert more is not None
    enough, fewer = (predict_power(extend(SIX, "replicate", each), GUESS, 0.15) or 0 for each in (more, more - 1))
    assert enough >= POWER > fewer
    reruns, apart = replace(GUESS, rerun=0.15), replace(SIX, is_block=False)
    # Without blocks no episode and no sample makes up for what a whole run has in common.
    assert count_added(apart, reruns, 0.10, "episode") is None
    assert count_added(apart, reruns, 0.10, "sample") is None
    assert count_added(SIX, reruns, 0.10, "episode") is not None


def test_nothing_is_added_to_a_design_that_finds_it() -> None:
    none = RunCost(0)
    settling = Settling(Design((10,) * 20, (10, 10)), Measured(GUESS, 20, 18), DesignCost(none, none, none), 0.2)
    assert settling.is_enough
    assert (settling.routes, settling.in_vain, settling.find_route("replicate")) == ([], [], None)


def test_one_against_three_is_made_even() -> None:
    assert extend(Design((5,) * 6, (1, 3)), "replicate", 1).replicates == (2, 3)
    assert extend(Design((5,) * 6, (1, 3)), "replicate", 4).replicates == (5, 5)
    assert extend(Design((5, 2), (1, 1), weights=(0.5, 0.5)), "episode", 3).tasks == (5, 2, 5, 2, 5)


def test_the_cheapest_way_comes_first() -> None:
    own, other = RunCost(60, 3.0, 600.0), RunCost(60, 1.0, None)
    cost = DesignCost(own, other, RunCost(180, 0.3, 500.0))
    steady = Spread(0.5, 0.1, 0.02, 0.0)  # hardly anything but luck at the single trial: samples will do
    settling = Settling(SIX, Measured(steady, 6, 4), cost, 0.2)
    found = {route.unit: route for route in settling.routes}
    assert next(iter(found)) == "sample"
    more = found["replicate"].more
    assert found["replicate"].cost == RunCost(120 * more, 4.0 * more, None)
    assert found["episode"].cost.usd == pytest.approx(12.0 * found["episode"].more / 6)
    assert found["sample"].cost.usd == pytest.approx(0.3 * found["sample"].more)
