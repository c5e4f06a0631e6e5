"""The mean of several replicates."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from benchapp.stats.inference.interval import mean_interval, share_interval


def test_it_is_students_interval() -> None:
    means = np.array([0.2, 0.5, 0.4])
    found, expected = mean_interval(means), stats.t.interval(0.95, 2, means.mean(), stats.sem(means))
    assert found is not None
    assert (found.low, found.high) == pytest.approx(expected)


def test_one_replicate_and_equal_ones_show_no_spread() -> None:
    assert mean_interval(np.array([0.4])) is None
    assert mean_interval(np.array([0.1 + 0.2, 0.3])) is None


def test_of_shares_it_stays_between_nothing_and_all() -> None:
    assert share_interval([0.1, 0.9]) == (0.0, 1.0)
