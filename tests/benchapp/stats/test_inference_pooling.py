"""One effect over agent models."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

from benchapp.stats.inference.pooling import pool_models


def test_without_errors_it_is_students_interval_over_models() -> None:
    deltas = [0.02, -0.05, 0.01, 0.04, -0.03]
    found, expected = pool_models(deltas, [0.0] * 5), stats.t.interval(0.95, 4, np.mean(deltas), stats.sem(deltas))
    assert found is not None
    assert (found.mean, found.low, found.high) == pytest.approx((np.mean(deltas), *expected))
    assert found.spread == pytest.approx(np.std(deltas, ddof=1))
    assert (found.wins, found.ties, found.losses) == (3, 0, 2)


def test_it_gives_the_published_estimate_of_the_bcg_trials() -> None:
    """Log risk ratios of 13 trials of the BCG vaccine (Colditz et al. 1994): REML tau2 0.3132, mean -0.7145, as
    Viechtbauer (2010, J. Stat. Softw. 36) prints them; with Hartung and Knapp -1.1082 to -0.3208."""
    cases = [(4, 119, 11, 128), (6, 300, 29, 274), (3, 228, 11, 209), (62, 13536, 248, 12619), (33, 5036, 47, 5761)]
    cases += [(180, 1361, 372, 1079), (8, 2537, 10, 619), (505, 87886, 499, 87892), (29, 7470, 45, 7232)]
    cases += [(17, 1699, 65, 1600), (186, 50448, 141, 27197), (5, 2493, 3, 2338), (27, 16886, 29, 17825)]
    a, b, c, d = np.array(cases, dtype=float).T
    effects = np.log(a / (a + b)) - np.log(c / (c + d))
    errors = np.sqrt(1 / a - 1 / (a + b) + 1 / c - 1 / (c + d))
    found = pool_models(effects.tolist(), errors.tolist())
    assert found is not None
    assert found.spread**2 == pytest.approx(0.3132, abs=2e-4)
    assert found.mean == pytest.approx(-0.7145, abs=2e-4)
    assert (found.low, found.high) == pytest.approx((-1.1082, -0.3208), abs=2e-3)
    assert found.another_low < found.low


def test_models_that_agree_beyond_their_errors_have_no_spread() -> None:
    found = pool_models([0.1, 0.1001, 0.0999], [0.05, 0.05, 0.05])
    assert found is not None
    assert found.spread == 0
    same = pool_models([0.0, 0.0, 0.0], [0.0, 0.0, 0.0])
    assert same is not None
    assert (same.mean, same.low, same.high, same.ties) == (0, 0, 0, 3)


def test_two_models_are_too_few() -> None:
    assert pool_models([0.1, 0.2], [0.01, 0.01]) is None
