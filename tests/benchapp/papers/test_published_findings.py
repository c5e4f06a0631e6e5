"""The stored list of what does not add up is just what the stored numbers of the papers give."""

from __future__ import annotations

import json
from collections import Counter
from dataclasses import asdict
from typing import Any

import pytest

from benchapp.papers.published_rows import FINDINGS, PrintedNumber, PublishedDataError, read_errata, read_published_rows
from tests.benchapp.errata.checks import names_of
from tests.benchapp.errata.papers import CHECKS, as_stored, recompute_findings

STORED: list[dict[str, Any]] = json.loads(FINDINGS.read_text(encoding="utf-8"))


def test_the_file_holds_every_finding_that_the_cells_give_and_no_other() -> None:
    recomputed = recompute_findings(read_published_rows())
    assert [asdict(finding) | {"cells": list(finding.cells)} for finding in recomputed] == STORED
    assert FINDINGS.read_text(encoding="utf-8") == as_stored(recomputed)


def test_every_finding_names_cells_that_the_paper_has_once() -> None:
    named = Counter((row.paper, name) for row in read_published_rows() for name in names_of([row]))
    assert all(finding["cells"] for finding in STORED)
    assert {named[finding["paper"], cell] for finding in STORED for cell in finding["cells"]} == {1}


def test_a_finding_about_one_cell_repeats_what_that_cell_prints() -> None:
    rows = {(row.paper, name): row for row in read_published_rows() for name in names_of([row])}
    cells: list[tuple[dict[str, Any], PrintedNumber]] = [
        (each, rows[each["paper"], each["cells"][0]]) for each in STORED
    ]
    about_one = [(each, cell) for each, cell in cells if f"{each['table']}: {each['place']}" == each["cells"][0]]
    assert len(about_one) == 113
    assert [each for each, cell in about_one if each["printed"] not in (cell.printed, cell.printed_delta)] == []


def test_pages_and_commands_show_the_file_paper_by_paper() -> None:
    assert [asdict(finding) for finding in read_errata()] == [
        {name: value for name, value in each.items() if name != "cells"} for each in STORED
    ]
    assert [finding for paper in CHECKS for finding in read_errata(paper)] == list(read_errata())
    assert set(CHECKS) == {row.paper for row in read_published_rows()} == {finding.paper for finding in read_errata()}


def test_it_refuses_a_paper_that_is_not_there() -> None:
    with pytest.raises(PublishedDataError, match="no published numbers of 'nature'"):
        read_errata("nature")
