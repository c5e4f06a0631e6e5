"""What difference would have been found."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from benchapp.inference.detectable import detectable, detectable_by_signs


def test_it_gives_the_textbook_sample_size() -> None:
    """A paired t test of 34 pairs has 80 % power for half a standard deviation (Cohen 1988; 33.4 pairs before rounding)."""
    assert detectable(1 / np.sqrt(34), 33) == pytest.approx(0.4954, abs=5e-4)


@given(st.floats(1, 200), st.floats(0.001, 50))
def test_it_solves_the_noncentral_t(freedom: float, error: float) -> None:
    size = detectable(error, freedom)
    assert size is not None
    critical = stats.t.ppf(0.975, freedom)
    assert stats.nct.sf(critical, freedom, size / error) == pytest.approx(0.8, abs=1e-4)


def test_it_needs_more_at_a_stricter_level() -> None:
    strict, usual = detectable(1, 5, level=0.03125), detectable(1, 5)
    assert strict is not None
    assert usual is not None
    assert strict > usual


def test_it_says_nothing_without_spread() -> None:
    assert detectable(0.0, 5) is None
    assert detectable_by_signs(0.0, 6) is None


def test_it_needs_all_clusters_on_one_side() -> None:
    size = detectable_by_signs(2.0, 6)
    assert size is not None
    assert stats.norm.cdf(size / 2) ** 6 == pytest.approx(0.8)
