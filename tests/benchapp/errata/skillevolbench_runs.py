"""Runs of SkillEvolBench's tables by model and condition, as exact counts.
Source: SkillEvolBench, Tables 1, 2 and 9."""

from __future__ import annotations

from fractions import Fraction

from benchapp.papers.published_rows import Cells, PrintedNumber

PAPER = "skillevolbench"
TABLES = ("Table 1", "Table 2", "Table 9")
METRICS = ("LSR", "RSR", "ESR", "CSSR", "ARSR", "CompSR")
ROLES = ("CSSR", "ARSR", "CompSR")
AVERAGE = "average of ten models"
RAW = "raw-trajectory"

Span = tuple[Fraction, Fraction]  # lowest and highest number that the prints allow, in %


def by_table(cells: Cells, metric: str, condition: str, model: str) -> PrintedNumber | None:
    """The first table's cell of a run; None where no table has one."""
    for table in TABLES:
        for row in cells.many(table, metric, condition=condition, model=model):
            return row
    return None


def column(cells: Cells, metric: str, condition: str) -> list[PrintedNumber]:
    """One condition's cells of all models, from the first table that has them; empty where none has."""
    return next((found for table in TABLES if (found := cells.many(table, metric, condition=condition))), [])


def mean_over_models(cells: Cells, metric: str, condition: str) -> Span:
    """Mean of a condition over the ten models in %: a point where all ten counts are known."""
    found = [row.possible for row in column(cells, metric, condition)]
    return sum(low for low, _ in found) / Fraction(len(found)), sum(high for _, high in found) / Fraction(len(found))


def conditions(cells: Cells, metric: str) -> list[str]:
    """Conditions with a table's column of this metric."""
    return list(dict.fromkeys(row.condition for table in TABLES for row in cells.many(table, metric)))


def change(cells: Cells, metric: str, condition: str, model: str) -> Span | None:
    """Percentage points against no-skill (its LSR for RSR); None where no table has the run."""
    cell = by_table(cells, metric, condition, model)
    reference = by_table(cells, "LSR" if metric == "RSR" else metric, "no-skill", model)
    if cell is None or reference is None:
        return None
    return cell.possible[0] - reference.possible[1], cell.possible[1] - reference.possible[0]
