"""Rows of a record are written in one place per family, whoever records them."""

from __future__ import annotations

import ast
from functools import cache
from pathlib import Path

import pytest

BENCHAPP = Path(__file__).parents[3] / "benchapp"
# Rows that only these files make one by one. An archive and a fork copy any row as it is, column by column.
WRITERS = {
    "Entry": "record/writing/rows.py",
    "Seal": "record/writing/rows.py",
    "Refusal": "record/writing/rows.py",
    "DecisionEvidence": "record/writing/rows.py",
    "Trajectory": "record/writing/rows.py",
    "Chunk": "record/trajectory_store.py",
    "Compaction": "record/writing/rows.py",
    "SkillUse": "record/writing/rows.py",
    "Check": "models/trials.py",
    "Dimension": "models/trials.py",
}


@cache
def made_rows() -> set[tuple[str, str]]:
    """(model, file) wherever benchapp calls a model, or its manager's `create`."""
    return {
        (model, path.relative_to(BENCHAPP).as_posix())
        for path in BENCHAPP.rglob("*.py")
        for model in made_in(ast.parse(path.read_text()), is_model=path.parent.name == "models")
    }


def made_in(tree: ast.Module, *, is_model: bool) -> set[str]:
    names = {node.name: node.name for node in ast.walk(tree) if isinstance(node, ast.ClassDef) and is_model}
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("benchapp.models"):
            names |= {name.asname or name.name: name.name for name in node.names}
        elif isinstance(node, ast.ImportFrom) and node.module == "benchapp":
            names |= {f"models.{model}": model for model in WRITERS}
    calls = [ast.unparse(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)]
    return {names[called] for call in calls if (called := call.removesuffix(".objects.create")) in names}


@pytest.mark.parametrize("model", WRITERS)
def test_rows_have_one_writer(model: str) -> None:
    assert {file for made, file in made_rows() if made == model} == {WRITERS[model]}
