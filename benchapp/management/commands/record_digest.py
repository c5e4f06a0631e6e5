from __future__ import annotations

import argparse
import uuid
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from benchapp.models import Experiment
from benchapp.record.record_digest import record_digest


class Command(BaseCommand):
    help = "Prints the digest of an experiment's whole record: equal wherever the same record lies."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("experiment", type=uuid.UUID, help="its id, as in its address")

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            experiment = Experiment.objects.get(public_id=options["experiment"])
        except Experiment.DoesNotExist:
            raise CommandError(f"no experiment {options['experiment']}") from None
        self.stdout.write(record_digest(experiment))
