from __future__ import annotations

import argparse
import uuid
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand

from benchapp.exports.run_log_export import write_run_logs
from benchapp.management.lookups import end_on, find_run


class Command(BaseCommand):
    help = "Writes one run as run logs, one for each episode: an open format that other programs can read."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("run", type=uuid.UUID, help="run id, from its address")
        parser.add_argument("folder", type=Path, help="new or empty folder")

    def handle(self, *args: Any, **options: Any) -> None:
        with end_on(OSError):
            written, not_run = write_run_logs(find_run(options["run"]), options["folder"])
        self.stdout.write(f"{written:,} trials in {options['folder']}")
        if not_run:
            self.stdout.write(f"{not_run:,} planned trials have no counted attempt and are left out")
