from __future__ import annotations

import argparse
import uuid
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from benchapp.exports.harbor_export import write_harbor_job
from benchapp.management.lookups import end_on, find_run


class Command(BaseCommand):
    help = "Writes one run as a Harbor job with ATIF trajectories. Open it with `harbor view` from a jobs folder."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("run", type=uuid.UUID, help="run id, from its address")
        parser.add_argument("folder", type=Path, help="new or empty folder; the job takes its name")

    def handle(self, *args: Any, **options: Any) -> None:
        with end_on(OSError):
            trials, trajectories, not_run = write_harbor_job(find_run(options["run"]), options["folder"])
        self.stdout.write(f"{trials:,} trials with {trajectories:,} trajectories in {options['folder']}")
        if not_run:
            self.stdout.write(f"{not_run:,} planned trials have no counted attempt and are left out")
