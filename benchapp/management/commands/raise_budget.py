from __future__ import annotations

import uuid
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp.experiments.work import advance
from benchapp.experiments.work.budgets import raise_budget
from benchapp.models import Run
from runner.base.errors import RunnerError


class Command(BaseCommand):
    help = "Raises what a run may spend. Episodes that stood still for it go on where they stand."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", type=uuid.UUID, help="the run's id, as its page shows it")
        parser.add_argument("--usd", type=float, help="the new sum in US dollars, what is spent included")
        parser.add_argument("--tokens", type=int, help="the new sum of tokens, what is spent included")
        parser.add_argument("--reason", default="", help="kept with the act")

    def handle(self, *args: Any, **options: Any) -> None:
        run = Run.objects.standing().filter(public_id=options["run"]).first()
        if run is None:
            raise CommandError(f"there is no run {options['run']}")
        try:
            episodes = raise_budget(run, usd=options["usd"], tokens=options["tokens"], reason=options["reason"])
        except RunnerError as error:
            raise CommandError(str(error)) from error
        for episode in episodes:
            advance.hint(str(episode.public_id))
        self.stdout.write(f"raised; {len(episodes)} episodes go on")
