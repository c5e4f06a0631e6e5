"""Two sides in, one difference out."""

from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest

from benchapp.stats.inference.difference import Claim, Difference, compare, correct_together
from benchapp.stats.inference.model import measure_run_factor
from benchapp.stats.inference.sides import TaskMeans, pair

UNEVEN = np.array([0] * 10 + [1, 2, 3, 4, 5, 6])  # one long episode, six of one task


def side(values: Sequence[float], per_cluster: int = 1) -> TaskMeans:
    n = np.arange(len(values))
    return TaskMeans(n, n // per_cluster, n, np.array(values, dtype=float))


def random_sides(count: int, tasks: int, per_cluster: int, seed: int = 1) -> list[TaskMeans]:
    rng = np.random.default_rng(seed)
    return [side(rng.integers(0, 2, size=tasks).tolist(), per_cluster) for _ in range(count)]


def difference(
    own: list[TaskMeans],
    other: list[TaskMeans],
    *,
    is_block: bool = False,
    by_family: bool = False,
    is_share: bool = True,
) -> Difference:
    paired = pair(own, other, by_family=by_family)
    assert paired is not None
    factor = measure_run_factor([paired.cells(paired.own), paired.cells(paired.other)], is_block=is_block)
    return compare(paired, is_share=is_share, is_block=is_block, factor=factor)


@pytest.mark.parametrize(
    ("replicates", "is_block", "claim"),
    [
        ((1, 1), False, Claim.ONE_RUN),
        ((1, 4), False, Claim.ONE_RUN),
        ((3, 3), True, Claim.RUN),
        ((2, 3), False, Claim.RERUN),
    ],
)
def test_the_plan_picks_the_claim(replicates: tuple[int, int], is_block: bool, claim: Claim) -> None:
    own, other = (random_sides(count, 90, 15, seed) for seed, count in enumerate(replicates))
    found = difference(own, other, is_block=is_block)
    assert (found.claim, found.replicates, found.clusters) == (claim, replicates, 6)
    assert found.interval is not None
    assert found.test is (found.rerun if claim is Claim.RERUN else found.run)


def test_copies_of_one_run_claim_no_more_than_one_run() -> None:
    own, other = random_sides(1, 60, 10, 1), random_sides(1, 60, 10, 2)
    found = difference(own * 3, other * 3, is_block=True)
    assert found.claim is Claim.ONE_RUN
    once = difference(own, other)
    assert found.run is not None
    assert once.run is not None
    assert (found.run.error, found.run.freedom) == pytest.approx((once.run.error, once.run.freedom))


def test_replicates_of_one_episode_are_reruns() -> None:
    found = difference(random_sides(3, 12, 12, 1), random_sides(4, 12, 12, 2))
    assert found.claim is Claim.RERUN
    assert found.test == found.run


@pytest.mark.parametrize("is_block", [True, False])
def test_what_reruns_would_show_is_a_second_interval_only_of_a_claim_about_runs(is_block: bool) -> None:
    found = difference(random_sides(3, 60, 10, 1), random_sides(3, 60, 10, 2), is_block=is_block)
    assert (found.rerun_interval is not None) == is_block


def test_it_counts_what_only_one_side_passed() -> None:
    found = difference([side([1, 1, 1, 0, 1, 1])], [side([0, 0, 0, 1, 0, 1])])
    assert found.discordant == (4, 1)
    assert (found.own, found.other, found.delta) == pytest.approx((5 / 6, 2 / 6, 0.5))
    plain = side([1, 0, 1, 0, 0, 1])
    assert difference([side([1, 0.5, 1, 0, 0, 1])], [plain]).discordant is None
    assert difference([plain, plain], [plain]).discordant is None


def test_its_interval_is_about_the_difference_it_reports() -> None:
    """All tasks of the long episode gain 0.5, all others nothing: +0.31 a task, and no mean over episodes (+0.07)."""
    n, noise = np.arange(16), np.random.default_rng(5).normal(0, 0.01, 16)
    own = TaskMeans(n, UNEVEN, n, np.where(UNEVEN == 0, 0.5, 0.0) + noise)
    found = difference([own], [TaskMeans(n, UNEVEN, n, np.zeros(16))])
    assert found.delta == pytest.approx(5 / 16 + noise.mean())
    assert (found.own, found.other) == pytest.approx((found.delta, 0))
    assert found.interval is not None
    assert found.interval.low < found.delta < found.interval.high


def test_it_weighs_families_and_not_tasks_where_the_metric_does() -> None:
    n = np.arange(16)
    own = TaskMeans(n, UNEVEN, UNEVEN, np.array([1.0] * 10 + [0, 0, 0, 1, 0, 0]))
    found = difference([own], [TaskMeans(n, UNEVEN, UNEVEN, np.zeros(16))], by_family=True)
    assert (found.own, found.delta) == pytest.approx((2 / 7, 2 / 7))
    means = np.array([1, 0, 0, 0, 1, 0, 0.0])
    assert found.run is not None
    assert found.run.error == pytest.approx(means.std(ddof=1) / np.sqrt(7))


def test_it_turns_round_with_the_sides_and_ignores_the_order_of_tasks() -> None:
    own, other = random_sides(1, 90, 15, 1)[0], random_sides(1, 90, 15, 2)[0]
    shuffled = np.random.default_rng(3).permutation(90)
    moved = TaskMeans(own.task[shuffled], own.cluster[shuffled] + 40, own.family[shuffled], own.value[shuffled])
    there, back = difference([own], [other]), difference([other], [moved])
    assert there.run is not None
    assert back.run is not None
    assert (there.delta, there.run.error) == pytest.approx((-back.delta, back.run.error))


def test_an_amount_that_is_the_same_everywhere_shows_no_error() -> None:
    own, other = side([3.0] * 12, 2), side([2.0] * 12, 2)
    assert difference([own], [other], is_share=False).interval is None
    assert difference([side([1.0] * 12, 2)], [side([0.0] * 12, 2)]).interval is not None, "of shares one trial is"


def test_together_each_p_is_larger_and_each_interval_wider() -> None:
    found = [difference(random_sides(1, 90, 15, seed), random_sides(1, 90, 15, 9)) for seed in (1, 2, 3)]
    together = correct_together([*found, None])
    for alone, judged in zip(found, together, strict=False):
        assert judged is not None
        assert alone.test is not None
        assert alone.interval is not None
        assert judged.interval is not None
        assert judged.p is not None
        assert judged.comparisons == 4
        assert judged.p > alone.test.p
        assert judged.interval.low < alone.interval.low
    assert together[3] is None
    (single,) = correct_together(found[:1], 7)
    assert single is not None
    assert single.comparisons == 7


def test_an_interval_never_holds_what_the_steps_ruled_out() -> None:
    """The second of two is judged alone after the first is clear: its joint interval may reach zero and ends there."""
    rng = np.random.default_rng(11)
    clear = difference([side(rng.normal(5, 1, 12).tolist())], [side(rng.normal(0, 1, 12).tolist())], is_share=False)
    for shift in np.linspace(0.7, 1.3, 60):
        weak = difference([side((rng.normal(0, 1, 12) + shift).tolist())], [side([0.0] * 12)], is_share=False)
        judged = correct_together([clear, weak])[1]
        assert judged is not None
        assert judged.interval is not None
        if judged.is_clear:
            assert judged.interval.low >= 0
        else:
            assert judged.interval.low < 0


def test_an_interval_of_rates_stays_within_what_rates_can_differ() -> None:
    own, other = [side([1.0, 1.0, 0, 0])], [side([0.0, 0, 0, 0])]
    found = difference(own, other)
    assert found.interval is not None
    assert -1 <= found.interval.low <= found.interval.high <= 1


def test_it_takes_a_single_task_for_what_it_is() -> None:
    found = difference([side([1])], [side([0])])
    assert (found.delta, found.test, found.interval, found.bound_of_difference) == (1, None, None, None)


def test_it_becomes_json() -> None:
    document = json.loads(json.dumps(difference([side([1, 1, 1, 0, 1, 1])], [side([0] * 6)]).as_json()))
    assert document["interval"]["level"] == 0.95
    assert (document["claim"], document["tasks"], document["p_holm"]) == ("one run", 6, None)


def test_a_judge_that_wavers_leaves_no_interval_narrower_than_its_own_error() -> None:
    """Three episodes of four tasks, two runs a side, all scored alike: what measuring alone makes is all there is."""
    place = np.repeat(np.arange(3), 4)
    own, other = (TaskMeans(np.arange(12), place, place, np.full(12, value)) for value in (70.0, 50.0))
    paired = pair([own, own], [other, other])
    assert compare(paired, is_share=False).test is None
    found = compare(paired, is_share=False, measured=36.0)
    # A cell is a mean of 4: 2 x 36 / 4 for the difference of two cells; D is a mean of three episodes.
    assert found.run.error == pytest.approx((2 * 36 / 4 / 3) ** 0.5)
    assert found.run.freedom == 1.5
