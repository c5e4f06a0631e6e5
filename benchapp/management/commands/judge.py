from __future__ import annotations

import argparse
from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError

from benchapp.judges.judge_budget import Budget
from benchapp.management.commands.suggest import queue_of
from benchapp.review.suggestions.judging_queue import JudgingOutcome, judge_queue
from runner.base.errors import SetupError
from runner.models import MODELS, Model, make_model
from runner.models.litellm.client import LiteLLM


class Command(BaseCommand):
    help = (
        "Asks a language model to code the items of a review queue, as suggestions beside what people say. "
        "Items that it has answered are not asked again. Exit status: 0 when every item was asked, 3 when it stopped early."
    )

    def add_arguments(self, parser: argparse.ArgumentParser) -> None:
        parser.add_argument("queue", type=UUID, metavar="QUEUE_ID")
        parser.add_argument("--model", required=True, help="as litellm names it, e.g. openai/gpt-4.1-mini")
        parser.add_argument(
            "--key-variable", metavar="NAME", help="the environment variable that holds the key, never the key itself"
        )
        parser.add_argument("--api-base", metavar="URL", help="another server that speaks the provider's format")
        parser.add_argument("--limit", type=positive_int, metavar="N", help="at most so many calls in this run")
        parser.add_argument("--max-usd", type=positive, metavar="USD", help="at most so much money in this run")
        parser.add_argument("--reviewed", action="store_true", help="only items that somebody has reviewed")

    def handle(self, *args: Any, **options: Any) -> None:
        queue = queue_of(options["queue"])
        budget = Budget(options["limit"], options["max_usd"])
        try:
            model = _model(options)
            outcome = judge_queue(queue, model, budget, only_reviewed=options["reviewed"])
        except SetupError as error:
            raise CommandError(str(error)) from error
        self.stdout.write(_render_outcome(model, outcome))
        if outcome.stopped:
            raise CommandError(f"stopped: {outcome.stopped}", returncode=3)


def _model(options: dict[str, Any]) -> Model:
    name: str = options["model"]
    if name.partition("/")[0] in MODELS and not name.startswith("litellm/"):
        return make_model(name)
    if not name.startswith("litellm/"):
        name = f"litellm/{name}"
    return LiteLLM(name, key_variable=options["key_variable"], api_base=options["api_base"])


def _render_outcome(model: Model, outcome: JudgingOutcome) -> str:
    items = ", ".join(f"{count} {status}" for status, count in sorted(outcome.items.items())) or "no item asked"
    budget = outcome.budget
    unpriced = f", {budget.unpriced} calls of unknown cost" if budget.unpriced else ""
    scripted = " (scripted: its answers say nothing about any language model)" if model.scripted else ""
    return f"{model.name}{scripted}: {items}; {budget.used_calls} calls, ${budget.used_usd:.4f}{unpriced}"


def positive_int(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r}: expected a whole number above 0")
    return int(positive(text))


def positive(text: str) -> float:
    try:
        value = float(text)
    except ValueError:
        value = 0.0
    if not 0 < value < 1e9:
        raise argparse.ArgumentTypeError(f"{text!r}: expected a number above 0")
    return value
