"""Check skills in folders, for an editor or a CI job."""

from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError

from benchapp.analysis.diagnoses import linting
from benchapp.analysis.lineage.read_lines import find_read_lines, find_recorded_leaks

COULD_NOT_RUN = 2


class Command(BaseCommand):
    help = (
        "Checks skills in folders by the rules of the diagnostics. Writes nothing and needs no database. Exit status: 0 without "
        "findings of the level, 1 with some, 2 where it could not run."
    )
    requires_system_checks: list[str] = []  # needs neither a database nor a broker

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("paths", nargs="+", type=Path, metavar="PATH", help="folder of skills, or one skill")
        parser.add_argument("--format", choices=("text", "json", "sarif"), default="text", help="default: text")
        parser.add_argument(
            "--fail-on",
            choices=tuple(linting.LEVELS.values()),
            default="warning",
            help="the least level that makes the exit status 1 (default: warning)",
        )
        parser.add_argument(
            "--record", action="store_true", help="add what the record knows: how trials ended that read the same lines"
        )

    def handle(
        self, *args: object, paths: list[Path], format: str, fail_on: str, record: bool, **options: object
    ) -> None:
        try:
            folders = linting.lint_paths(paths)
            for linted in folders if record else ():
                for leak in find_recorded_leaks(linted.files):
                    linted.add(leak.rule, linting.LEVELS[leak.severity], leak.path, leak.line, leak.says)
                for lines in find_read_lines(linted.files):
                    linted.add(linting.READERS, "note", lines.path, lines.first, lines.says, lines.last)
            if format == "sarif":
                self.stdout.write(linting.render_sarif(folders, settings.VERSION))
            else:
                self.stdout.write({"text": linting.render_text, "json": linting.render_json}[format](folders))
        except linting.CannotLint as error:
            raise CommandError(str(error), returncode=COULD_NOT_RUN) from error
        except Exception as error:  # status 1 means findings, so that no failure may end with it
            raise CommandError(f"{type(error).__name__}: {error}", returncode=COULD_NOT_RUN) from error
        if linting.fails(linting.list_findings(folders), fail_on):
            raise SystemExit(1)
