"""Read the reference data of the papers in `data/`: one CSV file per table or text, `<paper>-<table>.csv`, and the errata."""

from __future__ import annotations

import csv
import json
from collections.abc import Mapping
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import cache
from math import isfinite
from pathlib import Path

from benchapp.papers.published_rows import PrintedNumber

PAPERS: Mapping[str, str] = {  # the key in its rows -> name
    "skillevolbench": "SkillEvolBench",
    "skillflow": "SkillFlow",
    "skilllearnbench": "SkillLearnBench",
    "skillgenbench": "SkillGenBench",
}
DATA = Path(__file__).parent / "data"
COLUMNS = tuple(field.name for field in fields(PrintedNumber))
REQUIRED = ("paper", "table", "row", "metric", "unit")


class PublishedDataError(Exception):
    """A file of reference data that cannot be used. The message names the file, the line and what was expected."""


@cache
def read_published_rows(paper: str | None = None) -> tuple[PrintedNumber, ...]:
    """Return all printed numbers, or those of one paper, in the order of the files and of the papers.

    Raises PublishedDataError, also for an unknown paper.
    """
    if paper is None:
        return tuple(row for path in sorted(DATA.glob("*.csv")) for row in read_rows(path))
    found = tuple(row for row in read_published_rows() if row.paper == paper)
    if not found:
        raise PublishedDataError(f"no published numbers of {paper!r}; known: {', '.join(list_papers())}")
    return found


def list_papers() -> tuple[str, ...]:
    return tuple(sorted({row.paper for row in read_published_rows()}))


def read_rows(path: Path) -> tuple[PrintedNumber, ...]:
    """Return the rows of one file. Raises PublishedDataError."""
    with path.open(newline="", encoding="utf-8") as file:
        reader = csv.DictReader(file, restkey="beyond the header", strict=True)
        try:
            if tuple(reader.fieldnames or ()) != COLUMNS:
                raise ValueError(f"expected the columns {','.join(COLUMNS)}")
            return tuple(_parse_row(path, cells) for cells in reader)
        except (ValueError, csv.Error) as error:
            raise PublishedDataError(f"{path.name}, line {reader.line_num}: {error}") from None


def _parse_row(path: Path, cells: dict[str, str]) -> PrintedNumber:
    if set(cells) != set(COLUMNS) or None in cells.values():
        raise ValueError(f"expected {len(COLUMNS)} cells")
    missing = [name for name in REQUIRED if not cells[name]]
    if missing:
        raise ValueError(f"expected something in {', '.join(missing)}")
    if not path.name.startswith(f"{cells['paper']}-"):
        raise ValueError(f"expected a row of the paper the file is named after, found {cells['paper']!r}")
    if bool(cells["printed_delta"]) != bool(cells["reference"]):
        raise ValueError("expected a reference where there is a printed delta, and only there")
    try:
        Fraction(cells["printed_delta"] or 0)
    except ValueError:
        raise ValueError(f"expected a number as printed delta, found {cells['printed_delta']!r}") from None
    return PrintedNumber(**{**cells, "value": _parse_value(cells)})  # type: ignore[arg-type]


def _parse_value(cells: dict[str, str]) -> float | None:
    """Return the printed number in the row's unit; None for a dash or a blank."""
    if not cells["value"]:
        if any(letter.isdigit() for letter in cells["printed"]):
            raise ValueError(f"expected a value, because {cells['printed']!r} is printed")
        if not cells["note"]:
            raise ValueError("expected a note that says why there is no value")
        return None
    value = float(cells["value"])
    if not isfinite(value):
        raise ValueError(f"expected a finite number, found {cells['value']!r}")
    return value


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
    found = (Erratum(*(row[field.name] for field in fields(Erratum))) for row in stored)
    return tuple(finding for finding in found if paper in (None, finding.paper))
