"""Printed numbers of a paper, the exact numbers that rounding allows, and deltas recomputed from them.

A printed number means every number that rounds to it: "30.44" is 30.435 to 30.445. The reference data is in `data/`:
one CSV file per table or text, `<paper>-<table>.csv`, and the errata.

Printed numbers for other programs (flat rows) and for a reader in a terminal (tables as the papers lay them out).
"""

from __future__ import annotations

import csv
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from fractions import Fraction
from functools import cache
from itertools import groupby
from math import isfinite
from pathlib import Path
from typing import Any

MEAN_OF_MODELS = "average of "  # prefix of `model` where a number is a mean over models

# Attempts of one model behind a percentage, where a paper gives their number, by (paper, metric).
DENOMINATORS: Mapping[tuple[str, str], int] = {
    # SkillEvolBench, sections 3.1 and 4.5: 30 families, each with three acquisition and three deployment roles
    ("skillevolbench", "LSR"): 90,
    ("skillevolbench", "RSR"): 90,
    ("skillevolbench", "ESR"): 90,
    ("skillevolbench", "CSSR"): 30,
    ("skillevolbench", "ARSR"): 30,
    ("skillevolbench", "CompSR"): 30,
    # SkillFlow, sections 2.1 and C.1: shares of 166 tasks
    ("skillflow", "completion"): 166,
    ("skillflow", "use"): 166,
    # SkillGenBench, section 4.1: 187 tasks, solved in at least one of three trials
    ("skillgenbench", "pass@3"): 187,
}
MARK = "*"  # next to a delta that its own columns contradict
LABELS = ("row", "harness", "model", "condition", "group")
Number = Mapping[str, Any]  # one printed number, flat


@dataclass(frozen=True, slots=True)
class PrintedNumber:
    """A cell of a table (`table` "Table 1") or a number of the running text (`table` "Text").

    `row`: its label as printed, short. `condition` and `metric`: the words of this project. `group`: environment,
    domain or category, "" for all together. `value` is in `unit`; None where a dash or a blank is printed (see `note`).
    `printed` and `printed_delta` are exactly what the paper shows. `reference`: what the delta is relative to, a
    condition and a metric of the same table, harness, model and group ("no-skill LSR").
    """

    paper: str
    table: str
    row: str
    harness: str
    model: str
    condition: str
    group: str
    metric: str
    unit: str
    value: float | None
    printed: str
    printed_delta: str = ""
    reference: str = ""
    note: str = ""

    @property
    def number(self) -> Fraction:
        """The value without the error of binary fractions. ValueError for a blank."""
        if self.value is None:
            raise ValueError(f"{self.paper}, {self.table}, {self.row}: {self.metric} is blank")
        return _exact(self.value)

    @property
    def span(self) -> tuple[Fraction, Fraction]:
        """Lowest and highest number that rounds to the print, in `unit`; a tie may go either way."""
        return _span(self.number, self.printed)

    @property
    def possible(self) -> tuple[Fraction, Fraction]:
        """The exact numbers that the printed one may be: k of n where these are known, else the span."""
        if self.k is None or self.n is None:
            return self.span
        return Fraction(100 * self.k, self.n), Fraction(100 * self.k, self.n)

    @property
    def n(self) -> int | None:
        """Attempts behind a percentage of one model over all groups; None where the paper gives no such number."""
        if self.unit != "%" or self.group or not self.model or self.model.startswith(MEAN_OF_MODELS):
            return None
        return DENOMINATORS.get((self.paper, self.metric))

    @property
    def k(self) -> int | None:
        """The successes that round to the print: k of n. None where n is unknown or no k fits."""
        return None if self.n is None or self.value is None else _count(self.number, self.printed, self.n)


def count_decimals(printed: str) -> int:
    """Digits after the point of a printed number: 1 of "+38.9", 0 of "727K"."""
    return sum(letter.isdigit() for letter in printed.partition(".")[2])


def half_unit(printed: str) -> Fraction:
    """Half of the last printed place: 0.05 of "+38.9", 0.5 of "727K"."""
    return Fraction(1, 2 * 10 ** count_decimals(printed))


# Cached: pages and checks use the same few thousand cells many times, and exact fractions are slow.
@cache
def _exact(value: float) -> Fraction:
    return Fraction(repr(value))


@cache
def _span(number: Fraction, printed: str) -> tuple[Fraction, Fraction]:
    return number - half_unit(printed), number + half_unit(printed)


@cache
def _count(number: Fraction, printed: str, n: int) -> int | None:
    k = round(number * n / 100)
    low, high = _span(number, printed)
    return k if low <= Fraction(100 * k, n) <= high else None


class Cells:
    """Rows of one paper by (table, metric) and any of row, model, condition and group."""

    def __init__(self, rows: Iterable[PrintedNumber]) -> None:
        self._columns: dict[tuple[str, str], list[PrintedNumber]] = {}
        self._of_condition: dict[tuple[str, str, str], list[PrintedNumber]] = {}
        for row in rows:
            self._columns.setdefault((row.table, row.metric), []).append(row)
            self._of_condition.setdefault((row.table, row.metric, row.condition), []).append(row)

    def many(self, table: str, metric: str, **where: str) -> list[PrintedNumber]:
        """Return the cells of a column that print a number, in the order of the paper."""
        if "condition" in where:
            column = self._of_condition.get((table, metric, where.pop("condition")), [])
        else:
            column = self._columns.get((table, metric), [])
        return [
            row
            for row in column
            if row.value is not None and all(getattr(row, field) == wanted for field, wanted in where.items())
        ]

    def one(self, table: str, metric: str, **where: str) -> PrintedNumber:
        """Return the only such cell. LookupError where there is none or more than one."""
        found = self.many(table, metric, **where)
        if len(found) != 1:
            raise LookupError(f"{table}, {metric}, {where}: expected one number, found {len(found)}")
        return found[0]

    def metrics(self, table: str) -> list[str]:
        """List the metrics of a table in the order of its columns."""
        return [metric for of, metric in self._columns if of == table]


def rounds_to(exact: Fraction, cell: PrintedNumber) -> bool:
    """Does the exact number round to the printed one? A tie may go either way."""
    low, high = cell.span
    return low <= exact <= high


def find_count(cell: PrintedNumber, n: int) -> int | None:
    """Return the k where k of n is the printed percentage, None where there is no such k."""
    return _count(cell.number, cell.printed, n)


def counts_make(shares: Sequence[PrintedNumber], n: int) -> bool:
    """Can n things be split so that each part's percentage is as printed?"""
    counts = [find_count(share, n) for share in shares]
    return None not in counts and sum(k for k in counts if k is not None) == n


RELATIVE = ", relative in %"  # end of a `reference` whose delta is a share of it, not a difference


class Recomputed:
    """A delta by the numbers behind the columns, which may be anything from `low` to `high`; in the delta's unit.

    `of_prints`: the delta of the numbers exactly as printed, rounded to the places of the printed delta. `text`: the
    best estimate, rounded and signed likewise.
    """

    def __init__(self, row: PrintedNumber, reference: PrintedNumber, *, relative: bool) -> None:
        (low, high), (from_low, from_high) = row.possible, reference.possible
        if relative:
            self.low, self.high = 100 * (low / from_high - 1), 100 * (high / from_low - 1)
            of_prints = 100 * (row.number / reference.number - 1)
        else:
            self.low, self.high = low - from_high, high - from_low
            of_prints = row.number - reference.number
        places = count_decimals(row.printed_delta)
        self.printed, self.room = Fraction(row.printed_delta), half_unit(row.printed_delta)
        self.of_prints = format_signed(of_prints, places)
        self.text = format_signed(self.low if self.low == self.high else of_prints, places)

    @property
    def adds_up(self) -> bool:
        """Do some numbers that round to the columns have a difference that rounds to the printed delta?"""
        return self.low - self.room <= self.printed <= self.high + self.room


class References:
    """Finds the reference of a printed delta: by table, harness, model, group, condition and metric."""

    def __init__(self, rows: Iterable[PrintedNumber]) -> None:
        self._cells = {_key(row, row.condition, row.metric): row for row in rows if row.value is not None}

    def recompute(self, row: PrintedNumber) -> Recomputed | None:
        """Recompute a row's delta, None where none is printed. LookupError where the table lacks its reference."""
        if not row.printed_delta:
            return None
        return Recomputed(row, self.find(row), relative=row.reference.endswith(RELATIVE))

    def find(self, row: PrintedNumber) -> PrintedNumber:
        """Find the reference of a row's printed delta. LookupError where the table does not have it."""
        wanted = row.reference.removesuffix(RELATIVE)
        condition, _, metric = wanted.partition(" ")
        reference = self._cells.get(_key(row, condition, metric))
        if reference is None:
            raise LookupError(f"{row.paper}, {row.table}, {row.model}: no {wanted!r} for the delta of {row.metric}")
        return reference


def _key(row: PrintedNumber, condition: str, metric: str) -> tuple[str, ...]:
    place = row.row if row.table == "Text" else ""
    return row.paper, row.table, place, row.harness, row.model, row.group, condition, metric


def format_signed(value: Fraction, places: int) -> str:
    """Format a number as papers print deltas: "+3.3", "-6.7", "0.0". Half-way cases round away from zero."""
    steps = int(abs(value) * 10**places + Fraction(1, 2))
    text = f"{steps // 10**places}" + (f".{steps % 10**places:0{places}d}" if places else "")
    return ("+" if value > 0 else "-") + text if steps else text


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


def flatten_rows(rows: Sequence[PrintedNumber]) -> Iterator[Number]:
    """Return one mapping per printed number: the stored fields, the recomputed delta, k and n where known."""
    references = References(rows)
    for row in rows:
        delta = references.recompute(row)
        yield {
            **asdict(row),
            "recomputed_delta": delta.text if delta else "",
            "delta_adds_up": delta.adds_up if delta else None,
            "k": row.k,
            "n": row.n,
        }


@dataclass(frozen=True, slots=True)
class PrintedLine:
    """A row of a printed table: its labels, and its numbers in the order of the columns, None where none is printed."""

    labels: tuple[str, ...]
    cells: tuple[Number | None, ...]


@dataclass(frozen=True, slots=True)
class Layout:
    """One table of a paper, or its running text, as the paper lays it out. columns: (metric, unit)."""

    labels: tuple[str, ...]
    columns: tuple[tuple[str, str], ...]
    lines: tuple[PrintedLine, ...]


def lay_out(numbers: Sequence[Number]) -> Layout:
    """Arrange the flat numbers of one table: a line per label, a column per metric."""
    labels, lines = _choose_labels(numbers), dict[tuple[str, ...], dict[tuple[str, str], Number]]()
    columns = tuple(dict.fromkeys((number["metric"], number["unit"]) for number in numbers))
    for number in numbers:
        key = tuple(number[name] for name in labels)
        lines.setdefault(key, {})[number["metric"], number["unit"]] = number
    body = (PrintedLine(key, tuple(cells.get(column) for column in columns)) for key, cells in lines.items())
    return Layout(labels, columns, tuple(body))


def _choose_labels(numbers: Sequence[Number]) -> tuple[str, ...]:
    """Choose the names that distinguish rows: all that some row has, the printed label only if no other repeats it."""
    names = tuple(name for name in LABELS if any(number[name] for number in numbers))
    others = tuple(name for name in names if name != "row")
    repeated = all(number["row"] in {number[name] for name in others} for number in numbers)
    return others if repeated and others else names


def render_tables(rows: Sequence[PrintedNumber]) -> Iterator[str]:
    """Render each table as text: one line per label, one column per metric with value and printed delta."""
    for (paper, table), group in groupby(flatten_rows(rows), key=lambda number: (number["paper"], number["table"])):
        numbers = list(group)
        yield from (f"{paper}, {table}", "")
        yield from align_columns(
            _build_text_lines(numbers) if table == "Text" else _build_table_lines(lay_out(numbers))
        )
        yield ""


def _build_table_lines(layout: Layout) -> Iterator[list[str]]:
    yield [*layout.labels, *(f"{metric} ({unit})" for metric, unit in layout.columns)]
    for line in layout.lines:
        yield [*line.labels, *map(_render_cell, line.cells)]


def _build_text_lines(numbers: Sequence[Number]) -> Iterator[list[str]]:
    yield ["place", "model", "condition", "group", "metric", "printed", "unit"]
    for number in numbers:
        yield [number[name] for name in ("row", "model", "condition", "group", "metric", "printed", "unit")]


def _render_cell(number: Number | None) -> str:
    if number is None or not number["printed_delta"]:
        return number["printed"] if number else ""
    return f"{number['printed']} {number['printed_delta']}{'' if number['delta_adds_up'] else MARK}"


def align_columns(lines: Iterable[list[str]]) -> Iterator[str]:
    """Align columns left, drop empty ones, and draw a rule under the heading."""
    columns = [column for column in zip(*lines, strict=True) if any(column[1:])]
    widths = [max(map(len, column)) for column in columns]
    for number, line in enumerate(zip(*columns, strict=True)):
        yield "  ".join(text.ljust(width) for text, width in zip(line, widths, strict=True)).rstrip()
        if number == 0:
            yield "  ".join("-" * width for width in widths)
