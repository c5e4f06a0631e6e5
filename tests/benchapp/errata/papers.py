"""The checks of each paper, in the order in which the papers stand everywhere.

`python -m tests.benchapp.errata.papers` writes the findings to the product's data file, after a check or a number
changed.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from dataclasses import asdict

from benchapp.papers.published_rows import FINDINGS, PrintedNumber, read_published_rows
from tests.benchapp.errata.checks import TracedErratum
from tests.benchapp.errata.skillevolbench import skillevolbench_findings
from tests.benchapp.errata.skillflow import skillflow_findings
from tests.benchapp.errata.skillgenbench import skillgenbench_findings
from tests.benchapp.errata.skilllearnbench import skilllearnbench_findings

CHECKS: Mapping[str, Callable[[Iterable[PrintedNumber]], list[TracedErratum]]] = {
    "skillevolbench": skillevolbench_findings,
    "skillflow": skillflow_findings,
    "skilllearnbench": skilllearnbench_findings,
    "skillgenbench": skillgenbench_findings,
}


def recompute_findings(rows: Iterable[PrintedNumber]) -> list[TracedErratum]:
    """Every contradiction of these numbers, paper by paper."""
    rows = list(rows)
    return [found for check in CHECKS.values() for found in check(rows)]


def as_stored(found: Iterable[TracedErratum]) -> str:
    """The data file's text."""
    return json.dumps([asdict(each) for each in found], ensure_ascii=False, indent=1) + "\n"


if __name__ == "__main__":
    FINDINGS.write_text(as_stored(recompute_findings(read_published_rows())), encoding="utf-8")
