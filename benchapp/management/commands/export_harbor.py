from __future__ import annotations

import argparse
import uuid
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from benchapp.exports.harbor_export import write_harbor_job
from benchapp.models import Run


class Command(BaseCommand):
    help = "Writes one run as a Harbor job with ATIF trajectories. Open it with `harbor view` from a jobs folder."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("run", type=uuid.UUID, help="run id, from its address")
        parser.add_argument("folder", type=Path, help="new or empty folder; the job takes its name")

    def handle(self, *args: Any, **options: Any) -> None:
        run = Run.objects.standing().filter(public_id=options["run"]).select_related("experiment").first()
        if run is None:
            raise CommandError(f"there is no run {options['run']}")
        try:
            trials, trajectories, not_run = write_harbor_job(run, options["folder"])
        except OSError as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"{trials:,} trials with {trajectories:,} trajectories in {options['folder']}")
        if not_run:
            self.stdout.write(f"{not_run:,} planned trials have no counted attempt and are left out")
