"""How often three trials of one task disagreed in SkillLearnBench, read out of the spreads of Table 7.

A task tried three times has a sample standard deviation of 0 where the trials agree and of 1/sqrt(3) where they do
not. Every printed spread of an accuracy is 100 * m / (sqrt(3) * cells) for a whole m: it is the mean of those
deviations, and m counts the cells (a task, or a task and a model) whose trials disagreed. It is not a spread of the
mean accuracy, though the caption can be read so. Source: arXiv 2604.20087v1, appendix E and Table 7.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import combinations_with_replacement
from math import sqrt
from statistics import pstdev, stdev

from benchapp.papers.published_rows import Cells, PrintedNumber, find_count
from benchapp.papers.release import METHODS, MODELS, REFERENCES, TASKS
from tests.benchapp.errata.checks import TracedErratum, erratum
from tests.benchapp.errata.skilllearnbench_rows import overall

TABLE = "Table 7"
TRIALS = 3


@dataclass(frozen=True, slots=True)
class Retest:
    """`flipped` of `cells` cells under a condition had trials that disagreed."""

    condition: str
    flipped: int
    cells: int

    @property
    def rate(self) -> float:
        """Share of cells that flipped, 0 to 1."""
        return self.flipped / self.cells

    @property
    def noise(self) -> float:
        """Standard deviation of the accuracy of one pass over the cells, in points: retest noise with the skills fixed.

        The sample variance of three trials is 1/3 where they disagree, so a mean over the cells varies by
        sqrt(flipped / 3) / cells.
        """
        return 100 * sqrt(self.flipped / TRIALS) / self.cells


def retest(cells: Cells, condition: str) -> Retest | None:
    """The count behind a printed spread, None where no count gives it."""
    planned = TASKS * (len(MODELS) if condition in METHODS else 1)
    printed = spread_of(cells, condition)
    step = 100 / (sqrt(TRIALS) * planned)
    flipped = round(float(printed.number) / step)
    return Retest(condition, flipped, planned) if f"{flipped * step:.2f}" == printed.printed else None


def spread_of(cells: Cells, condition: str) -> PrintedNumber:
    return overall(cells, "accuracy_sd", condition, TABLE)


def retest_findings(cells: Cells) -> Iterator[TracedErratum]:
    """Spreads that no count of disagreeing cells gives,
    and those that cannot be what the caption can be taken to say."""
    for condition in (*REFERENCES, *METHODS):
        printed = spread_of(cells, condition)
        found = retest(cells, condition)
        if found is None:
            sentence = "No count of tasks whose three trials disagree gives this spread."
            yield erratum(printed, "", "no k of n", sentence)
        elif condition in REFERENCES and not may_spread_means(cells, condition):
            told = f"{found.flipped} of {found.cells} tasks flipped; one pass varies by {found.noise:.1f} points"
            sentence = (
                "It is the mean spread inside a task; no three accuracies over twenty tasks with this mean spread so."
            )
            yield erratum(printed, told, "unclear", sentence, overall(cells, "accuracy", condition, TABLE))


def may_spread_means(cells: Cells, condition: str) -> bool:
    """Whether three accuracies over twenty tasks with the printed mean can have the printed standard deviation."""
    accuracy, spread = overall(cells, "accuracy", condition, TABLE), spread_of(cells, condition)
    low, high = (float(end) for end in spread.span)
    total = find_count(accuracy, TASKS * TRIALS)
    trials = [
        [100 * k / TASKS for k in solved]
        for solved in combinations_with_replacement(range(TASKS + 1), TRIALS)
        if sum(solved) == total
    ]
    return any(low <= deviation <= high for shares in trials for deviation in (stdev(shares), pstdev(shares)))
