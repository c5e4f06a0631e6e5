from __future__ import annotations

from argparse import ArgumentParser
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from benchapp.archive.archive_export import write_archive
from benchapp.experiments.example_experiment import EXAMPLE, Unfinished, run_example
from benchapp.experiments.launch import experiment_id
from benchapp.imports.shipped_example import FOLDER, NAMES
from benchapp.management.lookups import end_on
from benchapp.models import Experiment
from benchapp.record.log_context import errors_only
from runner.base.var_folder import MANAGE


class Command(BaseCommand):
    help = (
        "Runs the example experiment and its probes with the scripted model, and writes them as the archives that"
        f" `{MANAGE} demo` takes in. Use a record of its own: SKILLGLASS_VAR=/tmp/example."
    )

    def add_arguments(self, parser: ArgumentParser) -> None:
        parser.add_argument("folder", type=Path, nargs="?", default=FOLDER, help="default: examples/finished/")
        parser.add_argument("--workers", type=int, default=2, help="episodes at a time (2)")

    def handle(self, *args: Any, folder: Path, workers: int, **options: Any) -> None:
        found = Experiment.objects.filter(public_id=experiment_id(str(EXAMPLE["key"]))).first()
        if found is not None and not found.is_open:
            raise CommandError("the example is here already; use a record of its own: SKILLGLASS_VAR=/tmp/example")
        folder.mkdir(parents=True, exist_ok=True)
        with end_on(Unfinished), errors_only("benchapp"):  # no broker is needed here, so hints would fail
            made = run_example(workers=workers)
        for experiment, name in zip(made, NAMES, strict=True):
            experiment.refresh_from_db()
            written = write_archive(experiment, folder / name)
            self.stdout.write(f"{folder / name}: {written.runs} runs, {written.bytes:,} bytes")
