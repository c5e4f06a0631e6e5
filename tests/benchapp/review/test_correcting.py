"""A judge's rates corrected by what people settled: by hand, and where the answer is known without a formula."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from benchapp.review.results.population_shares import CodedSample, correct_share

YES, NO = True, False


def sample_of(size: int, *, clusters: int | None = None, strata: list[int] | None = None) -> CodedSample:
    placed = np.array(strata if strata is not None else [0] * size)
    of = np.arange(size) % (clusters or size)
    return CodedSample(np.ones(size), placed, of, np.bincount(placed).astype(float))


def flags(*runs: tuple[bool, int]) -> np.ndarray:
    return np.repeat([value for value, _ in runs], [count for _, count in runs])


def test_it_corrects_each_answer_of_the_judge_by_what_people_found_there() -> None:
    """It says yes to 40 of 100; people find the code in 6 of 10 of these and in 1 of 10 others:
    0.4 x 0.6 + 0.6 x 0.1."""
    said = flags((YES, 40), (NO, 60))
    settled = flags((YES, 10), (NO, 30), (YES, 10), (NO, 50))
    carried = flags((YES, 6), (NO, 34), (YES, 1), (NO, 59))
    found = correct_share(sample_of(100), said, settled, carried)
    assert (found.judge, found.value) == (0.4, pytest.approx(0.30))
    assert found.people == pytest.approx(7 / 20)
    assert (found.read, found.settled) == (100, 20)
    assert found.interval is not None
    assert 0.1 < found.interval.low < 0.3 < found.interval.high < 0.6


@given(st.integers(0, 2**32))
@settings(deadline=None, max_examples=50)
def test_where_people_settled_all_the_judge_changes_nothing(seed: int) -> None:
    rng = np.random.default_rng(seed)
    carried, said = rng.random(60) < 0.3, rng.random(60) < 0.5
    found = correct_share(sample_of(60), said, np.ones(60, dtype=bool), carried)
    assert found.value == pytest.approx(found.people) == pytest.approx(carried.mean())


def test_it_is_the_same_for_a_judge_that_says_the_opposite() -> None:
    rng = np.random.default_rng(3)
    carried, settled = rng.random(80) < 0.3, rng.random(80) < 0.5
    said = np.where(rng.random(80) < 0.8, carried, ~carried)
    own, opposite = (correct_share(sample_of(80), each, settled, carried) for each in (said, ~said))
    assert own.value == pytest.approx(opposite.value)
    assert own.interval is not None
    assert opposite.interval is not None
    assert (own.interval.low, own.interval.high) == pytest.approx((opposite.interval.low, opposite.interval.high))


def test_a_judge_that_agreed_on_few_items_has_an_interval_with_a_width() -> None:
    said = flags((YES, 100), (NO, 300))
    settled = flags((YES, 5), (NO, 95), (YES, 7), (NO, 293))
    found = correct_share(sample_of(400), said, settled, said)
    assert found.value == 0.25
    assert found.interval is not None
    assert found.interval.low < 0.2 < 0.35 < found.interval.high


def test_a_good_judge_makes_it_sharper_and_shared_clusters_make_it_wider() -> None:
    rng = np.random.default_rng(5)
    carried, settled = np.repeat(rng.random(60) < 0.4, 10), np.arange(600) % 6 == 0
    noise = rng.random(600) < 0.4

    def width(said: np.ndarray, clusters: np.ndarray) -> float:
        sample = CodedSample(np.ones(600), np.zeros(600, dtype=np.int64), clusters, np.array([600.0]))
        interval = correct_share(sample, said, settled, carried).interval
        assert interval is not None
        return interval.high - interval.low

    apart, shared = np.arange(600), np.repeat(np.arange(60), 10)
    assert width(carried, apart) < width(noise, apart)
    assert width(noise, apart) < width(noise, shared)


def test_a_stratum_settled_more_often_weighs_no_more() -> None:
    """Half of the items are of each stratum; of the second, where all carry it, people settled one in ten."""
    strata = [0] * 50 + [1] * 50
    carried = flags((NO, 50), (YES, 50))
    settled = flags((YES, 50), (YES, 5), (NO, 45))
    found = correct_share(sample_of(100, strata=strata), ~settled, settled, carried)
    assert found.note == "people settled no item where it says yes"
    assert found.people == pytest.approx(0.5)
    never = correct_share(sample_of(100, strata=strata), np.zeros(100, dtype=bool), settled, carried)
    assert never.value == pytest.approx(0.5)


def test_it_says_why_there_is_no_number() -> None:
    everything, nothing = np.ones(20, dtype=bool), np.zeros(20, dtype=bool)
    assert correct_share(sample_of(20), everything, nothing, nothing).note == "people settled none of the items it read"
    half = flags((YES, 10), (NO, 10))
    two = sample_of(20, strata=[0] * 10 + [1] * 10)
    assert correct_share(two, half, half, half).note == "people settled nothing in a stratum that it read"
    few = correct_share(sample_of(20), everything, flags((YES, 9), (NO, 11)), everything)
    assert (few.value, few.interval, few.note) == (pytest.approx(1.0), None, "9 settled, too few for an interval")
    lumped = correct_share(sample_of(20, clusters=5), everything, everything, half)
    assert (lumped.interval, lumped.note) == (None, "5 clusters settled, too few for an interval")
