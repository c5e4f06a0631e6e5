from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import UUID

import orjson
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db.models import Q, QuerySet

from benchapp.judges.judge_passes import PassOutcome, judge_run
from benchapp.management.lookups import end_on, find_run, name_recording, parse_positive, parse_positive_int
from benchapp.models import Judging, JudgingTry, Run
from benchapp.record.slices import Budget
from runner.base.encoding import decode
from runner.base.errors import SetupError
from runner.base.types import ModelRequest
from runner.base.var_folder import MANAGE
from runner.judging.metrics import SCORED, Metric
from runner.models import Model, make_model
from runner.models.litellm.client import PROVIDER, LiteLLM
from runner.models.recording import FORMAT, request_digest, write_recording
from runner.prompts.prompt_pack import find_judge_pack
from runner.prompts.roles import OWN

PURPOSE = "judge"


class Command(BaseCommand):
    help = (
        "Has a language model judge a finished run: libraries (level 1) and attempts (level 2). "
        "Skips what it has answered. Exit status: 0 asked about everything, 3 stopped early."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_judge_options(parser)
        parser.add_argument(
            "--repeat", type=parse_positive_int, default=1, metavar="N", help="ask again, as the judge's pass N"
        )
        parser.add_argument(
            "--prompts",
            metavar="NAME",
            help=f"paper (SkillLearnBench's figures) or a pack of your own ({MANAGE} read_prompts); what it does not "
            "ask, we do",
        )
        parser.add_argument("--record", metavar="FILE", help="write this pass to a file for recorded/FILE")

    def handle(self, *args: object, repeat: int, record: str | None, prompts: str | None, **options: Any) -> None:
        run, model, metrics, budget = read_judge_options(**options)
        with end_on(SetupError, OSError):
            pack = None if prompts in (None, OWN) else find_judge_pack(prompts or "")
            outcome = judge_run(run, model, metrics, repeat=repeat, budget=budget, pack=pack)
            self.stdout.write(render_outcome(model, outcome))
            if record:
                path = name_recording(record)
                self.stdout.write(f"{path}: {record_pass(outcome.judging, path):,} calls")
        if outcome.stopped:
            raise CommandError(f"stopped: {outcome.stopped}", returncode=3)


def add_judge_options(parser: CommandParser) -> None:
    parser.add_argument("run", type=UUID, help="run id, from its page")
    parser.add_argument("--model", required=True, help="a preset or a model: litellm/openai/gpt-5-mini, recorded/FILE")
    parser.add_argument(
        "--metrics", nargs="+", metavar="METRIC", help=f"only these: {', '.join(SCORED)} (default: all)"
    )
    parser.add_argument("--key-variable", metavar="NAME", help="environment variable with the litellm key")
    parser.add_argument("--api-base", metavar="URL", help="another server with the same API")
    parser.add_argument("--limit", type=parse_positive_int, metavar="N", help="stop after N calls")
    parser.add_argument("--max-usd", type=parse_positive, metavar="USD", help="stop after USD dollars")


def read_judge_options(
    *,
    run: UUID,
    model: str,
    metrics: list[str] | None,
    key_variable: str | None,
    api_base: str | None,
    limit: int | None,
    max_usd: float | None,
    **options: object,
) -> tuple[Run, Model, list[Metric], Budget]:
    """Return the options of `add_judge_options` in the judge's types."""
    found = find_run(run)
    with end_on(SetupError):
        if key_variable or api_base:
            name = model if model.startswith(f"{PROVIDER}/") else f"{PROVIDER}/{model}"
            judge: Model = LiteLLM(name, key_variable=key_variable, api_base=api_base)
        else:
            judge = make_model(model)
    if unknown := sorted(set(metrics or ()) - set(SCORED)):
        raise CommandError(f"--metrics: {', '.join(unknown)} unknown; known: {', '.join(SCORED)}")
    return found, judge, [metric for metric in SCORED if not metrics or metric in metrics], Budget(limit, max_usd)


def render_outcome(model: Model, outcome: PassOutcome) -> str:
    units = ", ".join(f"{count} {status}" for status, count in sorted(outcome.units.items())) or "nothing to judge"
    budget = outcome.budget
    unpriced = f", {budget.unpriced} calls without a known cost" if budget.unpriced else ""
    scripted = " (scripted: its scores say nothing)" if model.scripted else ""
    repeat = outcome.judging.repeat
    return (
        f"{model.name}{scripted}, repeat {repeat}: {units}; {budget.used_calls} calls, ${budget.used_usd:.4f}{unpriced}"
    )


def record_pass(judging: Judging, path: Path) -> int:
    """Write every answered call of the pass, and of the references it took over. Return how many. Memory: one call."""
    calls = _tries(judging).count()
    head = {
        "format": FORMAT,
        "run": str(judging.run.public_id),
        "setup_digest": judging.run.setup_digest,
        "models": [judging.model],
        "price_table": ", ".join(sorted(set(_tries(judging).values_list("price_table", flat=True)) - {""})),
        "calls": calls,
        "left_out": JudgingTry.objects.filter(unit__judging=judging, reply=None).count(),
    }
    write_recording(path, head, _lines(judging))
    return calls


def _tries(judging: Judging) -> QuerySet[JudgingTry]:
    sources = judging.units.exclude(source=None).values("source")
    return JudgingTry.objects.filter(Q(unit__judging=judging) | Q(unit__in=sources)).exclude(reply=None)


def _lines(judging: Judging) -> Iterator[dict[str, object]]:
    rows = _tries(judging).select_related("request", "reply", "unit").order_by("unit_id", "number")
    for row in rows.iterator(chunk_size=8):
        assert row.reply is not None, "excluded above"
        request = orjson.loads(row.request.content())
        yield {
            "purpose": PURPOSE,
            "place": f"{row.unit.key}/{row.number}",
            "model": judging.model,
            "digest": request_digest(decode(ModelRequest, request)),
            "request": request,
            "reply": orjson.loads(row.reply.content()),
        }
