from __future__ import annotations

import argparse
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from benchapp.management.lookups import end_on, find_experiment
from benchapp.models.experiments import StillReviewed, StillRunning
from runner.base.var_folder import MANAGE


class Command(BaseCommand):
    help = f"Deletes an experiment. It disappears now; `{MANAGE} sweep` then removes it for good."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("experiment", type=UUID, help="experiment id, from its address")
        parser.add_argument("--confirm", required=True, metavar="NAME", help="repeat the experiment's name")
        parser.add_argument("--reason", default="")

    def handle(self, *args: object, experiment: UUID, confirm: str, reason: str, **options: object) -> None:
        found = find_experiment(experiment)
        if found.name != confirm:
            raise CommandError(f"the experiment is named {found.name!r}, not {confirm!r}: nothing was deleted")
        with end_on(StillReviewed, StillRunning):
            found.entomb(actor=None, reason=reason)
        self.stdout.write(f"{found.name}: deleted. Run `{MANAGE} sweep` to remove it for good.")
