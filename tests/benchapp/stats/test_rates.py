from __future__ import annotations

import pytest

from benchapp.stats.inference.shares import Rate, percent_text, pooled_interval, wilson
from benchapp.stats.metrics.amounts import render_signed


@pytest.mark.parametrize(
    ("k", "n", "low", "high"),
    [
        (0, 10, 0.0, 0.2775),
        (10, 10, 0.7225, 1.0),
        (5, 10, 0.2366, 0.7634),
        (1, 20, 0.0089, 0.2361),
        (81, 263, 0.2553, 0.3662),  # Newcombe 1998, table I, method 3
        (15, 148, 0.0624, 0.1605),  # the same
    ],
)
def test_it_gives_wilsons_interval(k: int, n: int, low: float, high: float) -> None:
    assert wilson(k, n) == pytest.approx((low, high), abs=5e-5)


@pytest.mark.parametrize(("k", "n"), [(1, 0), (3, 2), (-1, 5)])
def test_it_refuses_counts_that_cannot_be(k: int, n: int) -> None:
    with pytest.raises(ValueError, match="expected 0 <= k <= n"):
        wilson(k, n)


def test_it_gives_no_interval_below_ten() -> None:
    assert Rate(4, 9, 9).interval is None
    assert Rate(4, 10, 10).interval is not None


def test_it_does_not_count_what_was_not_scored_as_failed() -> None:
    rate = Rate(passed=3, scored=4, planned=30)
    assert rate.value == 0.75
    assert rate.missing == 26


def test_it_knows_no_rate_without_a_score() -> None:
    assert Rate(0, 0, 5).value is None
    assert Rate(0, 0, 5).as_json()["rate"] is None


def test_it_adds_up() -> None:
    assert Rate(1, 2, 3) + Rate(4, 5, 6) == Rate(5, 7, 9)


def test_one_run_has_wilsons_interval_and_several_have_students() -> None:
    assert pooled_interval([Rate(5, 10, 10)]) == Rate(5, 10, 10).interval
    low, high = pooled_interval([Rate(4, 10), Rate(6, 10), Rate(5, 10)])
    assert (low, high) == pytest.approx((0.5 - 4.3027 * 0.1 / 3**0.5, 0.5 + 4.3027 * 0.1 / 3**0.5), abs=1e-4)


def test_without_spread_or_with_a_share_outside_it_there_is_none() -> None:
    assert pooled_interval([Rate(5, 9, 9)]) is None
    assert pooled_interval([Rate(5, 10), Rate(5, 10)]) is None
    # nearly all trials are of the first run: the mean of the shares is another number than the share
    assert (
        pooled_interval([Rate(900, 1000), Rate(1, 10), Rate(1, 10), Rate(1, 11), Rate(1, 10), Rate(1, 9), Rate(1, 10)])
        is None
    )


@pytest.mark.parametrize(
    ("share", "digits", "written"),
    [(0.625, 0, "63"), (0.375, 0, "38"), (0.3125, 1, "31.3"), (0.0625, 1, "6.3"), (30 / 48 - 1e-13, 0, "63")],
)
def test_a_percentage_rounds_half_up(share: float, digits: int, written: str) -> None:
    assert percent_text(share, digits) == written


def test_a_difference_rounds_away_from_zero_on_both_sides() -> None:
    assert [render_signed(each, 1) for each in (6.25, -6.25, -0.04, 0.0)] == ["+6.3", "−6.3", "0.0", "0.0"]


def test_a_number_of_hundreds_of_digits_is_written_too() -> None:
    assert render_signed(1e300, 1).startswith("+1,000,000")
