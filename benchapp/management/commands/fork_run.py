from __future__ import annotations

from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp.experiments.forks import Dice, fork, scored_places
from benchapp.management.lookups import end_on, find_own_episode
from runner.base.errors import RunnerError
from runner.base.types import TrialSlot


class Command(BaseCommand):
    help = (
        "Reruns part of an episode in a new run: copies its record up to --before and runs the rest again. "
        "The old run does not change. Without --before, lists where you can fork."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("episode", type=UUID)
        parser.add_argument("--before", help="fork before this trial: phase/task/sample, or its number in the list")
        parser.add_argument("--dice", choices=("new", "same"), default="new")
        parser.add_argument("--reason", default="", help="required; recorded with the fork")

    def handle(
        self, *args: object, episode: UUID, before: str | None, dice: Dice, reason: str, **options: object
    ) -> None:
        found = find_own_episode(episode)
        if before is None:
            for sequence, outcome in scored_places(found):
                self.stdout.write(f"{sequence:>6}  {outcome}")
            return
        with end_on(RunnerError):
            run = fork(found, before=_parse_place(before), dice=dice, reason=reason)
        self.stdout.write(f"{run.public_id}  {run.experiment.name}")


def _parse_place(text: str) -> TrialSlot | int:
    try:
        return int(text) if text.isdigit() else TrialSlot.read(text)
    except ValueError as error:
        raise CommandError(f"--before {error} or a number") from error
