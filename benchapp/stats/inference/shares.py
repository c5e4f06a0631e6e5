"""Shares, k of n: Wilson's interval, rates that keep what is missing, and how a percentage is written."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from decimal import ROUND_HALF_UP, Decimal
from math import sqrt

from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.inference.interval import share_interval

Z_95 = 1.959963984540054  # two-sided 95 % of the standard normal distribution
ROUNDING = 1e-9  # a mean of ones may miss 1 by the last digits
ROUNDED_BELOW = 1e15  # larger numbers have no places to round, and hostile ones have hundreds of digits
MIN_FOR_INTERVAL = 10  # below this a percentage with an interval pretends to know more than k of n


def wilson(k: int, n: int) -> tuple[float, float]:
    """Return Wilson's score interval of a proportion (Wilson 1927), within 0..1. n must be at least 1."""
    if not 0 <= k <= n or n < 1:
        raise ValueError(f"wilson({k}, {n}): expected 0 <= k <= n and n >= 1")
    p, z = k / n, Z_95
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


@dataclass(frozen=True, slots=True)
class Rate(Shaped):
    """`passed` of `scored`; `planned` counts every planned trial, scored or not.

    Missing is not zero: a trial without a verdict counts in `planned` and in no percentage.
    """

    passed: int = 0
    scored: int = 0
    planned: int = 0

    json_shape = JsonShape("passed scored planned rate=value low high")

    @property
    def value(self) -> float | None:
        return self.passed / self.scored if self.scored else None

    @property
    def percent(self) -> float | None:
        return None if self.value is None else 100 * self.value

    @property
    def interval(self) -> tuple[float, float] | None:
        """Wilson, 95 %, from ten scored trials on."""
        return wilson(self.passed, self.scored) if self.scored >= MIN_FOR_INTERVAL else None

    @property
    def low(self) -> float | None:
        return self.interval[0] if self.interval else None

    @property
    def high(self) -> float | None:
        return self.interval[1] if self.interval else None

    @property
    def missing(self) -> int:
        return self.planned - self.scored

    def __add__(self, other: Rate) -> Rate:
        return Rate(self.passed + other.passed, self.scored + other.scored, self.planned + other.planned)


def pooled_interval(rates: Sequence[Rate]) -> tuple[float, float] | None:
    """Return 95 % around the share of all counts: for one learning run Wilson's, for several Student's over shares.

    Pass only runs with a scored trial. With unequal numbers of scored trials the mean is not the share: None where its
    interval excludes the share."""
    if len(rates) == 1:
        return rates[0].interval
    share, ends = sum(rates, Rate()).value, share_interval([rate.value for rate in rates if rate.value is not None])
    return ends if ends and share is not None and ends[0] <= share <= ends[1] else None
