"""Rows over all models in the tables of SkillLearnBench. Source: arXiv 2604.20087v1."""

from __future__ import annotations

from benchapp.papers.published_rows import Cells, PrintedNumber
from benchapp.papers.release import REFERENCES

AVERAGE = "average of six models"


def model_of(condition: str) -> str:
    """The `model` of a row over all models: the references' skills are written by none."""
    return "" if condition in REFERENCES else AVERAGE


def overall(cells: Cells, metric: str, condition: str, table: str = "Table 2") -> PrintedNumber:
    """What a table prints for a condition over all models."""
    return cells.one(table, metric, condition=condition, model=model_of(condition))
