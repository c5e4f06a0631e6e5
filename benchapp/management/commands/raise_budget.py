from __future__ import annotations

from uuid import UUID

from django.core.management.base import BaseCommand, CommandParser

from benchapp.experiments.work import advance
from benchapp.experiments.work.budgets import raise_budget
from benchapp.management.lookups import end_on, find_run
from runner.base.errors import RunnerError


class Command(BaseCommand):
    help = "Raises what a run may spend. Episodes that stood still for it go on where they stand."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", type=UUID, help="the run's id, as its page shows it")
        parser.add_argument("--usd", type=float, help="the new sum in US dollars, what is spent included")
        parser.add_argument("--tokens", type=int, help="the new sum of tokens, what is spent included")
        parser.add_argument("--reason", default="", help="kept with the act")

    def handle(
        self, *args: object, run: UUID, usd: float | None, tokens: int | None, reason: str, **options: object
    ) -> None:
        with end_on(RunnerError):
            episodes = raise_budget(find_run(run), usd=usd, tokens=tokens, reason=reason)
        for episode in episodes:
            advance.hint(str(episode.public_id))
        self.stdout.write(f"raised; {len(episodes)} episodes go on")
