from __future__ import annotations

import argparse
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from benchapp.analysis.diagnoses.diagnosis_queue import diagnose_episode, select_with_library
from benchapp.models import Episode


class Command(BaseCommand):
    help = (
        "Checks every state of every library: contract, writing quality, near-duplicates, and leaks from tasks, "
        "verifiers and reference skills. Skips states that are up to date."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("--run", type=UUID, metavar="RUN_ID", help="check only this run's libraries")
        parser.add_argument("--again", action="store_true", help="check states that are up to date, too")

    def handle(self, *args: object, run: UUID | None, again: bool, **options: object) -> None:
        episodes = select_with_library(Episode.objects.filter(run__experiment__deleted_at=None))
        if run:
            episodes = episodes.filter(run__public_id=run)
        episodes = episodes.select_related("run", "library", "family").order_by("pk")
        if run and not episodes.exists():
            raise CommandError(f"there is no run {run} with a library")
        worked_out = sum(diagnose_episode(episode, again=again) for episode in episodes.iterator(200))
        self.stdout.write(f"checked {worked_out} library states; the others were up to date")
