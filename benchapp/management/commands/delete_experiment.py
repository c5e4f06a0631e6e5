from __future__ import annotations

import argparse
import uuid
from typing import Any

from django.core.management.base import BaseCommand, CommandError

from benchapp.models import Experiment
from benchapp.models.experiments import StillReviewed, StillRunning


class Command(BaseCommand):
    help = "Deletes an experiment: hides it now; `manage.py sweep` removes it for good."

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("experiment", type=uuid.UUID, help="its id, as in its address")
        parser.add_argument("--confirm", required=True, metavar="NAME", help="its name, to be sure it is the right one")
        parser.add_argument("--reason", default="")

    def handle(self, *args: Any, **options: Any) -> None:
        experiment = Experiment.objects.standing().filter(public_id=options["experiment"]).first()
        if experiment is None:
            raise CommandError(f"no experiment {options['experiment']}")
        if experiment.name != options["confirm"]:
            raise CommandError(f"its name is {experiment.name!r}, not {options['confirm']!r}: nothing was deleted")
        try:
            experiment.entomb(actor=None, reason=options["reason"])
        except (StillReviewed, StillRunning) as error:
            raise CommandError(str(error)) from None
        self.stdout.write(f"{experiment.name}: deleted; `manage.py sweep` removes it for good")
