"""What `/jobs/` shows: who works on what, what waits, and what needs somebody. A few queries for any number of jobs."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from enum import StrEnum
from typing import TypeVar

from django.db.models import Count, Exists, Max, OuterRef, Q, QuerySet

from benchapp.experiments.qualification import (
    Admission,
    TaskVerdict,
    count_admissions,
    read_verdicts_of,
    say_verdicts,
)
from benchapp.experiments.work.progress import AtWork, WorkProgress, progress_of
from benchapp.models import Attempt, Episode, Experiment, Run, Trial
from benchapp.models.episodes import FAILING
from benchapp.models.stand_ins import StandIn, join_stand_ins
from benchapp.record.error_text import render_error
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.review.blinding import Words, hidden_until
from benchapp.stats.metrics.spending import spending_of
from benchapp.stats.metrics.tally import TrialTally, tally_by_phase
from inspector.pages.jobs.budget import BudgetPart, budget_of
from inspector.web.text.formats import headline

MAX_TROUBLED = 40
MAX_COUNTED = 25  # open experiments whose trials are counted
MAX_ENDED = 8
_OF_RUN = (
    "public_id",
    "revision",
    "status",
    "experiment",
    "scripted",
    "agent_model",
    "author_model",
    "setup_digest",
    "condition",
)


class Trouble(StrEnum):
    """Why an episode needs somebody, the worst first. The order is that of the page."""

    BLOCKED = "blocked"  # nothing continues until an operator acts
    CRASHING = "crash-looping"  # the machine failed and it is tried again, with growing pauses
    STUCK = "stuck"  # an attempt is held, and for long no step came
    ASIDE = "trials blocked"  # trials were set aside; those that do not depend on them continue


@dataclass(frozen=True, slots=True)
class Troubled(Shaped):
    """An episode that needs somebody: why, since what, and the latest attempt where there is one."""

    episode: Episode
    trouble: Trouble
    latest: Attempt | None
    hidden: str = ""  # what is shown in place of the words of its trial

    json_shape = JsonShape(
        *("episode", "title=episode.title", "experiment=episode.run.experiment", "run=episode.run"),
        *("label=episode.run.label", "trouble", "failures=episode.failures", "reason", "next_try"),
        "trial=latest.trial",
    )

    @property
    def reason(self) -> str:
        """Whole text, a traceback as a rule. Its first line says what happened."""
        if self.trouble is Trouble.ASIDE and self.latest:
            return self.hidden or render_error(self.latest.exception_type, self.latest.exception_message)
        return self.episode.blocked_reason or self.episode.last_failure

    @property
    def headline(self) -> str:
        return headline(self.reason)[:300]

    @property
    def next_try(self) -> datetime | None:
        """When it is taken again by itself."""
        waits = self.trouble is Trouble.CRASHING and not self.episode.lease_owner
        return self.episode.lease_until if waits else None


@dataclass(frozen=True, slots=True)
class SameTrouble:
    """Episodes of one experiment that stopped for the same reason: shown once, with the first one's traceback."""

    rows: tuple[Troubled, ...]

    @property
    def first(self) -> Troubled:
        return self.rows[0]

    @property
    def experiment(self) -> Experiment:
        return self.first.episode.run.experiment


def group_troubles(rows: Iterable[Troubled]) -> list[SameTrouble]:
    """In the order of the first of each."""
    groups: dict[tuple[int, Trouble, str], list[Troubled]] = {}
    for row in rows:
        groups.setdefault((row.episode.run.experiment_id, row.trouble, row.headline), []).append(row)
    return [SameTrouble(tuple(group)) for group in groups.values()]


@dataclass(frozen=True, slots=True)
class OpenExperiment(Shaped):
    """An experiment with work left, and the states of its episodes. `progress`, `budget`: of the newest `MAX_COUNTED`."""

    experiment: Experiment
    counts: dict[str, int]
    progress: WorkProgress | None
    stand_ins: frozenset[StandIn]
    budget: list[BudgetPart]
    is_qualification: bool = False  # it drops trials that can no longer change a verdict

    json_shape = JsonShape(
        *("id=experiment", "name=experiment.name", "episodes=counts", "status=experiment.status"),
        *("progress", ("scripted", lambda shown: StandIn.SCRIPTED in shown.stand_ins)),
    )

    @property
    def to_do(self) -> int:
        """Number of episodes that continue by themselves, running at this moment or not."""
        return sum(self.counts.get(status, 0) for status in _OPEN)


@dataclass(frozen=True, slots=True)
class EndedExperiment(Shaped):
    """An experiment that came to its end, and what it took. `verdicts`: of a qualification, on each task."""

    experiment: Experiment
    progress: WorkProgress
    stand_ins: frozenset[StandIn]
    verdicts: list[TaskVerdict]

    json_shape = JsonShape(
        *("id=experiment", "name=experiment.name", "status=experiment.status", "finished_at=experiment.finished_at"),
        *("seconds=experiment.seconds", "progress", ("scripted", lambda shown: StandIn.SCRIPTED in shown.stand_ins)),
    )

    @property
    def verdict(self) -> str:
        return say_verdicts(self.verdicts).removesuffix(".") if self.verdicts else ""

    @property
    def admitted(self) -> int:
        return count_admissions(self.verdicts)[Admission.ADMIT]


def find_troubled(words: Words, stuck: Iterable[AtWork] = (), limit: int = MAX_TROUBLED) -> tuple[list[Troubled], int]:
    """Return the worst first, and the number in total."""
    wanted = (
        Q(status=Episode.Status.BLOCKED)
        | FAILING
        | Q(Exists(Trial.objects.blocked().filter(episode=OuterRef("pk"))), status__in=_OPEN)
    )
    found = Episode.objects.own().filter(wanted).select_related("run__experiment")
    found = found.defer("run__setup", "run__experiment__spec", "run__experiment__estimate")
    episodes = list(found.order_by("status", "-failures", "id")[: limit + 1])
    total = len(episodes) if len(episodes) <= limit else found.count()
    shown = episodes[:limit]
    latest = _find_latest_attempts(shown, Attempt.objects.all())
    aside = _find_latest_attempts(shown, Attempt.objects.filter(trial__status=Trial.Status.BLOCKED))
    rows = [_name_trouble(episode, latest.get(episode.pk), aside.get(episode.pk), words) for episode in shown]
    known = {row.episode.pk for row in rows}
    silent = [
        Troubled(row.attempt.trial.episode, Trouble.STUCK, row.attempt)
        for row in stuck
        if row.attempt.trial.episode_id not in known
    ]
    order = list(Trouble)
    return sorted([*rows, *silent], key=lambda row: order.index(row.trouble)), total + len(silent)


def _name_trouble(episode: Episode, latest: Attempt | None, aside: Attempt | None, words: Words) -> Troubled:
    if episode.status == Episode.Status.BLOCKED:
        return Troubled(episode, Trouble.BLOCKED, latest)
    if episode.failures:
        return Troubled(episode, Trouble.CRASHING, latest)
    queue = words.closing_trial(aside.trial.task_id, episode.key) if aside else None
    return Troubled(episode, Trouble.ASIDE, aside, hidden_until(queue) if queue else "")


_OPEN = (Episode.Status.WAITING, Episode.Status.RUNNING)
_UNDECIDED = (*_OPEN, Episode.Status.BLOCKED, Episode.Status.PAUSED)


def _find_latest_attempts(episodes: Sequence[Episode], among: QuerySet[Attempt]) -> dict[int, Attempt]:
    """By episode."""
    if not episodes:
        return {}
    newest = among.filter(trial__episode__in=episodes).order_by().values("trial__episode")
    keys = newest.annotate(last=Max("pk")).values_list("last", flat=True)
    attempts = Attempt.objects.filter(pk__in=list(keys)).select_related("trial__task")
    return {attempt.trial.episode_id: attempt for attempt in attempts}


def open_experiments(workers: int | None = None) -> list[OpenExperiment]:
    """Experiments of ours that are not at their end, newest first. `workers`: how many share their work, if known."""
    states = (
        Episode.objects.own()
        .filter(status__in=_UNDECIDED)
        .order_by()
        .values_list("run__experiment", "status")
        .annotate(count=Count("pk"))
    )
    counts: dict[int, dict[str, int]] = {}
    for experiment, status, count in states:
        counts.setdefault(experiment, {})[status] = count
    found = list(Experiment.objects.filter(pk__in=counts).defer("spec", "estimate").order_by("-created_at", "-id"))
    progress = progress_of(found[:MAX_COUNTED], workers) if found else {}
    of_experiment: defaultdict[int, list[Run]] = defaultdict(list)
    for run in Run.objects.filter(experiment__in=found).only(*_OF_RUN, "budget_usd", "budget_tokens"):
        of_experiment[run.experiment_id].append(run)
    rows = []
    for each in found:
        runs, known = of_experiment[each.pk], progress.get(each.pk)
        budget = budget_of(runs, known) if known else []
        stand_ins, is_qualification = join_stand_ins(runs), any(run.is_qualification for run in runs)
        rows.append(OpenExperiment(each, counts[each.pk], known, stand_ins, budget, is_qualification))
    return rows


def ended_experiments(limit: int = MAX_ENDED) -> list[EndedExperiment]:
    """Those of ours that ended last, with what they took; numbers of ended runs are kept from one look to the next."""
    own = Experiment.objects.standing().filter(origin=Experiment.Origin.RUN, finished_at__isnull=False)
    ended = own.filter(status__in=(Experiment.Status.DONE, Experiment.Status.CANCELLED)).defer("spec", "estimate")
    found = list(ended.order_by("-finished_at", "-id")[:limit])
    runs = list(Run.objects.filter(experiment__in=found).only(*_OF_RUN)) if found else []
    tallies, spending = tally_by_phase(runs), spending_of(runs)
    progress: dict[int, WorkProgress] = {}
    for each in found:
        mine = [run for run in runs if run.experiment_id == each.pk]
        tally = sum((part for run in mine for part in tallies[run.pk].values()), TrialTally())
        spent = tuple(spending[run.pk] for run in mine)
        progress[each.pk] = WorkProgress(tally.total, tally.done, tally.passed, tally.scored, 0, spent)
    stand_ins = _join_by_experiment(runs)
    qualifying = {run.experiment_id for run in runs if run.is_qualification}
    verdicts = read_verdicts_of(list(Experiment.objects.filter(pk__in=qualifying))) if qualifying else {}
    return [EndedExperiment(each, progress[each.pk], stand_ins[each.pk], verdicts.get(each.pk, [])) for each in found]


Row = TypeVar("Row", OpenExperiment, EndedExperiment)


def hide_results(rows: Iterable[Row], words: Words) -> list[Row]:
    """Leave out the sums of results that count some which this reviewer must not know yet. One query."""
    found = list(rows)
    hidden = words.hidden_results().filter(episode__run__experiment__in=[row.experiment for row in found])
    hiding = set(hidden.order_by().values_list("episode__run__experiment", flat=True).distinct())
    return [
        replace(row, progress=row.progress.without_results()) if row.progress and row.experiment.pk in hiding else row
        for row in found
    ]


def _join_by_experiment(runs: Iterable[Run]) -> defaultdict[int, frozenset[StandIn]]:
    found: defaultdict[int, frozenset[StandIn]] = defaultdict(frozenset)
    for run in runs:
        found[run.experiment_id] |= run.stand_ins
    return found
