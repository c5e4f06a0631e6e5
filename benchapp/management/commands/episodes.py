from __future__ import annotations

import uuid
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp import operating
from benchapp.models import Episode
from runner.errors import RunnerError


class Command(BaseCommand):
    help = "Lists open and blocked episodes; lets a blocked one go on, or leaves out the trial it stands at."

    def add_arguments(self, parser: CommandParser) -> None:
        act = parser.add_mutually_exclusive_group()
        act.add_argument("--retry", type=uuid.UUID, metavar="ID", help="go on where it stands")
        act.add_argument(
            "--skip", type=uuid.UUID, metavar="ID", help="leave out the trial it stands at; needs --reason"
        )
        parser.add_argument("--reason", default="", help="kept with the act")

    def handle(self, *args: Any, **options: Any) -> None:
        if not (options["retry"] or options["skip"]):
            return self._list()
        try:
            if options["retry"]:
                operating.retry(self._episode(options["retry"]), reason=options["reason"])
                self.stdout.write("goes on")
            else:
                slot = operating.skip(self._episode(options["skip"]), reason=options["reason"])
                self.stdout.write(f"left out {slot}, goes on")
        except RunnerError as error:
            raise CommandError(str(error)) from error

    def _list(self) -> None:
        episodes = Episode.objects.own().exclude(status__in=[Episode.Status.DONE, Episode.Status.CANCELLED])
        for episode in episodes.select_related("run__experiment"):
            held = f", held by {episode.lease_owner}" if episode.lease_owner else ""
            place = f"{episode.run.experiment.name} / {episode.run.label} / {episode.key}"
            self.stdout.write(f"{episode.public_id}  {episode.status}{held}  {place}")
            if episode.blocked_reason:
                self.stdout.write("    " + episode.blocked_reason.splitlines()[0])

    def _episode(self, public_id: uuid.UUID) -> Episode:
        found = Episode.objects.own().select_related("run__experiment", "environment").filter(public_id=public_id)
        if episode := found.first():
            return episode
        raise CommandError(f"there is no episode {public_id} that was launched here")
