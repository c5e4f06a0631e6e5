from __future__ import annotations

import argparse
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from benchapp.management.lookups import end_on, find_queue, parse_positive, parse_positive_int
from benchapp.record.slices import Budget
from benchapp.review.suggestions.judging_queue import JudgingOutcome, judge_queue
from runner.base.errors import SetupError
from runner.models import MODELS, Model, make_model
from runner.models.litellm.client import LiteLLM


class Command(BaseCommand):
    help = (
        "Asks a language model to suggest codes for a review queue. Suggestions never count as labels. "
        "Skips items it has answered. Exit status: 0 asked about every item, 3 stopped early."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("queue", type=UUID, metavar="QUEUE_ID")
        parser.add_argument("--model", required=True, help="litellm's name for it, such as openai/gpt-4.1-mini")
        parser.add_argument(
            "--key-variable", metavar="NAME", help="environment variable with the key (never the key itself)"
        )
        parser.add_argument("--api-base", metavar="URL", help="another server with the same API")
        parser.add_argument("--limit", type=parse_positive_int, metavar="N", help="stop after N calls")
        parser.add_argument("--max-usd", type=parse_positive, metavar="USD", help="stop after USD dollars")
        parser.add_argument("--reviewed", action="store_true", help="only items with a review")

    def handle(
        self,
        *args: object,
        queue: UUID,
        model: str,
        limit: int | None,
        max_usd: float | None,
        reviewed: bool,
        key_variable: str | None,
        api_base: str | None,
        **options: object,
    ) -> None:
        found = find_queue(queue)
        with end_on(SetupError):
            judge = _make_judge(model, key_variable, api_base)
            outcome = judge_queue(found, judge, Budget(limit, max_usd), only_reviewed=reviewed)
        self.stdout.write(_render_outcome(judge, outcome))
        if outcome.stopped:
            raise CommandError(f"stopped: {outcome.stopped}", returncode=3)


def _make_judge(name: str, key_variable: str | None, api_base: str | None) -> Model:
    if name.partition("/")[0] in MODELS and not name.startswith("litellm/"):
        return make_model(name)
    if not name.startswith("litellm/"):
        name = f"litellm/{name}"
    return LiteLLM(name, key_variable=key_variable, api_base=api_base)


def _render_outcome(model: Model, outcome: JudgingOutcome) -> str:
    items = ", ".join(f"{count} {status}" for status, count in sorted(outcome.items.items())) or "no items to ask about"
    budget = outcome.budget
    unpriced = f", {budget.unpriced} calls without a known cost" if budget.unpriced else ""
    scripted = " (scripted: its answers say nothing about any language model)" if model.scripted else ""
    return f"{model.name}{scripted}: {items}; {budget.used_calls} calls, ${budget.used_usd:.4f}{unpriced}"
