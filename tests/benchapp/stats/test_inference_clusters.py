"""The sign-flip test with its interval, swaps of one run with several, and Student's interval beside."""

from __future__ import annotations

from itertools import combinations, product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from benchapp.stats.inference import clusters
from benchapp.stats.inference.clusters import (
    clusters_for,
    one_against_several,
    sign_flip,
    smallest_p,
    student_interval,
    swap_many,
)

shares = st.integers(-15, 15).map(lambda k: k / 15)  # as the means of 15 pass-or-fail tasks come


def slow_p(values: list[float]) -> float:
    """Share of sign patterns as far out as the observed one, counted one by one."""
    patterns = list(product((1, -1), repeat=len(values)))
    seen = sum(values)
    up = sum(sum(s * v for s, v in zip(signs, values, strict=True)) >= seen - 1e-9 for signs in patterns)
    down = sum(sum(s * v for s, v in zip(signs, values, strict=True)) <= seen + 1e-9 for signs in patterns)
    return min(1.0, 2 * min(up, down) / len(patterns))


@settings(max_examples=40, deadline=None)
@given(st.lists(shares, min_size=1, max_size=8))
def test_it_counts_sign_patterns_as_a_slow_loop_does(values: list[float]) -> None:
    assert sign_flip(np.array(values)).p == pytest.approx(slow_p(values))


def weighted(values: list[float], sizes: list[int], shift: float = 0.0) -> list[float]:
    """What each cluster adds to the mean over tasks."""
    return [size * (value - shift) for value, size in zip(values, sizes, strict=True)]


sized = st.lists(st.tuples(shares, st.integers(1, 9)), min_size=6, max_size=8)


@settings(max_examples=40, deadline=None)
@given(sized)
def test_clusters_of_unequal_size_add_what_their_tasks_add(drawn: list[tuple[float, int]]) -> None:
    """The same slow loop over sums of tasks; just outside an end it rejects, at the end it does not."""
    values, sizes = [value for value, _ in drawn], [size for _, size in drawn]
    weights = np.array(sizes) / sum(sizes)
    found = sign_flip(np.array(values), weights)
    assert found.estimate == pytest.approx(sum(weighted(values, sizes)) / sum(sizes))
    assert found.p == pytest.approx(slow_p(weighted(values, sizes)))
    if found.interval is None:
        assert len(set(values)) == 1
        return
    for end, outside in ((found.interval.low, -1e-6), (found.interval.high, 1e-6)):
        assert slow_p(weighted(values, sizes, end)) > 0.05
        assert slow_p(weighted(values, sizes, end + outside)) <= 0.05


@pytest.mark.parametrize("m", [8, 12, pytest.param(20, marks=pytest.mark.slow)])
def test_uneven_clusters_keep_level_and_coverage(m: int) -> None:
    """20 tasks in the largest cluster, 1 in the smallest; small clusters spread more. 4,000 comparisons, so 1 SE is 0.34
    points at 5 %; Student's interval beside is of what clusters add, so it keeps it too."""
    rng = np.random.default_rng(m)
    sizes = np.resize([20, 10, 5, 3, 2, 1], m)
    noise = rng.normal(0, np.sqrt(0.02 + 0.2 / sizes), size=(4000, m))
    low, high, p = swap_many(noise, sizes / sizes.sum())
    assert (p <= 0.05).mean() < 0.06
    truth = 0.15
    low, high, _ = swap_many(noise + truth, sizes / sizes.sum())
    assert ((low <= truth) & (truth <= high)).mean() > 0.94
    beside = [student_interval(row, sizes / sizes.sum()) for row in noise]
    assert np.mean([interval is not None and interval.excludes_zero for interval in beside]) < 0.06


def test_equal_weights_are_no_weights() -> None:
    values = np.random.default_rng(6).normal(0.1, 0.3, size=20)
    plain, weighed = sign_flip(values), sign_flip(values, np.full(20, 1 / 20))
    assert plain.interval is not None
    assert weighed.interval is not None
    ends = weighed.interval.low, weighed.interval.high, weighed.p
    assert ends == pytest.approx((plain.interval.low, plain.interval.high, plain.p))


def test_students_interval_of_unequal_clusters_is_of_what_they_add() -> None:
    values, sizes = np.random.default_rng(9).normal(size=7), np.array([9, 1, 4, 2, 2, 7, 5])
    interval = student_interval(values, sizes / sizes.sum())
    expected = stats.ttest_1samp(7 * sizes * values / sizes.sum(), 0).confidence_interval()
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))


def test_it_agrees_with_scipys_permutation_test() -> None:
    values = np.random.default_rng(4).normal(0.3, 1, size=9)
    expected = stats.permutation_test((values,), np.mean, permutation_type="samples", n_resamples=np.inf)
    assert sign_flip(values).p == pytest.approx(expected.pvalue)


@settings(max_examples=40, deadline=None)
@given(st.lists(shares, min_size=6, max_size=8))
def test_it_bounds_the_shifts_that_the_test_would_not_reject(values: list[float]) -> None:
    """Independent of order statistics: just outside an end the slow test rejects, at the end it does not."""
    interval = sign_flip(np.array(values)).interval
    if interval is None:
        assert len(set(values)) == 1
        return
    for end, outside in ((interval.low, -1e-6), (interval.high, 1e-6)):
        assert slow_p([value - end for value in values]) > 0.05
        assert slow_p([value - end - outside for value in values]) <= 0.05


@settings(max_examples=60, deadline=None)
@given(st.lists(shares, min_size=6, max_size=18))
def test_its_interval_excludes_zero_exactly_where_its_p_is_small(values: list[float]) -> None:
    found = sign_flip(np.array(values))
    assert found.p is not None
    if found.interval:
        assert found.interval.excludes_zero == (found.p <= 0.05)


@settings(max_examples=30, deadline=None)
@given(st.lists(shares, min_size=6, max_size=16), st.randoms(use_true_random=False))
def test_it_turns_round_with_the_sides(values: list[float], random: object) -> None:
    there, back = sign_flip(np.array(values)), sign_flip(-np.array(values))
    assert there.p == pytest.approx(back.p)
    assert there.estimate == pytest.approx(-back.estimate)
    if there.interval and back.interval:
        assert (there.interval.low, there.interval.high) == pytest.approx((-back.interval.high, -back.interval.low))


@pytest.mark.parametrize("m", [6, 9, 14])
def test_it_does_not_mind_the_order_of_clusters_nor_where_zero_is(m: int) -> None:
    values = np.random.default_rng(m).normal(0.1, 0.3, size=m)
    ends = sign_flip(values).interval
    moved = sign_flip(values[::-1] + 2.5).interval
    assert ends is not None
    assert moved is not None
    assert (moved.low - 2.5, moved.high - 2.5) == pytest.approx((ends.low, ends.high))


def test_it_reaches_0_031_with_six_clusters_and_no_level_below() -> None:
    six = sign_flip(np.array([0.1, 0.2, 0.3, 0.1, 0.2, 0.4]))
    assert six.p == six.smallest_p == 0.03125
    assert six.interval is not None
    assert (six.interval.low, six.interval.high) == pytest.approx((0.1, 0.4))  # the smallest and the largest value
    five = sign_flip(np.array([0.1, 0.2, 0.3, 0.1, 0.2]))
    assert (five.method, five.interval, five.smallest_p) == ("none", None, 0.0625)
    assert "5 clusters" in five.note


@pytest.mark.parametrize("m", [1, 5, 6, 7, 11, 14, 15, 20])
def test_its_smallest_p_is_what_clusters_that_all_agree_give(m: int) -> None:
    assert sign_flip(np.linspace(0.1, 0.9, m)).p == pytest.approx(smallest_p(m))


def test_it_knows_how_many_clusters_a_level_takes() -> None:
    assert [clusters_for(0.05 / count) for count in (1, 2, 3, 10, 400)] == [6, 7, 7, 9, 14]
    assert clusters_for(0.05 / 500) is None, "beyond 14 clusters patterns are drawn, not counted"


def test_it_leaves_out_as_many_subset_means_as_the_level_allows() -> None:
    values = np.random.default_rng(2).normal(size=8)
    means = sorted(np.mean(chosen) for size in range(1, 9) for chosen in combinations(values, size))
    interval = sign_flip(values).interval
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((means[5], means[-6]))  # 256 * 0.025 = 6.4, so the 6th


@pytest.mark.parametrize("constant", [0.0, 0.2, 1.0])
def test_it_makes_no_interval_of_values_without_spread(constant: float) -> None:
    found = sign_flip(np.full(8, constant))
    assert found.interval is None
    assert found.p == (1.0 if constant == 0 else 2 / 256)
    assert found.note == "every episode shows the same difference, so there is no interval"


@pytest.mark.parametrize("kept", [64, 8])
def test_its_random_patterns_come_close_to_all_of_them(kept: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clusters, "KEPT", kept)  # both ways to draw them: kept and in blocks
    values = np.random.default_rng(3).normal(0.4, 1, size=16)
    signs = np.array(list(product((1.0, -1.0), repeat=16)))
    sums = signs @ values
    exact = 2 * min((sums >= values.sum() - 1e-9).mean(), (sums <= values.sum() + 1e-9).mean())
    assert sign_flip(values).p == pytest.approx(exact, abs=4 * np.sqrt(exact / 2**14))
    assert sign_flip(values) == sign_flip(values)


def test_it_stays_near_students_interval_with_hundreds_of_clusters() -> None:
    values = np.random.default_rng(9).normal(0.1, 1, size=400)
    interval, student = sign_flip(values).interval, student_interval(values)
    assert interval is not None
    assert student is not None
    assert (interval.low, interval.high) == pytest.approx((student.low, student.high), abs=0.01)


@pytest.mark.parametrize("shape", [(7, 12), (7, 5, 3)])
def test_it_takes_many_comparisons_as_it_takes_one(shape: tuple[int, ...]) -> None:
    values = np.random.default_rng(5).normal(size=shape)
    together = np.stack(swap_many(values))
    alone = np.concatenate([np.stack(swap_many(row[np.newaxis])) for row in values], axis=1)
    assert together == pytest.approx(alone)


# --- one run against several ------------------------------------------------------------------------------------------


def slow_swap_p(own: list[float], others: list[list[float]], weights: list[float], shift: float = 0.0) -> float:
    """In each cluster any of all runs may be the one: the observed difference among those of all choices, counted one by one."""
    runs = [[one - shift, *rest] for one, rest in zip(own, others, strict=True)]

    def measure(choice: tuple[int, ...]) -> float:
        parts = zip(runs, choice, weights, strict=True)
        return sum(w * (r[c] - (sum(r) - r[c]) / (len(r) - 1)) for r, c, w in parts)

    found = [measure(choice) for choice in product(*(range(len(each)) for each in runs))]
    up, down = (sum(sign * (each - found[0]) >= -1e-9 for each in found) for sign in (1, -1))
    return min(1.0, 2 * min(up, down) / len(found))


grades = st.integers(0, 6).map(lambda k: k / 6)


@settings(max_examples=30, deadline=None)
@given(st.lists(st.tuples(grades, grades, grades, st.integers(1, 5)), min_size=4, max_size=6))
def test_one_run_is_swapped_with_any_of_several(drawn: list[tuple[float, float, float, int]]) -> None:
    """Test and interval against the slow loop, whose weights and shifts are its own."""
    own, others = [each[0] for each in drawn], [list(each[1:3]) for each in drawn]
    sizes = [each[3] for each in drawn]
    weights = [size / sum(sizes) for size in sizes]
    values = np.array(own)[:, np.newaxis] - np.array(others)
    found = sign_flip(values, np.array(weights))
    assert found.p == pytest.approx(slow_swap_p(own, others, weights))
    assert found.smallest_p == 2 / 3 ** len(own)
    if found.interval is None:
        assert np.ptp(values) == pytest.approx(0)
        return
    assert found.method == "swap"
    for end, outside in ((found.interval.low, -1e-6), (found.interval.high, 1e-6)):
        assert slow_swap_p(own, others, weights, end) > 0.05
        assert slow_swap_p(own, others, weights, end + outside) <= 0.05


@pytest.mark.parametrize(
    ("m", "r"), [(3, 9), (6, 9), *(pytest.param(*sizes, marks=pytest.mark.slow) for sizes in ((12, 9), (20, 2)))]
)
def test_where_passes_are_rare_one_run_against_several_keeps_its_level(m: int, r: int) -> None:
    """A library in twenty lets its episode pass: most runs are below the mean of the others in every episode. A sign flip of
    the difference to that mean rejects in far more than 5 %. 1,500 comparisons, so 1 SE is 0.6 points."""
    runs = (np.random.default_rng(m).random((1500, m, r + 1)) < 0.05).astype(float)
    values = runs[:, :, :1] - runs[:, :, 1:]
    assert (swap_many(values)[2] <= 0.05).mean() < 0.065
    flipped = swap_many(values.mean(axis=2))[2]
    assert (np.maximum(flipped, swap_many(values)[2]) <= 0.05).mean() < 0.065
    assert m != 12 or (flipped <= 0.05).mean() > 0.1


def test_where_episodes_show_the_same_mean_the_swaps_are_named_as_they_decide() -> None:
    """The flip alone would give 2/64."""
    values = np.array([[0.25, 0.0]] * 3 + [[0.0, 0.25]] * 3)
    flipped, found = sign_flip(values.mean(axis=1)), one_against_several(values)
    assert flipped.p == pytest.approx(2 / 64)
    assert (found.p or 0.0) > 2 / 64
    assert (found.method, found.interval) == ("swap", None)
    assert found.note == "every episode shows the same difference, so there is no interval"


@pytest.mark.parametrize("m", [5, 6, 10, 20])
def test_the_larger_p_and_the_wider_interval_count(m: int) -> None:
    values = np.random.default_rng(m).normal(0.4, 1, size=(m, 3))
    flipped, swapped, found = sign_flip(values.mean(axis=1)), sign_flip(values), one_against_several(values)
    assert (found.p, found.smallest_p) == (max(flipped.p or 0, swapped.p or 0), flipped.smallest_p)
    assert found.estimate == flipped.estimate == pytest.approx(swapped.estimate)
    if m == 5:
        assert (found.method, found.interval) == ("none", None), "a sign flip cannot reach 5 %"
        return
    assert found.method == "swap"
    assert flipped.interval is not None
    assert swapped.interval is not None
    assert found.interval is not None
    assert found.interval.low == min(flipped.interval.low, swapped.interval.low)
    assert found.interval.high == max(flipped.interval.high, swapped.interval.high)


def test_where_the_one_run_spreads_more_it_keeps_its_level() -> None:
    """One that learns against five that do not: swaps alone reject in more than 8 %. 1 SE is 0.5 points."""
    rng = np.random.default_rng(4)
    values = rng.normal(0, 1, size=(2000, 8, 1)) - rng.normal(0, 0.3, size=(2000, 8, 5))
    swapped = swap_many(values)[2]
    assert (swapped <= 0.05).mean() > 0.08
    assert (np.maximum(swapped, swap_many(values.mean(axis=2))[2]) <= 0.05).mean() < 0.06


def test_it_gives_students_interval_beside_from_six_clusters_on() -> None:
    values = np.random.default_rng(8).normal(size=6)
    interval, expected = student_interval(values), stats.ttest_1samp(values, 0).confidence_interval()
    assert interval is not None
    assert (interval.low, interval.high) == pytest.approx((expected.low, expected.high))
    assert student_interval(values[:5]) is None
    assert student_interval(np.full(8, 0.1 + 0.2)) is None
