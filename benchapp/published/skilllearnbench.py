"""Names that the tables of SkillLearnBench use, in our words. Source: arXiv 2604.20087v1."""

from __future__ import annotations

from benchapp.published.cells import Cells
from benchapp.published.rows import Printed

PAPER = "skilllearnbench"
AVERAGE = "average of six models"
CLAUDE = ("Claude Haiku 4.5", "Claude Sonnet 4.6", "Claude Opus 4.6")  # smallest first
GEMINI = ("Gemini 3.1 Flash Lite", "Gemini 3 Flash", "Gemini 3.1 Pro")
MODELS = (*CLAUDE, *GEMINI)
METHODS = ("one-shot", "self-feedback", "teacher-feedback", "skill-creator")
REFERENCES = ("no-skill", "human-authored")
TASKS = 20


def model_of(condition: str) -> str:
    """The `model` of a row over all models: the references' skills are written by none."""
    return "" if condition in REFERENCES else AVERAGE


def overall(cells: Cells, metric: str, condition: str, table: str = "Table 2") -> Printed:
    """What a table prints for a condition over all models."""
    return cells.one(table, metric, condition=condition, model=model_of(condition))
