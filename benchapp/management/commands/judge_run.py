from __future__ import annotations

from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp.judges.judge_budget import Budget
from benchapp.judges.judge_passes import PassOutcome, judge_run
from benchapp.judges.judge_recordings import write_recording
from benchapp.management.lookups import end_on, find_run, name_recording, parse_positive, parse_positive_int
from runner.base.errors import SetupError
from runner.judging.metrics import SCORED, Metric
from runner.models import Model, make_model
from runner.models.litellm.client import PROVIDER, LiteLLM


class Command(BaseCommand):
    help = (
        "Has a language model judge a run that has ended: its libraries (level 1) and its attempts (level 2). What it has "
        "answered is not asked again. Exit status: 0 when everything was asked, 3 when it stopped early."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_judge_options(parser)
        parser.add_argument(
            "--repeat", type=parse_positive_int, default=1, metavar="N", help="asks anew, as the judge's N-th pass"
        )
        parser.add_argument(
            "--record", metavar="FILE", help="writes the pass to a file that recorded/FILE answers from"
        )

    def handle(
        self,
        *args: object,
        run: UUID,
        model: str,
        metrics: list[str] | None,
        limit: int | None,
        max_usd: float | None,
        repeat: int,
        record: str | None,
        key_variable: str | None,
        api_base: str | None,
        **options: object,
    ) -> None:
        found, judge, budget = find_run(run), make_judge(model, key_variable, api_base), Budget(limit, max_usd)
        with end_on(SetupError, OSError):
            outcome = judge_run(found, judge, choose_metrics(metrics), repeat=repeat, budget=budget)
            self.stdout.write(render_outcome(judge, outcome))
            if record:
                path = name_recording(record)
                self.stdout.write(f"{path}: {write_recording(outcome.judging, path):,} calls")
        if outcome.stopped:
            raise CommandError(f"stopped: {outcome.stopped}", returncode=3)


def add_judge_options(parser: CommandParser) -> None:
    parser.add_argument("run", type=UUID, help="the run's id, as its page shows it")
    parser.add_argument(
        "--model",
        required=True,
        help="a preset, or a model with its provider: litellm/openai/gpt-5-mini, recorded/FILE",
    )
    parser.add_argument(
        "--metrics", nargs="+", metavar="METRIC", help=f"only these: {', '.join(SCORED)} (default: all of them)"
    )
    parser.add_argument("--key-variable", metavar="NAME", help="the environment variable that holds a litellm key")
    parser.add_argument("--api-base", metavar="URL", help="another server that speaks the provider's format")
    parser.add_argument("--limit", type=parse_positive_int, metavar="N", help="at most so many calls")
    parser.add_argument("--max-usd", type=parse_positive, metavar="USD", help="at most so much money")


def make_judge(name: str, key_variable: str | None, api_base: str | None) -> Model:
    with end_on(SetupError):
        if not key_variable and not api_base:
            return make_model(name)
        full = name if name.startswith(f"{PROVIDER}/") else f"{PROVIDER}/{name}"
        return LiteLLM(full, key_variable=key_variable, api_base=api_base)


def choose_metrics(names: list[str] | None) -> list[Metric]:
    if unknown := sorted(set(names or ()) - set(SCORED)):
        raise CommandError(f"--metrics: {', '.join(unknown)} unknown; known: {', '.join(SCORED)}")
    return [metric for metric in SCORED if not names or metric in names]


def render_outcome(model: Model, outcome: PassOutcome) -> str:
    units = ", ".join(f"{count} {status}" for status, count in sorted(outcome.units.items())) or "nothing to judge"
    budget = outcome.budget
    unpriced = f", {budget.unpriced} calls of unknown cost" if budget.unpriced else ""
    scripted = " (scripted: its scores say nothing)" if model.scripted else ""
    repeat = outcome.judging.repeat
    return (
        f"{model.name}{scripted}, repeat {repeat}: {units}; {budget.used_calls} calls, ${budget.used_usd:.4f}{unpriced}"
    )
