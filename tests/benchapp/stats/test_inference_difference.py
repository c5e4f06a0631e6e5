"""Two sides in, one difference out: the choice of the primary test, and what stands beside it."""

from __future__ import annotations

import json

import numpy as np
import pytest

from benchapp.stats.inference.clusters import sign_flip
from benchapp.stats.inference.difference import Difference, compare
from benchapp.stats.inference.sides import TaskMeans


def side(values: list[float], per_cluster: int = 1, per_family: int = 1) -> TaskMeans:
    n = np.arange(len(values))
    return TaskMeans(n, n // per_cluster, n // per_family, np.array(values, dtype=float))


def random_sides(count: int, tasks: int, per_cluster: int, seed: int = 1) -> list[TaskMeans]:
    rng = np.random.default_rng(seed)
    return [side(rng.integers(0, 2, size=tasks).tolist(), per_cluster) for _ in range(count)]


def difference(own: list[TaskMeans], other: list[TaskMeans]) -> Difference:
    found = compare(own, other)
    assert found is not None
    return found


@pytest.mark.parametrize(
    ("clusters", "replicates", "method"),
    [
        (5, (1, 1), "none"),
        (6, (1, 1), "sign-flip"),
        (19, (1, 1), "sign-flip"),
        (20, (1, 1), "sign-flip"),
        (6, (1, 4), "swap"),
        (5, (1, 4), "none"),
        (20, (3, 1), "swap"),
        (6, (2, 2), "welch"),
        (1, (2, 3), "welch"),
    ],
)
def test_it_chooses_its_test_by_replicates_first_and_then_by_clusters(
    clusters: int, replicates: tuple[int, int], method: str
) -> None:
    own, other = (random_sides(count, clusters * 15, 15, seed) for seed, count in enumerate(replicates))
    found = difference(own, other)
    assert (found.method, found.replicates, found.clusters) == (method, replicates, clusters)
    assert (found.interval is None) == (method == "none")


def test_it_counts_what_only_one_side_passed() -> None:
    found = difference([side([1, 1, 1, 0, 1, 1])], [side([0, 0, 0, 1, 0, 1])])
    assert found.discordant == (4, 1)
    assert (found.own, found.other, found.delta) == pytest.approx((5 / 6, 2 / 6, 0.5))
    assert found.smallest_p == 2 / 64


def test_it_counts_nothing_where_tasks_have_several_samples_or_replicates() -> None:
    plain = side([1, 0, 1, 0, 0, 1])
    assert difference([side([1, 0.5, 1, 0, 0, 1])], [plain]).discordant is None
    assert difference([plain, plain], [plain]).discordant is None


def test_it_adds_newcombe_only_with_one_task_per_family() -> None:
    values, others = [1, 0, 1, 1, 0, 1, 0, 1, 1, 1, 0, 0], [0, 0, 1, 0, 0, 1, 0, 0, 1, 1, 0, 1]
    single = difference([side(values, 2)], [side(others, 2)])
    double = difference([side(values, 4, 2)], [side(others, 4, 2)])
    names = [[interval.method.split(",")[0].split(";")[0] for interval in it.secondary] for it in (single, double)]
    assert names == [["Student's t on cluster means", "Newcombe", "family bootstrap"], ["family bootstrap"]]


def test_it_adds_the_spread_inside_episodes_where_there_are_replicates() -> None:
    found = difference(random_sides(3, 60, 10, 1), random_sides(2, 60, 10, 2))
    assert found.secondary[0].method.startswith("replicates inside each episode")
    alone = difference(random_sides(1, 60, 10, 1), random_sides(2, 60, 10, 2))
    assert not [interval for interval in alone.secondary if "replicates" in interval.method]


@pytest.mark.parametrize(("clusters", "replicates"), [(6, 1), (19, 3), (30, 1)])
@pytest.mark.parametrize("describe", [True, False])
def test_it_puts_students_interval_over_episodes_beside(clusters: int, replicates: int, describe: bool) -> None:
    sides = random_sides(1, clusters * 5, 5, 1), random_sides(replicates, clusters * 5, 5, 2)
    found = compare(*sides, describe=describe)
    assert found is not None
    assert found.secondary[0].method.startswith("Student's t")
    assert (len(found.secondary) > 1) == describe


def test_it_is_exact_only_where_both_sides_can_be_exchanged() -> None:
    """As many samples of every task on both sides, and every pattern tried."""
    n = np.arange(60)
    own, other = random_sides(1, 60, 6, 1)[0], random_sides(1, 60, 6, 2)[0]
    assert difference([own], [other]).is_exact
    thrice = TaskMeans(n, other.cluster, other.family, other.value, np.full(60, 3))
    assert not difference([own], [thrice]).is_exact
    assert not difference(random_sides(1, 60, 4, 1), random_sides(1, 60, 4, 2)).is_exact, "15 episodes: patterns drawn"
    assert not difference(random_sides(1, 60, 6, 1), random_sides(2, 60, 6, 2)).is_exact
    assert not difference(random_sides(3, 60, 6, 1), random_sides(3, 60, 6, 2)).is_exact
    assert not difference([own, own], [other, other]).is_exact, "several runs a side, without spread: episodes decide"


def test_it_never_lets_a_descriptive_interval_decide() -> None:
    own, other = side([1.0] * 15 + [0.0] * 5, 5), side([0.0] * 20, 5)  # four episodes: no test possible
    found = difference([own], [other])
    assert any(interval.excludes_zero for interval in found.secondary)
    assert found.method == "none"
    assert not found.excludes_zero


UNEVEN = np.array([0] * 10 + [1, 2, 3, 4, 5, 6])  # one long episode, six of one task


def test_its_interval_is_about_the_difference_it_reports() -> None:
    """All tasks of the long episode gain 0.5, all others nothing: +0.31 a task, and no mean over episodes (+0.07)."""
    n = np.arange(16)
    rng = np.random.default_rng(5)
    noise = rng.normal(0, 0.01, 16)
    own = TaskMeans(n, UNEVEN, n, np.where(UNEVEN == 0, 0.5, 0.0) + noise)
    found = difference([own], [TaskMeans(n, UNEVEN, n, np.zeros(16))])
    assert found.delta == pytest.approx(5 / 16 + noise.mean())
    assert (found.own, found.other) == pytest.approx((found.delta, 0))
    for interval in (found.interval, *found.secondary):
        assert interval is not None
        assert interval.low < found.delta < interval.high


def test_it_weighs_families_and_not_tasks_where_the_metric_does() -> None:
    n, family = np.arange(16), UNEVEN
    own = TaskMeans(n, UNEVEN, family, np.array([1.0] * 10 + [0, 0, 0, 1, 0, 0]))
    found = compare([own], [TaskMeans(n, UNEVEN, family, np.zeros(16))], by_family=True)
    assert found is not None
    assert (found.own, found.delta) == pytest.approx((2 / 7, 2 / 7))
    assert found.interval is not None
    plain = sign_flip(np.array([1, 0, 0, 0, 1, 0, 0.0])).interval
    assert plain is not None
    assert (found.interval.low, found.interval.high) == pytest.approx((plain.low, plain.high))


def test_it_turns_round_with_the_sides_and_ignores_the_order_of_tasks() -> None:
    own, other = random_sides(1, 90, 15, 1)[0], random_sides(1, 90, 15, 2)[0]
    shuffled = np.random.default_rng(3).permutation(90)
    moved = TaskMeans(own.task[shuffled], own.cluster[shuffled] + 40, own.family[shuffled], own.value[shuffled])
    there, back = difference([own], [other]), difference([other], [moved])
    assert there.interval is not None
    assert back.interval is not None
    assert (there.delta, there.p) == pytest.approx((-back.delta, back.p))
    assert (there.interval.low, there.interval.high) == pytest.approx((-back.interval.high, -back.interval.low))


def test_it_does_not_mind_a_constant_added_to_every_task() -> None:
    rng = np.random.default_rng(4)
    own, other = rng.normal(20, 5, 90), rng.normal(18, 5, 90)
    ends = [difference([side((own + c).tolist(), 15)], [side((other + c).tolist(), 15)]).interval for c in (0, 1000)]
    assert ends[0] is not None
    assert ends[1] is not None
    assert (ends[0].low, ends[0].high) == pytest.approx((ends[1].low, ends[1].high))


@pytest.mark.parametrize("value", [0.0, 1.0])
@pytest.mark.parametrize("replicates", [1, 2])
@pytest.mark.parametrize("clusters", [6, 20])
def test_it_claims_no_interval_where_everything_passed_or_failed(value: float, replicates: int, clusters: int) -> None:
    sides = [side([value] * clusters * 3, 3)] * replicates
    found = difference(sides, sides)
    assert (found.delta, found.interval, found.p) == (0, None, 1.0)
    assert found.note


def test_it_falls_back_to_episodes_where_replicates_agree_to_the_task() -> None:
    own = [side([1, 1, 1, 1, 0, 1, 1, 0]), side([1, 1, 1, 1, 0, 1, 1, 0])]
    other = [side([0, 0, 1, 0, 0, 0, 1, 0])] * 2
    found = difference(own, other)
    assert found.method == "sign-flip"
    assert found.interval is not None
    assert found.note == "the replicates of each side have the same mean, so they show no spread"


def test_it_takes_a_single_task_for_what_it_is() -> None:
    found = difference([side([1])], [side([0])])
    assert (found.delta, found.method, found.interval, found.p, found.smallest_p) == (1, "none", None, 1.0, 1.0)


def test_it_says_nothing_without_a_common_task() -> None:
    assert compare([side([1, 0])], [TaskMeans(*[np.array([7])] * 3, np.ones(1))]) is None


def test_it_becomes_json() -> None:
    document = json.loads(json.dumps(difference([side([1, 1, 1, 0, 1, 1])], [side([0] * 6)]).as_json()))
    assert document["interval"]["level"] == 0.95
    assert document["excludes_zero"] is False
    assert document["tasks"] == 6
    assert document["secondary"][-1]["method"].startswith("Newcombe")


def test_an_interval_of_rates_stays_within_what_rates_can_differ() -> None:
    # two replicates a side with very different means: Welch's t reaches beyond 100 points
    own = [TaskMeans(TASKS, TASKS, TASKS, np.full(4, value)) for value in (1.0, 0.5)]
    other = [TaskMeans(TASKS, TASKS, TASKS, np.full(4, value)) for value in (0.0, 0.25)]
    found = compare(own, other)
    assert found is not None
    assert found.interval is not None
    assert found.interval.high > 1
    cut = found.within(1.0)
    assert cut.interval is not None
    assert (cut.interval.low, cut.interval.high) == (max(-1, found.interval.low), 1.0)
    assert cut.excludes_zero == found.excludes_zero
    assert (cut.p, cut.delta) == (found.p, found.delta)


TASKS = np.arange(4)
