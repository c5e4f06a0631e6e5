from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from benchapp.management.lookups import end_on
from benchapp.synthesis.campaign import AlreadyThere, Size, write_campaign
from benchapp.synthesis.monster import BYTES, EVENTS, write_monster
from runner.base.var_folder import MANAGE


class Command(BaseCommand):
    help = "Makes synthetic data for load tests: a campaign as rows, or one huge trial as files to import."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        kinds = parser.add_subparsers(dest="kind", required=True)
        campaign = kinds.add_parser("campaign", help="writes rows: runs over models and conditions")
        campaign.add_argument("--trials", type=int, default=Size().trials)
        campaign.add_argument("--steps", type=int, default=Size().steps)
        campaign.add_argument("--decisions", type=int, default=Size().decisions)
        campaign.add_argument("--seed", type=int, default=1)
        monster = kinds.add_parser("monster", help="writes files: a Harbor job with one huge trajectory")
        monster.add_argument("folder", type=Path)
        monster.add_argument("--events", type=int, default=EVENTS)
        monster.add_argument("--bytes", type=int, default=BYTES)
        monster.add_argument("--seed", type=int, default=1)

    def handle(self, *args: object, kind: str, seed: int, **options: Any) -> None:
        if kind == "monster":
            self._write_monster(options["folder"], events=options["events"], size=options["bytes"], seed=seed)
        else:
            self._write_campaign(Size(options["trials"], options["steps"], options["decisions"]), seed)

    def _write_monster(self, folder: Path, *, events: int, size: int, seed: int) -> None:
        try:
            job = write_monster(folder, events=events, size=size, seed=seed)
        except FileExistsError as error:
            raise CommandError(f"{error.filename}: already exists; name an empty folder") from None
        self.stdout.write(f"{job}: import it with `{MANAGE} import_runs {job}`")

    def _write_campaign(self, size: Size, seed: int) -> None:
        if size.trials < 1 or size.steps < 0 or size.decisions < 0:
            raise CommandError("--trials must be at least 1, --steps and --decisions at least 0")
        with end_on(AlreadyThere):
            experiment = write_campaign(size, seed=seed, progress=self._show_progress)
        self.stdout.write(f"{experiment.name}: {experiment.get_absolute_url()}")

    def _show_progress(self, done: int) -> None:
        if self.stderr.isatty():
            self.stderr.write(f"\r{done:,} trials", ending="")
