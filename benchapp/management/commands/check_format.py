"""Try a format that a package brings, on samples of its tool's files."""

from __future__ import annotations

import importlib
import sys
from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from benchapp.imports.format_check import check_format
from benchapp.imports.formats import load_formats


class Command(BaseCommand):
    help = (
        "Tries a format on samples, then on broken copies of them, and prints what is wrong with it. Nothing is "
        "imported. Exit status: 0 nothing wrong, 1 faults."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("format", metavar="FORMAT", help="a format's name, or the module that is one")
        parser.add_argument("samples", nargs="+", metavar="SAMPLE", help="a folder or file that the tool wrote")

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["format"]
        module = load_formats()[0].get(name)
        if module is None:
            sys.path.insert(0, "")  # a module in the current folder
            try:
                module = importlib.import_module(name)
            except ImportError as error:
                raise CommandError(f"{name}: neither a format nor a module that can be imported ({error})") from error
        samples = [Path(sample) for sample in options["samples"]]
        if missing := next((sample for sample in samples if not sample.exists()), None):
            raise CommandError(f"{missing}: there is nothing")
        report = check_format(module, samples)
        for kind, count in report.found.items():
            self.stdout.write(f"{count:>8,}  {kind}")
        for (condition, model), outcomes in report.runs.items():
            counts = ", ".join(f"{count:,} {outcome}" for outcome, count in outcomes.items())
            self.stdout.write(f"          {condition}, model {model}: {counts}")
        self.stdout.write(f"{report.broken:>8,}  broken copies tried")
        for line in dict.fromkeys(map(str, report.problems)):
            self.stdout.write(f"reported  {line}")
        for fault in report.faults:
            self.stdout.write(f"FAULT     {fault}")
        if report.faults:
            sys.exit(1)
        self.stdout.write("Nothing is wrong with the format.")
