"""The part of a suite's page that says what screening found: leaks, near-duplicates, roles that do not hold."""

from __future__ import annotations

from dataclasses import dataclass

from benchapp.analysis.suite_screening import screen_once, summarise_screening, take_screening
from benchapp.record.json_shape import JsonShape, Shaped
from inspector.pages.suites.suite import SuiteView
from runner.screening.suite_findings import KINDS, Screening, SuiteFinding, Weight
from runner.suites import SUITES

QUOTE = JsonShape("task?", "path", ("line", lambda quote: quote.line or None), "text?")
FINDING = JsonShape("kind", "weight", "tasks", "says", ("quotes", lambda finding: QUOTE.read_all(finding.quotes)))


@dataclass(frozen=True, slots=True)
class ShownScreening(Shaped):
    """`kinds`: (in words, its findings, whether any is a leak), those with leaks first."""

    says: str
    found: Screening
    kinds: tuple[tuple[str, tuple[SuiteFinding, ...], bool], ...]

    json_shape = JsonShape(
        "says",
        ("leaks", lambda row: row.found.count(Weight.LEAK)),
        ("looks", lambda row: row.found.count(Weight.LOOK)),
        ("more", lambda row: row.found.more),
        ("skipped", lambda row: list(row.found.skipped)),
        ("findings", lambda row: FINDING.read_all(row.found.findings)),
    )


def read_screening(view: SuiteView, *, asked: bool) -> ShownScreening | None:
    """What is kept. Where nothing is, a bundled suite is screened at once, another one when somebody asks. None: the folder
    is not here, or nobody has asked yet."""
    if view.read is None:
        return None
    found = screen_once(view.read) if asked or view.key in SUITES else take_screening(view.read)
    if found is None:
        return None
    by_kind = {kind: tuple(each for each in found.findings if each.kind == kind) for kind in KINDS}
    kinds = [
        (KINDS[kind], mine, any(each.weight is Weight.LEAK for each in mine)) for kind, mine in by_kind.items() if mine
    ]
    return ShownScreening(summarise_screening(found), found, tuple(sorted(kinds, key=lambda kind: not kind[2])))
