"""Rates: k of n, with the interval that such a count supports. Pure arithmetic."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from benchapp.inference.shares import MIN_FOR_INTERVAL, wilson


@dataclass(frozen=True, slots=True)
class Rate:
    """`passed` of `scored`; `planned` counts every trial the plan holds, scored or not.

    Missing is not zero: a trial without a verdict stands in `planned` and in no percentage.
    """

    passed: int = 0
    scored: int = 0
    planned: int = 0

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
    def missing(self) -> int:
        return self.planned - self.scored

    def __add__(self, other: Rate) -> Rate:
        return Rate(self.passed + other.passed, self.scored + other.scored, self.planned + other.planned)

    def as_json(self) -> Mapping[str, Any]:
        low, high = self.interval or (None, None)
        return {
            "passed": self.passed,
            "scored": self.scored,
            "planned": self.planned,
            "rate": self.value,
            "low": low,
            "high": high,
        }
