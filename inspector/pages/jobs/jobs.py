"""What `/jobs/` shows: who works on what, what waits, and what needs somebody. A few queries whatever there is."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from django.db.models import Count, Exists, Max, OuterRef, Q, QuerySet

from benchapp.experiments.work.progress import AtWork
from benchapp.models import Attempt, Episode, Experiment, Trial
from benchapp.record.error_text import render_error
from benchapp.record.json_shape import JsonShape, Shaped
from inspector.web.text.formats import headline

MAX_TROUBLED = 40


class Trouble(StrEnum):
    """Why an episode needs somebody, the worst first. The order is that of the page."""

    BLOCKED = "blocked"  # nothing goes on until an operator acts
    CRASHING = "crash-looping"  # the machine failed and it is tried again, with growing pauses
    STUCK = "stuck"  # an attempt is held, and for long no step came
    ASIDE = "trials blocked"  # trials were set aside; those that do not depend on them go on


@dataclass(frozen=True, slots=True)
class Troubled(Shaped):
    """An episode that needs somebody: why, since what, and the latest attempt where there is one."""

    episode: Episode
    trouble: Trouble
    latest: Attempt | None

    json_shape = JsonShape(
        *("episode", "title=episode.title", "experiment=episode.run.experiment", "run=episode.run"),
        *("label=episode.run.label", "trouble", "failures=episode.failures", "reason", "next_try"),
        "trial=latest.trial",
    )

    @property
    def reason(self) -> str:
        """Whole text, a traceback as a rule. Its first line says what happened."""
        if self.trouble is Trouble.ASIDE and self.latest:
            return render_error(self.latest.exception_type, self.latest.exception_message)
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
    """An experiment with work left, and how its episodes stand."""

    experiment: Experiment
    counts: dict[str, int]

    json_shape = JsonShape("id=experiment", "name=experiment.name", "episodes=counts")

    @property
    def to_do(self) -> int:
        """Episodes that go on by themselves, whether or not somebody is at them this moment."""
        return sum(self.counts.get(status, 0) for status in _OPEN)


def find_troubled(stuck: Iterable[AtWork] = (), limit: int = MAX_TROUBLED) -> tuple[list[Troubled], int]:
    """The worst first, and how many there are in all."""
    failing = Q(status=Episode.Status.BLOCKED) | Q(failures__gt=0, status__in=_OPEN)
    wanted = failing | Q(Exists(Trial.objects.blocked().filter(episode=OuterRef("pk"))), status__in=_OPEN)
    found = Episode.objects.own().filter(wanted).select_related("run__experiment")
    found = found.defer("run__setup", "run__experiment__spec", "run__experiment__estimate")
    episodes = list(found.order_by("status", "-failures", "id")[: limit + 1])
    total = len(episodes) if len(episodes) <= limit else found.count()
    latest = _find_latest_attempts(Attempt.objects.filter(trial__episode__in=episodes[:limit]))
    aside = _find_latest_attempts(
        Attempt.objects.filter(trial__episode__in=episodes[:limit], trial__status=Trial.Status.BLOCKED)
    )
    rows = [_name_trouble(episode, latest.get(episode.pk), aside.get(episode.pk)) for episode in episodes[:limit]]
    known = {row.episode.pk for row in rows}
    silent = [
        Troubled(row.attempt.trial.episode, Trouble.STUCK, row.attempt)
        for row in stuck
        if row.attempt.trial.episode_id not in known
    ]
    order = list(Trouble)
    return sorted([*rows, *silent], key=lambda row: order.index(row.trouble)), total + len(silent)


def _name_trouble(episode: Episode, latest: Attempt | None, aside: Attempt | None) -> Troubled:
    if episode.status == Episode.Status.BLOCKED:
        return Troubled(episode, Trouble.BLOCKED, latest)
    return Troubled(episode, Trouble.CRASHING, latest) if episode.failures else Troubled(episode, Trouble.ASIDE, aside)


_OPEN = (Episode.Status.WAITING, Episode.Status.RUNNING)
_UNDECIDED = (*_OPEN, Episode.Status.BLOCKED, Episode.Status.PAUSED)


def _find_latest_attempts(among: QuerySet[Attempt]) -> dict[int, Attempt]:
    """By episode."""
    newest = among.order_by().values("trial__episode")
    keys = newest.annotate(last=Max("pk")).values_list("last", flat=True)
    attempts = Attempt.objects.filter(pk__in=list(keys)).select_related("trial__task")
    return {attempt.trial.episode_id: attempt for attempt in attempts}


def open_experiments() -> list[OpenExperiment]:
    """Experiments of ours that are not at their end, newest first, in two queries."""
    rows = (
        Episode.objects.own()
        .filter(status__in=_UNDECIDED)
        .order_by()
        .values_list("run__experiment", "status")
        .annotate(count=Count("pk"))
    )
    counts: dict[int, dict[str, int]] = {}
    for experiment, status, count in rows:
        counts.setdefault(experiment, {})[status] = count
    experiments = Experiment.objects.filter(pk__in=counts).select_related("suite").order_by("-created_at", "-id")
    return [OpenExperiment(experiment, counts[experiment.pk]) for experiment in experiments]
