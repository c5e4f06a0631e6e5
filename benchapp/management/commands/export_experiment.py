from __future__ import annotations

import argparse
import uuid
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from benchapp.archive import ENDINGS, ArchiveError
from benchapp.archive.archive_export import write_archive
from benchapp.models import Experiment


class Command(BaseCommand):
    help = (
        "Writes one experiment with all its evidence into one file, which `manage.py import_runs` takes in elsewhere to"
        " an equal record digest. Reviews and comments are no part of it."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("experiment", type=uuid.UUID, help="its id, as in its address")
        parser.add_argument(
            "file", type=Path, help="a name ending in .tar.zst, or .tar.gz; it appears when it is whole"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        experiment = Experiment.objects.standing().filter(public_id=options["experiment"]).first()
        if experiment is None:
            raise CommandError(f"no experiment {options['experiment']}")
        target: Path = options["file"]
        if not target.name.endswith(ENDINGS):
            raise CommandError(f"{target}: expected a name ending in {', '.join(ENDINGS)}")
        if not target.parent.is_dir():
            raise CommandError(f"{target}: there is no folder {target.parent}")
        try:
            written = write_archive(experiment, target)
        except ArchiveError as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"record digest  {written.record_digest}")
        self.stdout.write(f"file SHA-256   {written.sha256}")
        self.stdout.write(f"{target}: {written.runs:,} runs, {written.contents:,} contents, {written.bytes:,} bytes")
