"""Bring finished runs into the record."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from benchapp.imports.batch import COUNTED, NOTHING_READ, ImportReport, import_paths
from benchapp.imports.formats import AUTO, format_names
from benchapp.imports.import_map import ImportMap, MapError, read_map
from benchapp.management.import_bar import ImportBar
from runner.base.text import plural

SHOWN_PROBLEMS = 200


class Command(BaseCommand):
    help = (
        "Imports finished runs. Safe to repeat; run it again to resume after an interruption. "
        "Exit status: 0 no problems, 3 problems reported and the rest imported, 1 nothing read."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument(
            "paths", nargs="+", metavar="PATH", help="a folder of jobs, trials, runs or a release, or one log file"
        )
        parser.add_argument("--format", choices=[AUTO, *format_names()], default=AUTO)
        parser.add_argument("--map", metavar="FILE.yaml", help="rules for what the files leave open")
        parser.add_argument("--jobs", type=int, default=1, metavar="N", help="read new trials with N processes (1)")
        parser.add_argument("--json", action="store_true", help="print one JSON object instead of a summary")

    def handle(self, *args: Any, **options: Any) -> None:
        if options["jobs"] < 1:
            raise CommandError(f"--jobs: expected a number from 1, found {options['jobs']}")
        try:
            mapping = read_map(Path(options["map"])) if options["map"] else ImportMap()
        except MapError as error:
            self._print(ImportReport(problems=error.problems), as_json=options["json"])
            sys.exit(NOTHING_READ)
        with ImportBar(shown=sys.stderr.isatty() and options["verbosity"] > 0) as bar:
            report = import_paths(
                options["paths"],
                format=options["format"],
                mapping=mapping,
                progress=bar.tell,
                waiting=self.stderr.write,
                processes=options["jobs"],
            )
        self._print(report, as_json=options["json"])
        if report.exit_status:
            sys.exit(report.exit_status)

    def _print(self, report: ImportReport, *, as_json: bool) -> None:
        if as_json:
            self.stdout.write(json.dumps(report.as_json(), ensure_ascii=False))
            return
        width = max(map(len, COUNTED))
        for name in COUNTED:
            self.stdout.write(f"{name.replace('_', ' '):<{width}}  {report.counts[name]:>10,}")
        if report.counts["redactions"]:
            self.stdout.write(f"{'redactions':<{width}}  {report.counts['redactions']:>10,}")
        if joined := report.counts["tasks_joined"]:
            tasks = "1 task has" if joined == 1 else f"{joined:,} tasks have"
            self.stdout.write(f"\n{tasks} the content of a task of a loaded suite, and count there: /suites/")
        problems = list(report.problems)
        if problems:
            count = plural(len(problems), "problem")
            self.stdout.write(f"\n{count}; imported everything else:")
        for problem in problems[:SHOWN_PROBLEMS]:
            self.stdout.write(f"  {problem}")
        if len(problems) > SHOWN_PROBLEMS:
            self.stdout.write(f"  ... and {len(problems) - SHOWN_PROBLEMS:,} more; the page below has all")
        if report.total:
            self.stdout.write(f"\nLook at what came in: /imports/?batch={report.batch}")
            self.stdout.write("Then compare its runs: /compare/")
