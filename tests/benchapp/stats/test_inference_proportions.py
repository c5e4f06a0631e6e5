"""Paired pass-or-fail counts."""

from __future__ import annotations

from math import sqrt

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from benchapp.stats.inference.proportions import PassPairs, newcombe_paired, pairs

counts = st.builds(PassPairs, *[st.integers(0, 40)] * 4).filter(lambda cell: cell.n > 0)


@pytest.mark.parametrize(
    ("cell", "low", "high"),
    [
        # Newcombe 1998, Stat. Med. 17, 2635: method 10 on his example of 36, 12, 2 and 0
        (PassPairs(36, 12, 2, 0), 0.0569, 0.3404),
        # Fagerland, Lydersen and Laake 2014, Stat. Med. 33, 2850: airway reactions before and after a transplant
        (PassPairs(1, 1, 7, 12), -0.507, -0.026),
    ],
)
def test_it_gives_the_published_intervals(cell: PassPairs, low: float, high: float) -> None:
    interval = newcombe_paired(cell)
    assert (interval.low, interval.high) == pytest.approx((low, high), abs=5.1e-4 if abs(low) > 0.5 else 5.1e-5)


def slow_newcombe(e: int, f: int, g: int, h: int) -> tuple[float, float]:
    """Method 10 in the letters of Newcombe 1998, from the roots of the score equation instead of Wilson's formula."""
    n = e + f + g + h

    def roots(k: int) -> tuple[float, float]:
        z2 = 1.959963984540054**2
        found = np.roots([n + z2, -(2 * k + z2), k * k / n])  # n (p - theta)^2 = z^2 theta (1 - theta)
        return float(min(found.real)), float(max(found.real))

    theta = (f - g) / n
    (l2, u2), (l3, u3) = roots(e + f), roots(e + g)
    margins = (e + f) * (g + h) * (e + g) * (f + h)
    bc = e * h - f * g
    phi = 0.0 if margins == 0 else (max(bc - n / 2, 0) if bc > 0 else bc) / sqrt(margins)
    dl2, du2, dl3, du3 = (e + f) / n - l2, u2 - (e + f) / n, (e + g) / n - l3, u3 - (e + g) / n
    return (
        theta - sqrt(max(0, dl2**2 - 2 * phi * dl2 * du3 + du3**2)),
        theta + sqrt(max(0, du2**2 - 2 * phi * du2 * dl3 + dl3**2)),
    )


@given(counts)
def test_it_equals_a_second_way_to_write_it(cell: PassPairs) -> None:
    interval = newcombe_paired(cell)
    slow = slow_newcombe(cell.both, cell.own_only, cell.other_only, cell.neither)
    assert (interval.low, interval.high) == pytest.approx(slow, abs=1e-6)


@given(counts)
def test_it_turns_round_with_the_sides_and_holds_the_difference(cell: PassPairs) -> None:
    there, back = (
        newcombe_paired(cell),
        newcombe_paired(PassPairs(cell.both, cell.other_only, cell.own_only, cell.neither)),
    )
    assert (there.low, there.high) == pytest.approx((-back.high, -back.low))
    assert -1 <= there.low <= (cell.own_only - cell.other_only) / cell.n <= there.high <= 1


def test_it_refuses_no_tasks() -> None:
    with pytest.raises(ValueError, match="at least one task"):
        newcombe_paired(PassPairs(0, 0, 0, 0))


@given(st.lists(st.tuples(st.booleans(), st.booleans())))
def test_it_counts_each_pair_once(rows: list[tuple[bool, bool]]) -> None:
    cell = pairs(np.array([a for a, _ in rows], dtype=float), np.array([b for _, b in rows], dtype=float))
    assert (cell.both, cell.neither) == (rows.count((True, True)), rows.count((False, False)))
    assert cell.discordant == (rows.count((True, False)), rows.count((False, True)))
    assert cell.n == len(rows)
