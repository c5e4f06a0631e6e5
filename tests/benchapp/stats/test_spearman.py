from __future__ import annotations

import pytest

from benchapp.stats.agreement import spearman


def test_against_values_by_hand() -> None:
    assert spearman([1, 2, 3, 4, 5], [2, 1, 4, 3, 5]) == pytest.approx(0.8)  # 1 - 6 * 4 / (5 * 24)
    assert spearman([1, 2, 3], [30, 20, 10]) == pytest.approx(-1)


def test_ties_share_the_mean_of_their_ranks() -> None:
    # Ranks 1, 2.5, 2.5, 4 against 1, 2, 3, 4: covariance 4.5, variances 4.5 and 5, so 4.5 / sqrt(22.5).
    assert spearman([10, 20, 20, 30], [1, 2, 3, 4]) == pytest.approx(4.5 / 22.5**0.5)


def test_what_never_varies_or_has_no_pair_is_undefined() -> None:
    assert spearman([5, 5, 5], [1, 2, 3]) is None
    assert spearman([1], [1]) is None
    with pytest.raises(ValueError, match="expected pairs"):
        spearman([1, 2], [1])
