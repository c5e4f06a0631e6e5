from __future__ import annotations

import argparse
import shlex
from pathlib import Path
from time import monotonic
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from benchapp.models import Experiment
from inspector.publishing.site import MOST_TRIALS, choose_trials, publish
from inspector.publishing.site_files import PublishingError


class Command(BaseCommand):
    next_line = 0.0  # of progress, by the clock
    help = (
        "Writes the pages of one experiment as a static site, which any file host serves. Leaves out forms, search, "
        "reviews, comments and the names of people."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("experiment", type=UUID, help="experiment id, from its address")
        parser.add_argument("folder", type=Path, help="where the site goes; it appears when it is complete")
        parser.add_argument(
            "--trials",
            nargs="+",
            default=["all"],
            metavar="all|failed|none|ID",
            help=f"which trials get a page; of all or failed at most {MOST_TRIALS}, failed ones first (default: all)",
        )
        parser.add_argument("--replace", action="store_true", help="writes a published site in this folder again")

    def handle(
        self, *args: object, experiment: UUID, folder: Path, trials: list[str], replace: bool, **options: object
    ) -> None:
        found = Experiment.objects.not_deleted().filter(public_id=experiment).first()
        if found is None:
            raise CommandError(f"there is no experiment {experiment}")
        try:
            written = publish(
                found, folder.absolute(), choose_trials(found, trials), replace=replace, progress=self._show_progress
            )
        except PublishingError as error:
            raise CommandError(str(error)) from None
        own, total = written.trials
        self.stdout.write(f"site digest       {written.site_digest}")
        self.stdout.write(f"manifest SHA-256  {written.manifest_sha256}")
        left_out = f"; {total - own:,} left out, --trials names them" if own < total else ""
        self.stdout.write(f"trials            {own:,} of {total:,} with a page{left_out}")
        self.stdout.write(f"{folder}: {written.files:,} files, {written.bytes:,} bytes")
        self.stdout.write(f"\nLook at it: python3 -m http.server --directory {shlex.quote(str(folder))}")

    def _show_progress(self, drawn: int, known: int) -> None:
        """One line that is written over on a terminal, elsewhere a line every five seconds."""
        is_terminal, now = self.stderr.isatty(), monotonic()
        if now < self.next_line and drawn < known:
            return
        self.next_line = now + (0.2 if is_terminal else 5)
        line = f"{drawn:,} of {known:,} pages drawn"
        self.stderr.write(f"\r{line}" if is_terminal else line, ending="" if is_terminal and drawn < known else "\n")
