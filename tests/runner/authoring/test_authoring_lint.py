"""Advice on skills: what it notices, and that it leaves good ones alone and never rejects."""

from __future__ import annotations

import json

import pytest

from runner.authoring.contract.contract import check_patch
from runner.authoring.occasion import Occasion
from runner.base.types import AuthorMode, Family, Finding, Patch
from tests.cases import every

GOOD = "Aggregate CSV tables with blank cells: totals, counts, averages. Use when a numeric column has missing values."


def findings(description: str = GOOD, body: str = "# Totals\n", more: str = "", **files: str) -> list[Finding]:
    family = Family("F", "totals", "Totals", "d", "E", ())
    at = Occasion(AuthorMode.INDUCE, family, False, None, "process", "paper", {}, (), ())
    text = f"---\nname: totals\ndescription: {json.dumps(description)}\n{more}---\n{body}"
    upserts = {"totals/SKILL.md": text, **{f"totals/{path}": content for path, content in files.items()}}
    return list(check_patch(Patch("s", "create", upserts), at))


def test_a_good_description_draws_no_advice() -> None:
    assert findings() == []


@every(
    ("Use when debugging a task to fix code problems.", "words of its domain"),
    ("Aggregates CSV tables with blank cells into totals, counts and averages.", "does not say when"),
    ("I sum CSV columns with blank cells, totals and averages, when asked.", "first person"),
    ("This skill helps with CSV columns, blank cells, totals, averages when asked.", "talks about itself"),
    ("A structured workflow for CSV columns with blank cells, totals, averages when summing.", "talks about itself"),
)
def test_it_notices_weak_descriptions(description: str, said: str) -> None:
    advice = [finding for finding in findings(description) if finding.rule == "description-quality"]
    assert any(said in finding.message for finding in advice)
    assert {finding.severity for finding in advice} == {"warning"}


def test_it_notices_unknown_keys() -> None:
    (found,) = findings(more="license: MIT\nversion: 2\n")
    assert (found.rule, found.severity) == ("frontmatter-key", "warning")
    assert "'version'" in found.message


def test_it_notices_citations_of_files_that_do_not_exist() -> None:
    (found,) = findings(body="Read `references/units.md`. Run scripts/sum.py.", **{"scripts/sum.py": "print(1)\n"})
    assert (found.rule, found.message) == ("citation-dangling", "names references/units.md, which does not exist")


def test_it_notices_deep_resources() -> None:
    (found,) = findings(body="Read references/a/units.md.", **{"references/a/units.md": "kg"})
    assert (found.rule, found.path) == ("resource-depth", "totals/references/a/units.md")


@pytest.mark.parametrize("line", ["answer = input('Go on? ')", "read -p 'Go on? ' answer", "pip install pandas"])
def test_it_notices_scripts_that_ask_or_install(line: str) -> None:
    (found,) = findings(body="Run scripts/sum_columns.sh.", **{"scripts/sum_columns.sh": f"#!/bin/sh\n{line}\n"})
    assert found.rule == "script-interaction"


def test_a_comment_about_installing_is_no_installing() -> None:
    assert findings(body="Run scripts/sum_columns.sh.", **{"scripts/sum_columns.sh": "# pip install x\n"}) == []
