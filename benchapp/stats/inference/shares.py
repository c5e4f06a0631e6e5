"""One share, k of n: Wilson's interval and how a percentage is written. Pure arithmetic."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from math import sqrt

Z_95 = 1.959963984540054  # two-sided 95 % of the standard normal distribution
ROUNDING = 1e-9  # a mean of ones may miss 1 by the last digits
ROUNDED_BELOW = 1e15  # larger numbers have no places to round, and hostile ones have hundreds of digits
MIN_FOR_INTERVAL = 10  # below this a percentage with an interval pretends to know more than k of n


def wilson(k: int, n: int, z: float = Z_95) -> tuple[float, float]:
    """Return Wilson's score interval of a proportion (Wilson 1927), within 0..1. n must be at least 1."""
    if not 0 <= k <= n or n < 1:
        raise ValueError(f"wilson({k}, {n}): expected 0 <= k <= n and n >= 1")
    p = k / n
    scale = 1 + z * z / n
    middle = (p + z * z / (2 * n)) / scale
    half = z * sqrt(p * (1 - p) / n + z * z / (4 * n * n)) / scale
    return (0.0 if k == 0 else max(0.0, middle - half), 1.0 if k == n else min(1.0, middle + half))


def half_up(value: float, digits: int = 0) -> Decimal:
    """Round as people do: 62.5 -> 63, -6.25 -> -6.3. The noise after the ninth place is dropped first: a mean over
    replicates may be 37.4999999999 where the counts give 37.5."""
    if not abs(value) < ROUNDED_BELOW:
        return Decimal(value)
    return Decimal(f"{value:.9f}").quantize(Decimal(1).scaleb(-digits), ROUND_HALF_UP) + 0  # no -0


def percent_text(share: float, digits: int) -> str:
    """Format a share in percent, without the sign; with more digits where 199 of 200 would round to all of them."""
    ends = any(abs(share - end) < ROUNDING for end in (0, 1))
    for more in range(4):
        text = str(half_up(100 * share, digits + more))
        if ends or float(text) not in (0, 100):
            break
    return text
