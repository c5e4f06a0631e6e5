"""Take in a suite of tasks from a folder."""

from __future__ import annotations

import json
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from benchapp.suite_files import SuiteFolder, read_folder, record_folder
from runner.errors import SetupError, SuiteError, SuiteProblems
from runner.suites import FORMATS
from runner.suites.findings import plain

NOTHING_LOADED = 1
SHOWN_PROBLEMS = 200


class Command(BaseCommand):
    help = (
        "Take in a suite from a folder: all of it is checked first, and every problem is told. Nothing is loaded while "
        "there is one. Every worker needs the folder at the same path. Exit status: 0 loaded, 1 nothing loaded."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("path", metavar="PATH", help="the folder of a suite, or of a release as it was downloaded")
        parser.add_argument(
            "--format", choices=list(FORMATS), help="how to read it; found by its shape where not given"
        )
        parser.add_argument("--key", help="the name to launch it by; the folder's where not given")
        parser.add_argument("--check", action="store_true", help="only check, record nothing")
        parser.add_argument("--json", action="store_true", help="print one JSON object instead of a summary")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            folder = read_folder(Path(options["path"]), options["format"], options["key"])
            if not options["check"]:
                record_folder(folder)
        except SetupError as error:
            self._refuse(error, as_json=options["json"])
            sys.exit(NOTHING_LOADED)
        if options["json"]:
            told = {**folder.as_json(), "recorded": not options["check"], "problems": []}
            self.stdout.write(json.dumps(told, ensure_ascii=False))
        else:
            self._tell(folder, checked=options["check"])

    def _tell(self, folder: SuiteFolder, *, checked: bool) -> None:
        told = folder.as_json()
        for name in ("key", "format", "path", "digest", "environments", "families", "tasks"):
            self.stdout.write(f"{name:<12}  {told[name]}")
        if folder.suite.notes:
            self.stdout.write("\nworth knowing:")
        for note in folder.suite.notes:
            self.stdout.write(f"  {note}")
        self.stdout.write("\nIt can be loaded." if checked else f"\nLoaded. Launch it as suite: {folder.suite.key}")

    def _refuse(self, error: SetupError, *, as_json: bool) -> None:
        problems = list(map(_as_json, _problems(error)))
        if as_json:
            self.stdout.write(json.dumps({"recorded": False, "problems": problems}, ensure_ascii=False))
            return
        for problem in problems[:SHOWN_PROBLEMS]:
            place = (
                f"{problem['path']}, {problem['place']}: expected {problem['expected']}; " if problem["path"] else ""
            )
            self.stderr.write(f"  {place}{problem['message']}")
        if len(problems) > SHOWN_PROBLEMS:
            self.stderr.write(f"  ... and {len(problems) - SHOWN_PROBLEMS:,} more; --json has them all")
        self.stderr.write(f"\nNothing was loaded; problems: {len(problems):,}.")


def _problems(error: SetupError) -> tuple[SetupError, ...]:
    return error.problems if isinstance(error, SuiteProblems) else (error,)


def _as_json(error: SetupError) -> dict[str, str]:
    parts = ("", "", "", str(error))
    if isinstance(error, SuiteError):
        parts = (error.path, error.place, error.expected, error.message)
    return dict(zip(("path", "place", "expected", "message"), map(plain, parts), strict=True))
