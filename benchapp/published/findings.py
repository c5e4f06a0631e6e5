"""The list of what does not add up in the four papers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cache

from benchapp.published.checking import Finding
from benchapp.published.checking_skillevolbench import skillevolbench_findings
from benchapp.published.checking_skillflow import skillflow_findings
from benchapp.published.checking_skillgenbench import skillgenbench_findings
from benchapp.published.checking_skilllearnbench import skilllearnbench_findings
from benchapp.published.loading import published_rows
from benchapp.published.rows import Printed

CHECKS: Mapping[str, Callable[[Iterable[Printed]], list[Finding]]] = {
    "skillevolbench": skillevolbench_findings,
    "skillflow": skillflow_findings,
    "skilllearnbench": skilllearnbench_findings,
    "skillgenbench": skillgenbench_findings,
}


@cache
def findings(paper: str | None = None) -> tuple[Finding, ...]:
    """All findings, or those of one paper. PublishedDataError for a paper that is not there."""
    rows = published_rows(paper)
    return tuple(finding for name, check in CHECKS.items() if paper in (None, name) for finding in check(rows))
