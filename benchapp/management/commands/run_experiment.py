from __future__ import annotations

import json
import time
from pathlib import Path

from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.db import DatabaseError

from benchapp.experiments.foresight import Amount, Estimate, Foresight, estimate, foresee
from benchapp.experiments.launch import launch
from benchapp.experiments.launch_spec import Unlaunchable, read_file
from benchapp.experiments.preparation import Prepared, prepare, schedule
from benchapp.experiments.work.progress import progress_of
from benchapp.models import Episode, Experiment
from benchapp.record.json_shape import to_json
from benchapp.stats.metrics.amounts import render_rough_duration
from runner.base.errors import SetupError
from runner.base.text import plural

LOOK_SECONDS = 2.0
DONE = 0
NOT_DONE = 1  # blocked, paused or cancelled


class Command(BaseCommand):
    help = (
        "Launches an experiment from a YAML or JSON file. Running workers start at once. "
        "Exit status with --wait: 0 done, 1 blocked, paused or cancelled."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("file", type=Path)
        parser.add_argument("--dry-run", action="store_true", help="print schedule and estimate; launch nothing")
        parser.add_argument("--wait", action="store_true", help="show progress until it ends")
        parser.add_argument("--json", dest="as_json", action="store_true", help="print JSON, one value per line")
        parser.add_argument(
            "--workers", type=int, default=1, help="workers to assume in the time estimate (default: 1)"
        )
        parser.add_argument(
            "--keys-elsewhere", action="store_true", help="only the workers have the keys: do not check for them here"
        )

    def handle(
        self,
        *args: object,
        file: Path,
        dry_run: bool,
        wait: bool,
        as_json: bool,
        workers: int,
        keys_elsewhere: bool,
        **options: object,
    ) -> None:
        self.json = as_json
        try:
            value = read_file(file)
            prepared = prepare(value, keys_elsewhere=keys_elsewhere)
        except Unlaunchable as error:
            raise CommandError(self._render_problems(file, error)) from error
        except SetupError as error:
            raise CommandError(str(error)) from error
        self._write_estimate(prepared, workers)
        self._warn(file, foresee(prepared, runs_here=not keys_elsewhere))
        if dry_run:
            for planned in schedule(prepared):
                line = f"{planned.place:>6}  {planned.unit}  {planned.slot}  {planned.cell}"
                self._say({"planned": planned.as_json()}, line)
            return
        try:
            experiment = launch(value, keys_elsewhere=keys_elsewhere)
        except Unlaunchable as error:  # its key was launched before
            raise CommandError(self._render_problems(file, error)) from error
        self._say(
            {"experiment": str(experiment.public_id), "name": experiment.name, "status": experiment.status},
            f"{experiment.public_id}  {experiment.name}\nWatch it: {experiment.get_absolute_url()}",
        )
        if wait:
            raise SystemExit(self._follow(experiment))

    def _render_problems(self, path: Path, error: Unlaunchable) -> str:
        if self.json:
            return json.dumps({"file": str(path), "problems": to_json(error.problems)})
        lines = "\n".join(f"  {problem}" for problem in error.problems)
        return f"{path} cannot be launched:\n{lines}"

    def _say(self, value: dict[str, object], line: str) -> None:
        self.stdout.write(json.dumps(value) if self.json else line)
        self.stdout.flush()

    # --- before ---------------------------------------------------------------------------------------------------

    def _write_estimate(self, prepared: Prepared, workers: int) -> None:
        found = estimate(prepared)
        if self.json:
            whole = found.whole
            payload = {**found.as_json(), "workers": workers, "wall_seconds": whole.wall_seconds(workers)}
            self._say({"estimate": payload}, "")
            return
        for arm, each in found.arms.items():
            self.stdout.write(f"  {arm}: {_render_estimate(each, workers)}")
        self.stdout.write(f"  total: {plural(len(prepared.plans), 'run')}, {_render_estimate(found.whole, workers)}")

    def _warn(self, path: Path, found: Foresight) -> None:
        """Warn about what will not run. Refused if nothing would."""
        for problem in found.problems:
            self._say({"cannot_run": problem.as_json()}, f"  {problem}")
        for note in found.notes:
            self._say({"note": note}, f"  note: {note}")
        try:
            found.require_hope()
        except Unlaunchable as error:
            raise CommandError(self._render_problems(path, error)) from error
        if found.hopeless and not self.json:
            self.stdout.write(f"  {found.hopeless} of {plural(found.trials, 'trial')} cannot run.")

    # --- while it runs --------------------------------------------------------------------------------------------

    def _follow(self, experiment: Experiment) -> int:
        before = ""
        while True:
            try:
                experiment.refresh_from_db(fields=["status"])
                found = progress_of([experiment])[experiment.pk]
            except DatabaseError:  # unreachable for a moment
                time.sleep(LOOK_SECONDS)
                continue
            left = f", {found.time_left} left" if found.time_left else ""
            line = f"{experiment.status}: {found.done}/{found.total} trials, {found.passed} passed{left}"
            if line != before:
                before = line
                self._say({"status": experiment.status, "progress": found.as_json()}, line)
            if not experiment.is_open:
                break
            time.sleep(LOOK_SECONDS)
        blocked = Episode.objects.filter(run__experiment=experiment, status=Episode.Status.BLOCKED)
        for episode in blocked.select_related("run"):
            reason = next(iter(episode.blocked_reason.splitlines()), "")
            self._say(
                {"blocked": str(episode.public_id), "reason": reason},
                f"blocked: {episode.public_id}  {episode.run.label} / {episode.key}: {reason}",
            )
        return DONE if experiment.status == Experiment.Status.DONE else NOT_DONE


def _render_estimate(found: Estimate, workers: int) -> str:
    wall = found.wall_seconds(workers)
    duration = "unknown" if wall is None else render_rough_duration(wall)
    return (
        f"{plural(found.episodes, 'episode')}, {plural(found.trials, 'trial')}; "
        f"tokens {_render_amount(found.tokens, ',.0f')}, USD {_render_amount(found.cost_usd, ',.2f')}, time {duration} "
        f"with {plural(workers, 'worker')} (from {plural(found.basis, 'earlier trial')})"
    )


def _render_amount(amount: Amount, shape: str) -> str:
    if amount.value is None:
        return "unknown"
    text = format(amount.value, shape)
    if not amount.is_whole:
        text += f" for {amount.known} of {amount.parts} parts; the rest is unknown"
    return text + (f" ({amount.priced} parts estimated from tokens at today's prices)" if amount.priced else "")
