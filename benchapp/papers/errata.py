"""Contradictions in the four papers: the errata, read from `data/findings.json`.

Each names its cells. `tests/benchapp/papers/test_published_findings.py` recomputes all of them from the stored numbers,
so the file holds exactly what follows from these.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, fields
from functools import cache

from benchapp.papers.loading import DATA, read_published_rows

ROUNDING = "rounded before subtracting"
FINDINGS = DATA / "findings.json"


@dataclass(frozen=True, slots=True)
class Erratum:
    """One contradiction. `place`: row and column as a reader finds them; `printed` and `recomputed` as text.

    `kind`: a short word for its sort ("delta", "average", "text", "no k of n", ...); `sentence`: plain words.
    """

    paper: str
    table: str
    place: str
    printed: str
    recomputed: str
    kind: str
    sentence: str

    @property
    def is_rounding(self) -> bool:
        """Did the paper round before subtracting, or after? Only the last digit differs; nothing contradicts."""
        return self.kind == ROUNDING


@cache
def read_errata(paper: str | None = None) -> tuple[Erratum, ...]:
    """Return all findings, or those of one paper. PublishedDataError for an unknown paper."""
    read_published_rows(paper)  # refuses an unknown paper
    stored = json.loads(FINDINGS.read_text(encoding="utf-8"))
    names = [field.name for field in fields(Erratum)]
    found = (Erratum(**{name: row[name] for name in names}) for row in stored)
    return tuple(finding for finding in found if paper in (None, finding.paper))
