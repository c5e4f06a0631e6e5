from __future__ import annotations

import argparse
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from benchapp.models import Experiment
from benchapp.record.record_digest import record_digest


class Command(BaseCommand):
    help = "Prints the digest of an experiment's record. The same record has the same digest everywhere."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("experiment", type=UUID, help="experiment id, from its address")

    def handle(self, *args: object, experiment: UUID, **options: object) -> None:
        found = Experiment.objects.filter(public_id=experiment).first()  # a deleted one too
        if found is None:
            raise CommandError(f"there is no experiment {experiment}")
        self.stdout.write(record_digest(found))
