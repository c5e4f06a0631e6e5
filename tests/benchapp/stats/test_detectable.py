"""What a design can find, held against the tests that will decide."""

from __future__ import annotations

import numpy as np
import pytest

from benchapp.stats.inference.detectable import assume_spread, find_detectable
from benchapp.stats.inference.replicates import welch


@pytest.mark.parametrize("replicates", [2, 3, 5, 8])
def test_the_difference_is_found_eight_times_of_ten(replicates: int) -> None:
    spread, random = 0.05, np.random.default_rng(7)
    least = find_detectable(spread, replicates, clusters=2)
    assert least is not None
    found = 0
    for _ in range(2_000):
        own, other = random.normal(0, spread, (2, replicates))
        interval = welch(own + least, other).interval
        found += interval is not None and interval.low > 0
    assert found / 2_000 == pytest.approx(0.8, abs=0.04)


def test_one_replicate_of_few_episodes_finds_nothing() -> None:
    assert find_detectable(0.05, 1, clusters=5) is None  # the least p of 2**5 signs is 0.0625
    assert find_detectable(0.05, 1, clusters=6) is not None


def test_a_share_cannot_differ_by_more_than_all() -> None:
    assert find_detectable(0.5, 2, clusters=2) is None


def test_more_replicates_find_less() -> None:
    spread = assume_spread(12)
    found = [find_detectable(spread, replicates, clusters=2) or 1.0 for replicates in (2, 3, 5, 8, 20)]
    assert found == sorted(found, reverse=True)


def test_the_assumed_spread_is_that_of_tossed_coins() -> None:
    shares = np.random.default_rng(3).binomial(12, 0.5, 20_000) / 12
    assert assume_spread(12) == pytest.approx(shares.std(), rel=0.02)
