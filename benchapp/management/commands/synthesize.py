from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from benchapp.synthesis.campaign import AlreadyThere, Size, write_campaign
from benchapp.synthesis.monster import BYTES, EVENTS, write_monster


class Command(BaseCommand):
    help = "Makes synthetic records to measure on: a campaign as rows, or one enormous trial as files to import."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        kinds = parser.add_subparsers(dest="kind", required=True)
        campaign = kinds.add_parser("campaign", help="rows: runs over models and conditions")
        campaign.add_argument("--trials", type=int, default=Size().trials)
        campaign.add_argument("--steps", type=int, default=Size().steps)
        campaign.add_argument("--decisions", type=int, default=Size().decisions)
        campaign.add_argument("--seed", type=int, default=1)
        monster = kinds.add_parser("monster", help="files: a Harbor job with one enormous trajectory")
        monster.add_argument("folder", type=Path)
        monster.add_argument("--events", type=int, default=EVENTS)
        monster.add_argument("--bytes", type=int, default=BYTES)
        monster.add_argument("--seed", type=int, default=1)

    def handle(self, *args: Any, **options: Any) -> None:
        if options["kind"] == "monster":
            self._monster(options)
        else:
            self._campaign(options)

    def _monster(self, options: dict[str, Any]) -> None:
        try:
            job = write_monster(
                options["folder"], events=options["events"], size=options["bytes"], seed=options["seed"]
            )
        except FileExistsError as error:
            raise CommandError(f"{error.filename}: already there; name an empty folder") from None
        self.stdout.write(f"{job}: import it with `manage.py import_runs {job}`")

    def _campaign(self, options: dict[str, Any]) -> None:
        size = Size(options["trials"], options["steps"], options["decisions"])
        if size.trials < 1 or size.steps < 0 or size.decisions < 0:
            raise CommandError("--trials must be at least 1, --steps and --decisions at least 0")
        try:
            experiment = write_campaign(size, seed=options["seed"], progress=self._progress)
        except AlreadyThere as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"{experiment.name}: {experiment.get_absolute_url()}")

    def _progress(self, done: int) -> None:
        if self.stderr.isatty():
            self.stderr.write(f"\r{done:,} trials", ending="")
