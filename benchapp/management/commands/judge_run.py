from __future__ import annotations

import uuid
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp.judges.judge_budget import Budget
from benchapp.judges.judge_passes import PassOutcome, judge_run
from benchapp.judges.judge_recordings import write_recording
from benchapp.management.commands.judge import positive, positive_int
from benchapp.models import Run
from runner.base.errors import SetupError
from runner.judging.metrics import SCORED, Metric
from runner.models import Model, make_model
from runner.models.litellm.client import PROVIDER, LiteLLM
from runner.models.recorded import SUFFIX, recordings_folder


class Command(BaseCommand):
    help = (
        "Has a language model judge a run that has ended: its libraries (level 1) and its attempts (level 2). What it has "
        "answered is not asked again. Exit status: 0 when everything was asked, 3 when it stopped early."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_judge_options(parser)
        parser.add_argument(
            "--repeat", type=positive_int, default=1, metavar="N", help="asks anew, as the judge's N-th pass"
        )
        parser.add_argument(
            "--record", metavar="FILE", help="writes the pass to a file that recorded/FILE answers from"
        )

    def handle(self, *args: Any, **options: Any) -> None:
        run, model = run_of(options["run"]), model_of(options)
        metrics, budget = metrics_of(options["metrics"]), Budget(options["limit"], options["max_usd"])
        try:
            outcome = judge_run(run, model, metrics, repeat=options["repeat"], budget=budget)
            self.stdout.write(render_outcome(model, outcome))
            if options["record"]:
                path = recording_path(options["record"])
                self.stdout.write(f"{path}: {write_recording(outcome.judging, path):,} calls")
        except (SetupError, OSError) as error:
            raise CommandError(str(error)) from error
        if outcome.stopped:
            raise CommandError(f"stopped: {outcome.stopped}", returncode=3)


def add_judge_options(parser: CommandParser) -> None:
    parser.add_argument("run", type=uuid.UUID, help="the run's id, as its page shows it")
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
    parser.add_argument("--limit", type=positive_int, metavar="N", help="at most so many calls")
    parser.add_argument("--max-usd", type=positive, metavar="USD", help="at most so much money")


def run_of(public_id: uuid.UUID) -> Run:
    run = Run.objects.standing().select_related("experiment").filter(public_id=public_id).first()
    if run is None:
        raise CommandError(f"there is no run {public_id}")
    return run


def model_of(options: dict[str, Any]) -> Model:
    name: str = options["model"]
    own = {"key_variable": options["key_variable"], "api_base": options["api_base"]}
    try:
        if not any(own.values()):
            return make_model(name)
        return LiteLLM(name if name.startswith(f"{PROVIDER}/") else f"{PROVIDER}/{name}", **own)
    except SetupError as error:
        raise CommandError(str(error)) from error


def metrics_of(names: list[str] | None) -> list[Metric]:
    if unknown := sorted(set(names or ()) - set(SCORED)):
        raise CommandError(f"--metrics: {', '.join(unknown)} unknown; known: {', '.join(SCORED)}")
    return [metric for metric in SCORED if not names or metric in names]


def recording_path(text: str) -> Path:
    """A path, or a bare name for the folder of recordings."""
    path = Path(text if text.endswith(SUFFIX) else text + SUFFIX)
    if path.parent != Path():
        return path
    recordings_folder().mkdir(parents=True, exist_ok=True)
    return recordings_folder() / path


def render_outcome(model: Model, outcome: PassOutcome) -> str:
    units = ", ".join(f"{count} {status}" for status, count in sorted(outcome.units.items())) or "nothing to judge"
    budget = outcome.budget
    unpriced = f", {budget.unpriced} calls of unknown cost" if budget.unpriced else ""
    scripted = " (scripted: its scores say nothing)" if model.scripted else ""
    repeat = outcome.judging.repeat
    return (
        f"{model.name}{scripted}, repeat {repeat}: {units}; {budget.used_calls} calls, ${budget.used_usd:.4f}{unpriced}"
    )
