"""Rates: k of n, with the interval that such a count supports. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.inference.interval import share_interval
from benchapp.stats.inference.shares import MIN_FOR_INTERVAL, wilson


@dataclass(frozen=True, slots=True)
class Rate(Shaped):
    """`passed` of `scored`; `planned` counts every planned trial, scored or not.

    Missing is not zero: a trial without a verdict counts in `planned` and in no percentage.
    """

    passed: int = 0
    scored: int = 0
    planned: int = 0

    json_shape = JsonShape("passed", "scored", "planned", "rate=value", "low", "high")

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
