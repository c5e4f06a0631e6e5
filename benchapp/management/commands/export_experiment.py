from __future__ import annotations

import argparse
import uuid
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from benchapp.archive import ENDINGS, ArchiveError
from benchapp.archive.archive_export import write_archive
from benchapp.management.lookups import end_on, find_experiment
from runner.base.var_folder import MANAGE


class Command(BaseCommand):
    help = (
        f"Archives one experiment with all its evidence in one file. `{MANAGE} import_runs` reads it elsewhere, with "
        "the same record digest. Leaves out reviews and comments."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("experiment", type=uuid.UUID, help="experiment id, from its address")
        parser.add_argument("file", type=Path, help="a name ending in .tar.zst or .tar.gz; written when it is complete")

    def handle(self, *args: Any, **options: Any) -> None:
        experiment = find_experiment(options["experiment"])
        target: Path = options["file"]
        if not target.name.endswith(ENDINGS):
            raise CommandError(f"{target}: expected a name ending in {', '.join(ENDINGS)}")
        if not target.parent.is_dir():
            raise CommandError(f"{target}: there is no folder {target.parent}")
        with end_on(ArchiveError):
            written = write_archive(experiment, target)
        self.stdout.write(f"record digest  {written.record_digest}")
        self.stdout.write(f"file SHA-256   {written.sha256}")
        self.stdout.write(f"{target}: {written.runs:,} runs, {written.contents:,} contents, {written.bytes:,} bytes")
