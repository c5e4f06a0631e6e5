from __future__ import annotations

import uuid
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp.experiments.call_recordings import export_recording
from benchapp.management.lookups import name_recording
from benchapp.models import Run
from runner.base.errors import RunnerError
from runner.models.recording import SUFFIX


class Command(BaseCommand):
    help = "Records every model call of a finished run in a file. Use it to replay the run offline."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", type=uuid.UUID, help="run id, from its page")
        parser.add_argument("file", help=f"a path, or a bare name in the recordings folder ({SUFFIX} is added)")

    def handle(self, *args: Any, **options: Any) -> None:
        run = Run.objects.standing().filter(public_id=options["run"]).select_related("experiment").first()
        if run is None:
            raise CommandError(f"there is no run {options['run']}")
        path = name_recording(options["file"])
        try:
            written = export_recording(run, path)
        except (RunnerError, OSError) as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{path}: {written.calls:,} calls, {written.left_out:,} left out")
        name = f"recorded/{path.name.removesuffix(SUFFIX)}"
        self.stdout.write(
            f"To replay it, launch the experiment file again with agent_model and author_model {name},"
            f" conditions [{run.condition}], replicates 1 and seed {run.seed}."
        )
