"""Read a release's skills, and its oracle logs, without importing them."""

from __future__ import annotations

import json
from argparse import ArgumentParser
from collections.abc import Iterator
from dataclasses import asdict
from pathlib import Path

from django.core.management.base import BaseCommand

from benchapp.management.lookups import end_on
from benchapp.papers.loading import read_published_rows
from benchapp.papers.published_rows import Cells
from benchapp.papers.released import examined_tables
from benchapp.papers.released.examined_tables import ExaminedTable
from benchapp.papers.released.examined_tally import Tally, compare_with_paper, examine
from benchapp.papers.released.oracle_logs import read_logs
from benchapp.papers.released.release import PAPER, NoRelease, Release, group_libraries, read_release

SHOWN_PROBLEMS = 200


class Command(BaseCommand):
    help = (
        "Compares the skills of a SkillLearnBench release by method: patterns, lint, diagnostics, overlap with human skills, "
        "and the paper's numbers. Writes nothing."
    )
    requires_system_checks: list[str] = []  # needs neither a database nor a broker

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "folder", type=Path, metavar="FOLDER", help="folder that contains skills/<config>/<task>/<skill>/"
        )
        parser.add_argument("--by-model", action="store_true", help="one line or column per method and model")
        parser.add_argument("--logs", action="store_true", help="read the oracle logs in eval_keypoints/, too")
        parser.add_argument(
            "--json", dest="as_json", action="store_true", help="print one JSON object with tables and problems"
        )

    def handle(self, *args: object, folder: Path, by_model: bool, logs: bool, as_json: bool, **options: object) -> None:
        with end_on(NoRelease):
            release = read_release(folder)
        made = list(_build_tables(release, by_model=by_model, logs=logs))
        problems = list(release.problems)
        if as_json:
            found = {"tables": [asdict(table) for table in made], "problems": [each.as_json() for each in problems]}
            self.stdout.write(json.dumps(found, ensure_ascii=False, indent=1))
            return
        for table in made:
            self.stdout.write("\n".join([*examined_tables.render_table(table), "", ""]))
        self.stdout.write(f"File problems: {len(problems):,}")
        for each in problems[:SHOWN_PROBLEMS]:
            place = f", {each.place}" if each.place else ""
            self.stdout.write(f"  {each.path}{place}: expected {each.expected}; {each.message}")
        if len(problems) > SHOWN_PROBLEMS:
            self.stdout.write(f"  ... and {len(problems) - SHOWN_PROBLEMS:,} more")


def _build_tables(release: Release, *, by_model: bool, logs: bool) -> Iterator[ExaminedTable]:
    # Go task by task: the human skills for the comparison are read once.
    in_turn = sorted(release.libraries, key=lambda library: library.task)
    examined = {library.name: examine(library, release) for library in in_turn}

    def tallies(by_model: bool) -> list[Tally]:
        groups = group_libraries(release.libraries, by_model=by_model)
        return [Tally(name, [examined[library.name] for library in libraries]) for name, libraries in groups]

    shown, cells = tallies(by_model), Cells(row for row in read_published_rows(PAPER))
    if shown:
        yield examined_tables.tabulate_coverage(shown)
        yield examined_tables.tabulate_patterns(shown)
        yield examined_tables.tabulate_beside(compare_with_paper(tallies(by_model=False), cells))
        yield examined_tables.tabulate_lint(shown)
        yield examined_tables.tabulate_diagnostics(shown)
        yield examined_tables.tabulate_leaks(shown)
        yield examined_tables.tabulate_leak_places(shown)
        yield examined_tables.tabulate_odd_skills(shown)
    if logs:
        yield examined_tables.tabulate_logs(list(read_logs(release)), cells)
