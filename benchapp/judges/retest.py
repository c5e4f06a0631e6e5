"""Test against retest: does the same judge answer the same when asked again? Source: SkillLearnBench, section L.3.

Rows of one unit are paired across two passes. The paper pairs the means of four executability and of six safety scores,
on the scale 1..5; here values are 0..100, so a mean absolute error here is 25 times the paper's.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import fmean

from benchapp.stats.agreement.kappa import spearman
from benchapp.stats.judged.judged_rows import JudgedRow


@dataclass(frozen=True, slots=True)
class Retest:
    """`rho` None: fewer than two pairs, or a side that never varies. `alone`: units that only one of the passes has."""

    measure: str
    n: int
    rho: float | None
    mae: float | None
    alone: int


def retest(first: Iterable[JudgedRow], second: Iterable[JudgedRow], measures: Iterable[str]) -> list[Retest]:
    """Return one for each measure that either has."""
    left, right = _values(first), _values(second)
    found = []
    for measure in measures:
        one, two = left.get(measure, {}), right.get(measure, {})
        both = sorted(one.keys() & two.keys(), key=repr)
        if not (one or two):
            continue
        pairs = [(one[unit], two[unit]) for unit in both]
        mae = fmean(abs(a - b) for a, b in pairs) if pairs else None
        rho = spearman([a for a, _ in pairs], [b for _, b in pairs])
        found.append(Retest(measure, len(pairs), rho, mae, len(one.keys() ^ two.keys())))
    return found


def _values(rows: Iterable[JudgedRow]) -> dict[str, dict[object, float]]:
    found: dict[str, dict[object, float]] = {}
    for row in rows:
        found.setdefault(row.measure, {})[row.unit] = row.value
    return found
