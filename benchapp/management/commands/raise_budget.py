from __future__ import annotations

from uuid import UUID

from django.core.management.base import BaseCommand, CommandParser

from benchapp.experiments.work import advance
from benchapp.experiments.work.budgets import raise_budget
from benchapp.management.lookups import end_on, find_run
from runner.base.errors import RunnerError


class Command(BaseCommand):
    help = "Raises a run's budget. Episodes that waited for it continue."

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", type=UUID, help="run id, from its page")
        parser.add_argument("--usd", type=float, help="new total in US dollars, including what is spent")
        parser.add_argument("--tokens", type=int, help="new total of tokens, including what is spent")
        parser.add_argument("--reason", default="", help="recorded with the act")

    def handle(
        self, *args: object, run: UUID, usd: float | None, tokens: int | None, reason: str, **options: object
    ) -> None:
        with end_on(RunnerError):
            episodes = raise_budget(find_run(run), usd=usd, tokens=tokens, reason=reason)
        for episode in episodes:
            advance.hint(episode)
        self.stdout.write(f"raised; {len(episodes)} episodes continue")
