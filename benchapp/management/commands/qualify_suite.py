from __future__ import annotations

import json
from collections import Counter
from contextlib import nullcontext, suppress
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp.experiments.example_experiment import Unfinished, list_episodes, work_off
from benchapp.experiments.launch import launch
from benchapp.experiments.launch_spec import Unlaunchable, read_file
from benchapp.experiments.preparation import prepare
from benchapp.experiments.qualification import Admission, TaskVerdict, read_verdicts, write_file
from benchapp.management.lookups import end_on
from benchapp.models import Experiment
from benchapp.record.json_shape import to_json
from benchapp.record.log_context import errors_only
from benchapp.record.sets.suite_files import find_suite
from runner.base.errors import SetupError
from runner.base.text import plural, replace_unprintable
from runner.protocols import slots
from runner.sandboxes.processes import hide_environment

INCOMPLETE = 1  # exit status: the work stopped before its end


class Command(BaseCommand):
    help = (
        "Launches a qualification of a suite: each task is tried with its own solution, untouched, and by an agent "
        "without skills, with the corpus and with the reference skill. Running workers start at once; --work does the "
        "work here and prints a verdict for each task."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("suite", metavar="SUITE", help="key of a suite")
        parser.add_argument("--model", help="of the agent; without one, only the checks that need no model run")
        parser.add_argument("--agent", default="shell", help="default: shell")
        parser.add_argument(
            "--thresholds", type=Path, metavar="FILE", help="YAML, as `qualification` in an experiment file"
        )
        parser.add_argument("--usd", type=float, help="budget of each check")
        parser.add_argument("--sandbox", help="default: local for bundled suites, else docker")
        parser.add_argument("--work", action="store_true", help="do the work in this process, and print the verdicts")
        parser.add_argument("--dry-run", action="store_true", help="print what would run; launch nothing")
        parser.add_argument("--json", dest="as_json", action="store_true", help="print JSON")
        parser.add_argument(
            "--keys-elsewhere", action="store_true", help="only the workers have the keys: do not check for them here"
        )

    def handle(
        self,
        *args: object,
        suite: str,
        model: str | None,
        agent: str,
        thresholds: Path | None,
        usd: float | None,
        sandbox: str | None,
        work: bool,
        dry_run: bool,
        as_json: bool,
        keys_elsewhere: bool,
        **options: object,
    ) -> None:
        with end_on(SetupError):
            rules = read_file(thresholds) if thresholds else {}
            file = write_file(find_suite(suite), model=model, agent=agent, rules=rules)
            file |= {"budget": {"usd": usd}} if usd else {}
            file |= {"sandbox": sandbox} if sandbox else {}
            try:
                prepared = prepare(file, keys_elsewhere=keys_elsewhere)
                if dry_run:
                    for cell, plans in prepared.plans.items():
                        most = sum(len(slots(plan)) for plan in plans)
                        self.stdout.write(f"  {cell.arm}: at most {plural(most, 'trial')}")
                    return
                with errors_only("benchapp") if work else nullcontext():  # no broker is needed for work done here
                    found = launch(file, keys_elsewhere=keys_elsewhere)
            except Unlaunchable as error:
                places = [(_place(each.field, thresholds), each.message) for each in error.problems]
                lines = "\n".join(f"  {place}: {message}" for place, message in places)
                raise CommandError(f"{suite} cannot be qualified:\n{lines}") from error
        if not as_json:
            self.stdout.write(f"{found.public_id}  {found.name}")
        if work:
            self._work(found, as_json=as_json)

    def _work(self, experiment: Experiment, *, as_json: bool) -> None:
        hide_environment()
        with errors_only("benchapp"), suppress(Unfinished):  # the verdicts say which tasks stay open
            work_off(list_episodes(experiment))
        experiment.refresh_from_db()
        verdicts = read_verdicts(experiment)
        if as_json:
            payload = {"experiment": str(experiment.public_id), "status": experiment.status, "tasks": to_json(verdicts)}
            self.stdout.write(json.dumps(payload))
        for line in [] if as_json else _lines(verdicts):
            self.stdout.write(line)
        if experiment.status != Experiment.Status.DONE:
            self.stderr.write(f"The qualification is {experiment.status}.")
            raise SystemExit(INCOMPLETE)


def _place(field: str, thresholds: Path | None) -> str:
    """Name a field as in its file."""
    check = field.removeprefix("qualification.")
    return f"{thresholds}: {check}" if thresholds and check != field else field


def _lines(verdicts: list[TaskVerdict]) -> list[str]:
    width = max((len(each.key) for each in verdicts), default=0)
    counts = Counter(each.admission for each in verdicts)
    rows = [
        f"{each.admission:<6}  {replace_unprintable(each.key):<{width}}  {'; '.join(each.reasons)}".rstrip()
        for each in verdicts
    ]
    counted = ", ".join(f"{counts[each]:,} {each}" for each in Admission)
    return [*rows, f"{len(verdicts):,} tasks: {counted}"]
