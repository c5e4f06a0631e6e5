"""The rules of a check: how many of a task's runs must or may pass, and when the answer is settled."""

from __future__ import annotations

from dataclasses import dataclass
from math import comb

# In reading order. `no_corpus` replaces `no_skill` if a task has a corpus.
CHECKS = ("solution", "untouched", "trap", "no_skill", "no_corpus", "with_corpus", "reference")


@dataclass(frozen=True, slots=True)
class Rule:
    """From `least` to `most` of `runs` runs pass."""

    runs: int
    least: int
    most: int

    def __str__(self) -> str:
        if self.least == self.most:
            return f"{self.least} of {self.runs}"
        return f"at least {self.least} of {self.runs}" if self.least else f"at most {self.most} of {self.runs}"

    def is_kept(self, passed: int, failed: int) -> bool | None:
        """None while runs without a verdict (still open, skipped, unscored) could decide it.

        A settled result is the result of all runs: stopping here adds no error to that of the rule itself.
        """
        left = self.runs - passed - failed
        if passed > self.most or passed + left < self.least:
            return False
        return True if passed >= self.least and passed + left <= self.most else None

    def chance(self, rate: float) -> float:
        """The probability that a task whose runs pass at this rate is found to keep the rule: the binomial."""
        counts = range(self.least, self.most + 1)
        return sum(comb(self.runs, k) * rate**k * (1 - rate) ** (self.runs - k) for k in counts)
