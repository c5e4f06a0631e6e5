from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp.judges.judge_passes import PassOutcome, judge_run
from benchapp.judges.judge_scores import EVERY
from benchapp.judges.robustness import Retest, Spread, over_replicates, over_samples, replicates_of, retest
from benchapp.management.commands.judge_run import add_judge_options, read_judge_options, render_outcome
from benchapp.management.lookups import end_on, parse_positive_int
from benchapp.stats.judged import read_judged_rows
from runner.base.errors import SetupError

WIDTH = 44


class Command(BaseCommand):
    help = (
        "Has a language model judge a run several times and measures how well it agrees with itself: units judged "
        "twice, Spearman's rho and mean absolute error per measure, on a scale of 0 to 100."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        add_judge_options(parser)
        parser.add_argument(
            "--repeats", type=parse_positive_int, default=2, metavar="N", help="number of passes (default: 2)"
        )

    def handle(self, *args: object, repeats: int, **options: Any) -> None:
        if repeats < 2:
            raise CommandError("--repeats: use 2 or more")
        run, model, metrics, budget = read_judge_options(**options)
        outcomes: list[PassOutcome] = []
        for repeat in range(1, repeats + 1):
            with end_on(SetupError):
                outcomes.append(judge_run(run, model, metrics, repeat=repeat, budget=budget))
            self.stdout.write(render_outcome(model, outcomes[-1]))
            if outcomes[-1].stopped:
                raise CommandError(f"stopped: {outcomes[-1].stopped}", returncode=3)
        first = outcomes[0].judging
        passes = read_judged_rows([outcome.judging for outcome in outcomes])
        for other in outcomes[1:]:
            self.stdout.write(f"\nrepeat {first.repeat} against repeat {other.judging.repeat}")
            self.stdout.write(f"{'measure':{WIDTH}} {'n':>5} {'rho':>9} {'MAE':>7}")
            for found in retest(passes[first.pk], passes[other.judging.pk], EVERY):
                self.stdout.write(_render_retest(found))
        self._write_spread("samples", over_samples(passes[first.pk]))
        replicates = read_judged_rows(replicates_of(first))
        self._write_spread("replicates", over_replicates(replicates))

    def _write_spread(self, over: str, spreads: Mapping[str, Spread]) -> None:
        self.stdout.write(f"\nover {over}, repeat 1")
        self.stdout.write(f"{'measure':{WIDTH}} {'n':>5} {'mean':>9} {'sd':>7}")
        for measure in (each for each in EVERY if each in spreads):
            found = spreads[measure]
            self.stdout.write(f"{measure:{WIDTH}} {found.n:>5} {found.mean:>9.2f} {_render_number(found.sd):>7}")


def _render_retest(retest: Retest) -> str:
    alone = f"  ({retest.alone} judged in only one)" if retest.alone else ""
    return f"{retest.measure:{WIDTH}} {retest.n:>5} {_render_number(retest.rho, 'undefined'):>9} {_render_number(retest.mae):>7}{alone}"  # noqa: E501


def _render_number(value: float | None, missing: str = "-") -> str:
    return missing if value is None else f"{value:.2f}"
