from __future__ import annotations

import argparse
import csv
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import asdict, fields

from django.core.management.base import BaseCommand, CommandError

from benchapp.exports.formats import escape_formula
from benchapp.management.lookups import end_on
from benchapp.papers.published_rows import (
    MARK,
    Erratum,
    PrintedNumber,
    PublishedDataError,
    flatten_rows,
    read_errata,
    read_published_rows,
    render_tables,
)


class Command(BaseCommand):
    help = "Prints the four papers' numbers with recomputed deltas, or lists their inconsistencies."
    requires_system_checks: list[str] = []  # needs neither a database nor a broker

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            "--paper", help="only this paper: skillevolbench, skillflow, skilllearnbench, skillgenbench"
        )
        parser.add_argument("--table", help='only this table, as printed: "Table 1" or 1, or Text')
        parser.add_argument("--check", action="store_true", help="list inconsistencies; always exits with 0")
        form = parser.add_mutually_exclusive_group()
        form.add_argument(
            "--json", dest="as_json", action="store_true", help="print a JSON list, one object per number or finding"
        )
        form.add_argument("--csv", dest="as_csv", action="store_true", help="print CSV, one line per number or finding")

    def handle(
        self,
        *args: object,
        paper: str | None,
        table: str | None,
        check: bool,
        as_json: bool,
        as_csv: bool,
        **options: object,
    ) -> None:
        with end_on(PublishedDataError):
            rows = [row for row in read_published_rows(paper) if _is_of(row.table, table)]
            found = read_errata(paper) if check else ()
        if not rows:
            known = ", ".join(dict.fromkeys(row.table for row in read_published_rows(paper)))
            raise CommandError(f"no table {table!r}; known: {known}")
        if check:
            chosen = [finding for finding in found if _is_of(finding.table, table)]
            columns, values = [field.name for field in fields(Erratum)], [asdict(finding) for finding in chosen]
        else:
            values = [dict(row) for row in flatten_rows(rows)]
            columns = list(values[0])
        if as_json:
            self.stdout.write(json.dumps(values, ensure_ascii=False, indent=1))
        elif as_csv:
            self._write_csv(columns, values)
        else:
            self.stdout.write("\n".join(_render_errata(chosen) if check else _render_numbers(rows, values)))

    def _write_csv(self, columns: list[str], values: list[dict[str, object]]) -> None:
        writer = csv.DictWriter(self.stdout, columns, lineterminator="\n")
        writer.writeheader()
        for row in values:
            writer.writerow(
                {name: escape_formula(value) if isinstance(value, str) else value for name, value in row.items()}
            )


def _is_of(table: str, wanted: str | None) -> bool:
    """Return whether this is the requested table; a bare number means the table of that number."""
    return wanted is None or table.casefold() in (wanted.casefold(), f"table {wanted}")


def _render_numbers(rows: list[PrintedNumber], numbers: list[dict[str, object]]) -> Iterable[str]:
    yield from render_tables(rows)
    yield f"{len(rows):,} printed numbers and blanks"
    wrong = sum(number["delta_adds_up"] is False for number in numbers)
    if wrong:
        yield f"{MARK} {wrong} printed deltas contradict their own columns. List them with --check."


def _render_errata(errata: list[Erratum]) -> Iterable[str]:
    for finding in errata:
        recomputed = f", recomputed {finding.recomputed}" if finding.recomputed else ""
        yield f"{finding.paper}, {finding.table}, {finding.place}: printed {finding.printed}{recomputed} [{finding.kind}]"  # noqa: E501
        yield f"    {finding.sentence}"
    counts = Counter((finding.paper, finding.kind) for finding in errata)
    yield from ("", f"{len(errata)} findings in the papers' numbers:")
    yield from (f"    {count:>3}  {paper}: {kind}" for (paper, kind), count in counts.items())
