from __future__ import annotations

from argparse import ArgumentTypeError
from contextlib import suppress
from uuid import UUID

from django.core.management.base import BaseCommand, CommandError, CommandParser

from benchapp.experiments.work import operations
from benchapp.management.lookups import end_on, find_own_episode
from benchapp.models import Episode, Experiment, Run
from benchapp.record import live
from benchapp.record.recorded import slot_of
from runner.base.errors import RunnerError
from runner.base.text import plural
from runner.base.types import TrialSlot
from runner.protocols.plan import Ask

OF_AN_EPISODE = {
    "skip": "skip the author's answer that is due, else the first blocked trial, else the next trial, or --trial; "
    "needs --reason",
    "log": "print the last log lines of an episode",
}
OF_ANYTHING = {
    "retry": "continue what is blocked in an experiment (id or name), a run or an episode",
    "cancel": "stop an experiment (id or name), a run or an episode for good, now or --after-trial",
    "pause": "start nothing new in an experiment (id or name), a run or an episode",
    "resume": "continue what is paused in an experiment (id or name), a run or an episode",
}


def _parse_slot(text: str) -> TrialSlot:
    try:
        return TrialSlot.read(text)
    except ValueError as error:
        raise ArgumentTypeError(str(error)) from error


def _skip(episode: Episode, trial: TrialSlot | None, reason: str) -> str:
    """Skip a trial or an answer: if the episode continues, a set-aside trial before an answer not yet refused."""
    goes_on_past_trials = episode.status != Episode.Status.BLOCKED and episode.trials.blocked().exists()
    if trial is None and not goes_on_past_trials and isinstance(operations.stands_at(episode), Ask):
        step = operations.skip_answer(episode, reason=reason)
        return f"Skipped the author's answer {step.key}. The library is unchanged; the episode continues."
    return f"Skipped {operations.skip(episode, trial=trial, reason=reason)}. The episode continues."


class Command(BaseCommand):
    help = "Lists unfinished episodes; retries, skips, pauses, resumes or cancels them. The record keeps every act and its reason."  # noqa: E501

    def add_arguments(self, parser: CommandParser) -> None:
        act = parser.add_mutually_exclusive_group()
        for verb, meaning in {**OF_AN_EPISODE, **OF_ANYTHING}.items():
            act.add_argument(f"--{verb}", type=str if verb in OF_ANYTHING else UUID, metavar="ID", help=meaning)
        parser.add_argument("--after-trial", action="store_true", help="with --cancel: after the current trial")
        parser.add_argument(
            "--trial", type=_parse_slot, metavar="PHASE/TASK/SAMPLE", help="with --skip: the trial to skip"
        )
        parser.add_argument("--reason", default="", help="recorded with the act")

    def handle(self, *args: object, after_trial: bool, trial: TrialSlot | None, reason: str, **options: object) -> None:
        verb = next((verb for verb in (*OF_AN_EPISODE, *OF_ANYTHING) if options[verb]), None)
        if verb is None:
            self._list()
            return
        with end_on(RunnerError):
            self.stdout.write(self._act(verb, str(options[verb]), reason, after_trial=after_trial, trial=trial))

    def _act(self, verb: str, named: str, reason: str, *, after_trial: bool, trial: TrialSlot | None) -> str:
        match verb:
            case "log":
                lines = live.read_log(str(find_own_episode(UUID(named)).public_id))
                if lines is None:
                    raise CommandError("cannot reach the broker, which keeps the log")
                return "\n".join(lines) or "no log lines"
            case "retry":
                found = operations.retry_blocked(_find_named(named), reason=reason)
                for episode, problem in found:
                    place = f"{episode.run.label} / {episode.key}"
                    self.stdout.write(f"{episode.public_id}  {problem or 'continues'}  {place}")
                if failed := sum(bool(problem) for _, problem in found):
                    raise CommandError(
                        f"{failed} of {plural(len(found), 'episode')} {'was' if failed == 1 else 'were'} not retried"
                    )
                return f"Retried {plural(len(found), 'episode')}."
            case "skip":
                return _skip(find_own_episode(UUID(named)), trial, reason)
            case "cancel":
                stopped = operations.cancel(_find_named(named), reason=reason, after_trial=after_trial)
                later = "; a running trial finishes first" if after_trial else ""
                return f"Cancelled {plural(stopped, 'episode')}{later}."
            case "pause":
                return f"Paused {plural(operations.pause(_find_named(named), reason=reason), 'episode')}."
        return f"Resumed {plural(operations.resume(_find_named(named), reason=reason), 'episode')}."

    def _list(self) -> None:
        for episode in Episode.objects.own().unfinished().select_related("run__experiment"):
            held = f", held by {episode.lease_owner}" if episode.lease_owner else ""
            wish = f", will {episode.wish} after its trial" if episode.wish else ""
            place = f"{episode.run.experiment.name} / {episode.run.label} / {episode.key}"
            self.stdout.write(f"{episode.public_id}  {episode.status}{held}{wish}  {place}")
            if reason := episode.blocked_reason or episode.last_failure:
                times = "failed once: " if episode.failures == 1 else f"failed {episode.failures} times in a row: "
                times = "" if episode.blocked_reason or not episode.failures else times
                self.stdout.write(f"    {times}{reason.splitlines()[0]}")
            if episode.status != Episode.Status.BLOCKED:
                for trial, reason in episode.trials.explain_blocked():
                    why = next(iter(reason.splitlines()), "")
                    self.stdout.write(f"    blocked, other trials continue: {slot_of(trial)}: {why}")


def _find_named(text: str) -> operations.Target:
    """Find it by its id, or an experiment by its name if that is unique."""
    public_id = None
    with suppress(ValueError):
        public_id = UUID(text)
    for model in (Experiment, Run, Episode) if public_id else ():
        found: operations.Target | None = model.objects.filter(public_id=public_id).first()
        if found is not None:
            return found
    if public_id:
        raise CommandError(f"there is no experiment, run or episode {public_id}")
    named = list(Experiment.objects.not_deleted().filter(name=text)[:10])
    if len(named) == 1:
        return named[0]
    if not named:
        raise CommandError(f"{text[:200]!r} is neither the name nor the id of an experiment")
    ids = ", ".join(str(experiment.public_id) for experiment in named)
    raise CommandError(f"{len(named)} experiments are named {text[:200]!r}: use an id: {ids}")
