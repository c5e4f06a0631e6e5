from __future__ import annotations

import uuid
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp.experiments.forks import fork, scored_places
from benchapp.models import Episode
from runner.base.errors import RunnerError
from runner.base.types import TrialSlot


class Command(BaseCommand):
    help = (
        "Reruns something scored in a run of its own: the episode's record up to --before is taken over, what follows is "
        "run again. The old run stays as it is. Without --before: lists the places."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("episode", type=uuid.UUID)
        parser.add_argument("--before", help="a trial as phase/task/sample, or the number of a place")
        parser.add_argument("--dice", choices=("new", "same"), default="new")
        parser.add_argument("--reason", default="", help="kept with the act; needed")

    def handle(self, *args: Any, **options: Any) -> None:
        found = Episode.objects.own().select_related("run__experiment__suite", "environment")
        episode = found.filter(public_id=options["episode"]).first()
        if episode is None:
            raise CommandError(f"there is no episode {options['episode']} that was launched here")
        if options["before"] is None:
            for sequence, told in scored_places(episode):
                self.stdout.write(f"{sequence:>6}  {told}")
            return
        try:
            run = fork(episode, before=_place(options["before"]), dice=options["dice"], reason=options["reason"])
        except RunnerError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(f"{run.public_id}  {run.experiment.name}")


def _place(text: str) -> TrialSlot | int:
    try:
        return int(text) if text.isdigit() else TrialSlot.read(text)
    except ValueError as error:
        raise CommandError(f"--before {error}, or a number") from error
