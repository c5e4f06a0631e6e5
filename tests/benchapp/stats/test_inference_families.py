"""Families drawn again inside their clusters."""

from __future__ import annotations

import numpy as np
import pytest

from benchapp.stats.inference.resampling import LABEL, family_bootstrap, family_draws


def test_it_keeps_the_mean_and_has_the_variance_of_a_stratified_sample() -> None:
    rng = np.random.default_rng(1)
    owner, sizes = np.repeat(np.arange(6), 5), np.full(30, 3)
    totals = rng.normal(size=30) * 3
    drawn = family_draws(tuple(owner.tolist()), tuple(sizes.tolist())) @ totals
    within = [np.var(totals[owner == cluster] / 3, ddof=1) / 5 for cluster in range(6)]
    assert drawn.mean() == pytest.approx(totals.sum() / 90, abs=4 * np.sqrt(sum(within) / 36 / 2000))
    assert drawn.var() == pytest.approx(sum(within) / 36, rel=0.12)


def test_it_holds_each_clusters_share_of_the_tasks() -> None:
    """Values that differ between clusters and not inside them leave nothing to draw."""
    cluster, family = np.repeat([0, 1], [6, 3]), np.array([0, 0, 1, 1, 2, 2, 3, 3, 4])
    found = family_bootstrap(np.repeat([0.9, -0.3], [6, 3]), cluster, family)
    assert found is not None
    assert (found.low, found.high) == pytest.approx((0.5, 0.5))
    assert found.method == LABEL


def test_it_draws_families_whole() -> None:
    """Opposite tasks of one family cancel, however families are drawn; as families of their own they do not."""
    cluster, delta = np.zeros(8, dtype=np.int64), np.tile([1.0, -1.0], 4)
    whole = family_bootstrap(delta, cluster, np.repeat(np.arange(4), 2))
    single = family_bootstrap(delta, cluster, np.arange(8))
    assert whole is not None
    assert single is not None
    assert (whole.low, whole.high) == (0, 0)
    assert single.low < -0.3
    assert single.high > 0.3


def test_it_keeps_families_apart_that_share_a_name_across_clusters() -> None:
    assert family_bootstrap(np.ones(4), np.array([0, 0, 1, 1]), np.array([0, 1, 0, 1])) is not None


def test_it_needs_two_families_in_every_cluster() -> None:
    assert family_bootstrap(np.ones(5), np.array([0, 0, 0, 1, 1]), np.array([0, 1, 2, 3, 3])) is None


def test_it_says_the_same_each_time() -> None:
    values = np.random.default_rng(3).normal(size=20)
    ask = values, np.repeat(np.arange(4), 5), np.arange(20)
    first = family_bootstrap(*ask)
    family_draws.cache_clear()
    assert first == family_bootstrap(*ask)
