"""Differences over replicates."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy import stats

from benchapp.stats.inference.replicates import is_lopsided, stratified, welch, welch_parts

means = st.lists(st.integers(0, 90).map(lambda k: k / 90), min_size=2, max_size=6)


@pytest.mark.filterwarnings("ignore:Precision loss")  # of scipy, where a side has no spread
@given(means, means)
def test_it_gives_scipys_welch_test_with_a_tenth_less_freedom(own: list[float], other: list[float]) -> None:
    found = welch(np.array(own), np.array(other))
    if len(set(own)) == len(set(other)) == 1:
        assert found.interval is None
        assert "no spread" in found.note
        return
    if is_lopsided(len(own), len(other)):
        return
    expected = stats.ttest_ind(own, other, equal_var=False)
    freedom = max(min(len(own), len(other)) - 1, 0.9 * expected.df)
    p = 2 * stats.t.sf(abs(expected.statistic), freedom)
    delta = np.mean(own) - np.mean(other)
    error = np.sqrt(np.var(own, ddof=1) / len(own) + np.var(other, ddof=1) / len(other))
    half = stats.t.ppf(0.975, freedom) * error
    assert found.interval is not None
    assert found.p == pytest.approx(p, abs=1e-9)
    assert (found.interval.low, found.interval.high) == pytest.approx((delta - half, delta + half))
    assert found.interval.excludes_zero == (p < 0.05)
    assert found.p >= expected.pvalue - 1e-12


def rejected(r: int, s: int, ratio: float, comparisons: int = 40_000) -> float:
    """Share of true nulls called at 5 %; `ratio`: spread of the side of r replicates over that of the other."""
    rng = np.random.default_rng((r, s, int(8 * ratio)))
    own, other = rng.normal(0, ratio, (comparisons, r)), rng.normal(0, 1, (comparisons, s))
    estimate, error, freedom = welch_parts(own, other)
    return float((2 * stats.t.sf(np.abs(estimate) / error, freedom) <= 0.05).mean())


@pytest.mark.parametrize("ratio", [0.125, 0.5, 1.0, 2.0, 4.0, 8.0])
@pytest.mark.parametrize("counts", [(2, 2), (2, 3), (2, 4), (2, 10), (3, 3), (3, 5), (3, 10), (4, 10), (5, 5), (5, 10)])
def test_it_rejects_no_more_true_nulls_than_it_says(counts: tuple[int, int], ratio: float) -> None:
    """Monte-Carlo error: 0.11 points at 5 %. It comes to 5.5 % at most (4 against 10)."""
    assert rejected(*counts, ratio) < 0.0578


def test_with_few_on_one_side_it_has_the_freedom_of_that_side() -> None:
    own, other = np.array([0.2, 0.3]), np.array([0.5, 0.45, 0.6, 0.52, 0.55])
    found = welch(own, other)
    error = np.sqrt(own.var(ddof=1) / 2 + other.var(ddof=1) / 5)
    assert found.p == pytest.approx(2 * stats.t.sf(abs(own.mean() - other.mean()) / error, 1))
    assert found.interval is not None
    assert "smaller side" in found.interval.method


def test_it_tells_rounding_from_spread() -> None:
    assert welch(np.full(3, 1e6 / 3), np.full(3, 1e6 / 3 + 1)).interval is None
    assert welch(np.array([0.1 + 0.2, 0.3]), np.array([0.5, 0.5])).interval is None


def test_it_refuses_a_single_replicate() -> None:
    with pytest.raises(ValueError, match="got 1 and 3"):
        welch(np.array([0.5]), np.array([0.1, 0.2, 0.3]))


def test_it_is_welch_where_all_tasks_are_one_cluster() -> None:
    rng = np.random.default_rng(1)
    own, other = rng.random((4, 1)), rng.random((6, 1))
    one, whole = stratified(own, other, np.ones(1)), welch(own[:, 0], other[:, 0])
    assert one.interval is not None
    assert whole.interval is not None
    assert (one.interval.low, one.interval.high, one.p) == pytest.approx(
        (whole.interval.low, whole.interval.high, whole.p)
    )


def test_it_adds_the_spreads_of_the_clusters() -> None:
    """Against the sum written out: variance of a weighted mean of independent cluster means."""
    rng = np.random.default_rng(2)
    own, other, weights = rng.random((3, 4)), rng.random((2, 4)), np.array([0.1, 0.2, 0.3, 0.4])
    parts, freedoms = [], []
    for side, count in ((own, 3), (other, 2)):
        for cluster in range(4):
            parts.append(weights[cluster] ** 2 * np.var(side[:, cluster], ddof=1) / count)
            freedoms.append(count - 1)
    freedom = 0.9 * sum(parts) ** 2 / sum(part**2 / df for part, df in zip(parts, freedoms, strict=True))
    estimate = float((own.mean(axis=0) - other.mean(axis=0)) @ weights)
    half = stats.t.ppf(0.975, freedom) * np.sqrt(sum(parts))
    found = stratified(own, other, weights).interval
    assert found is not None
    assert (found.low, found.high) == pytest.approx((estimate - half, estimate + half))
