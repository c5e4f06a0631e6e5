from __future__ import annotations

from typing import Any
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp.experiments.probe_runs import (
    TIMES,
    AskedProbe,
    ProbePreview,
    launch_probe,
    make_control,
    read_choice,
)
from benchapp.management.lookups import end_on, find_run
from benchapp.models import Episode
from runner.base.errors import RunnerError


class Command(BaseCommand):
    help = (
        "Tests what lines of a library do: freezes a round, whole or without chosen changes of one decision, and reruns"
        " tasks with it in a new run. --dry-run lists the changes and the estimate."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("run", type=UUID)
        parser.add_argument("--episode", help="episode key; required if the run has several")
        parser.add_argument("--round", default="", metavar="R", help="R3, S1 or 3; default: the last")
        parser.add_argument(
            "--decision", type=int, metavar="N", help="decision with the changes; default: the round's own"
        )
        parser.add_argument("--revert", nargs="+", default=[], metavar="HUNK", help="ids of the changes to remove")
        parser.add_argument("--skill", default="", metavar="NAME", help="the skill to leave out, instead of changes")
        parser.add_argument("--task", nargs="+", default=[], metavar="KEY", help="default: the deployment tasks")
        parser.add_argument("--times", type=int, default=TIMES, metavar="K", help=f"trials per task (default: {TIMES})")
        parser.add_argument("--with-control", action="store_true", help="also run the unchanged round, for comparison")
        parser.add_argument("--dry-run", action="store_true", help="show the plan and the estimate; launch nothing")
        parser.add_argument("--reason", default="", help="required; recorded with the probe")

    def handle(self, *args: object, run: UUID, episode: str | None, **options: Any) -> None:
        probed = _find_episode(run, episode)
        asked = AskedProbe(
            state=options["round"],
            decision=options["decision"],
            revert=tuple(options["revert"]),
            skill=options["skill"],
            tasks=tuple(options["task"]),
            times=options["times"],
        )
        with end_on(RunnerError):
            if options["dry_run"]:
                self._write_hunks(probed, asked)  # also if this probe cannot be launched
            found = [ProbePreview(probed, asked)]
            if options["with_control"] and (asked.revert or asked.skill):
                found.append(ProbePreview(probed, make_control(found[0])))
            for each in found:
                if options["dry_run"]:
                    self.stdout.write(each.prepared.spec.name)
                    self.stdout.write(f"  {each.trials} trials: {', '.join(each.tasks)}, {each.times} times each")
                    for name, unit in (("tokens", "tokens"), ("cost_usd", "USD"), ("seconds", "seconds of work")):
                        amount = getattr(each.estimate.whole, name)
                        value = "unknown" if amount.value is None else f"{amount.value:,.2f}"
                        self.stdout.write(f"  {unit}: {value} (known for {amount.known} of {amount.parts} parts)")
                else:
                    probe = launch_probe(each, reason=options["reason"])
                    self.stdout.write(f"{probe.run.public_id}  {probe.run.experiment.name}")

    def _write_hunks(self, episode: Episode, asked: AskedProbe) -> None:
        chosen = read_choice(episode, asked)
        self.stdout.write(f"states: {' '.join(state.key for state in chosen.states)}; frozen at {chosen.state.key}")
        if chosen.decision is not None:
            self.stdout.write(f"decision {chosen.decision.number} ({chosen.decision.status})")
        for hunk in (*chosen.hunks, *chosen.echoes):
            sign = "-" if asked.skill or hunk.id in asked.revert else " "
            self.stdout.write(f"{sign} {hunk.id}  {hunk.path}, {hunk.place}: {hunk.did}")
            for line in hunk.lines:
                sign = "-" if line.id in asked.revert else " "
                self.stdout.write(
                    f"{sign}   {line.id}  {line.place}: {line.added[0].decode(errors='replace').strip()[:80]}"
                )


def _find_episode(run_id: UUID, key: str | None) -> Episode:
    episodes = list(
        find_run(run_id).episodes.select_related("run__experiment__suite", "environment").order_by("ordinal")
    )
    if key is None and len(episodes) == 1:
        return episodes[0]
    for episode in episodes:
        if episode.key == key:
            return episode
    known = ", ".join(episode.key for episode in episodes[:20])
    raise CommandError(f"--episode {key!r}: expected one of {known}")
