"""How far work has come: counts, spending, time left, and current activity.

Every function takes a fixed number of queries for any number of runs and trials. What only the broker knows (steps,
workers, the queue) is left out while it cannot be reached.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from functools import cached_property
from itertools import pairwise
from statistics import mean, median, quantiles

import django_rq
from django.conf import settings
from django.db.models import Count, Q, QuerySet
from django.utils import timezone
from redis.exceptions import RedisError
from rq import Worker

from benchapp.experiments.work.worker_labels import Labels, labels_of, list_queues
from benchapp.models import Attempt, Episode, Experiment, Run, Trial
from benchapp.record import live
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.metrics.amounts import render_at_most, render_left
from benchapp.stats.metrics.spending import RunSpending, spending_of

MOST_PACED = 50  # trials that give the pace
FEW = 4  # of fewer durations, half and twice the median are used instead of the quartiles
FIRST, ENOUGH = 0.1, 0.5  # of the trials done: the time left is known if its range is narrow, is known in any case
WIDE = 2  # upper bound over lower bound of a range that is still wide
CLOSED = Q(is_done=True) | Q(status=Trial.Status.SKIPPED)


@dataclass(frozen=True)
class WorkProgress(Shaped):
    """The progress of a run or an experiment."""

    total: int = 0  # planned trials
    done: int = 0  # with a counting attempt, or skipped
    passed: int = 0
    scored: int = 0  # of those done: passed or failed
    running: int = 0  # attempts running now
    spent: tuple[RunSpending, ...] = ()  # per run; unscored attempts are billed too
    eta_seconds: float | None = None  # None: no earlier trials, no workers, or nothing left
    eta_low_seconds: float | None = None  # the bounds of `eta_seconds`; None where it is
    eta_high_seconds: float | None = None
    drops_trials: bool = False  # a qualification drops trials that can no longer change a verdict: total is a maximum
    hides_results: bool = False  # then passed and scored are 0

    json_shape = JsonShape(
        "total done passed scored running spent_usd spent_tokens unknown_cost unknown_tokens eta_seconds",
        "eta_low_seconds eta_high_seconds hides_results?",
    )

    def without_results(self) -> WorkProgress:
        """Return the progress for a reader who must not know yet how some of the trials ended: the sum minus those
        shown would reveal it."""
        return replace(self, passed=0, scored=0, hides_results=True)

    @property
    def most_seconds(self) -> float | None:
        """Return the most time left. None until a tenth of the trials is done, and until half is while the range is
        wide: before that the estimate still swings."""
        low, high = self.eta_low_seconds, self.eta_high_seconds
        if low is None or high is None or self.drops_trials:
            return high
        share = self.done / self.total
        return high if share >= ENOUGH or (share >= FIRST and high <= WIDE * low) else None

    @property
    def time_left(self) -> str:
        """Return the time left in words, as a range or a bound; "" if unknown."""
        if self.most_seconds is None or self.eta_low_seconds is None or self.eta_high_seconds is None:
            return ""
        if self.drops_trials:
            return render_at_most(self.eta_high_seconds)
        return render_left(self.eta_low_seconds, self.eta_high_seconds)

    @cached_property
    def spent_usd(self) -> float | None:
        """Return the sum of the known costs; None while no cost is known."""
        known = [part.cost_usd for run in self.spent for part in run.parts if part.cost_usd is not None]
        return sum(known) if known else None

    @property
    def estimated_usd(self) -> float | None:
        """Sum of imported attempts that report no cost; not included in what is spent."""
        known = [part.estimated_usd for run in self.spent for part in run.parts if part.estimated_usd is not None]
        return sum(known) if known else None

    @cached_property
    def spent_tokens(self) -> int | None:
        """Return the sum of the known tokens; None while none are known."""
        counts = [(part.input_tokens, part.output_tokens) for run in self.spent for part in run.parts]
        known = [count for each in counts for count in each if count is not None]
        return sum(known) if known else None

    @property
    def unknown_tokens(self) -> int:
        """Count attempts and calls whose tokens are unknown, or known in part: with any, the sum is a lower bound."""
        return sum(part.things - part.tokens_known for run in self.spent for part in run.parts)

    @property
    def unknown_cost(self) -> int:
        """Count attempts and calls without a reported or estimated cost."""
        return sum(part.things - part.cost_counted for run in self.spent for part in run.parts)


@dataclass(frozen=True, slots=True)
class AtWork:
    """A running attempt and the step it is at."""

    attempt: Attempt  # with trial, task, episode, run, experiment
    step: Mapping[str, object] | None  # the ATIF step published last
    silent_seconds: float | None  # since its last sign of life; None: unknown

    @property
    def is_stuck(self) -> bool:
        return self.silent_seconds is not None and self.silent_seconds > settings.STUCK_SECONDS


TRIALS = "trials"  # in the broker, of a worker: how many it works on at a time; absent: one


@dataclass(frozen=True, slots=True)
class WorkerAtHand:
    """Room for one trial at a worker that listens to the queue."""

    name: str  # a worker of many trials is named as often
    state: str  # "idle", "busy", "suspended", ...
    episode: str | None  # public id of the episode whose hint it follows
    since: datetime | None
    labels: Labels = frozenset()


@dataclass(frozen=True, slots=True)
class Workforce:
    """Both None if the broker cannot be reached."""

    workers: tuple[WorkerAtHand, ...] | None
    queued: int | None  # hints waiting

    def lacks(self, needs: Labels) -> bool:
        """Do workers listen, but none with all of these labels?"""
        return bool(self.workers) and not any(needs <= worker.labels for worker in self.workers or ())


def progress_of(things: Iterable[Experiment | Run], workers: int | None = None) -> dict[int, WorkProgress]:
    """Return pk -> progress, of every experiment or every run given, all of one kind. Seven queries. `workers`: how
    many share what is left; default: as many as are working now."""
    members = {thing.pk: [thing] if isinstance(thing, Run) else [] for thing in things}
    for run in Run.objects.filter(experiment__in=[pk for pk, runs in members.items() if not runs]):
        members[run.experiment_id].append(run)
    every = [run for runs in members.values() for run in runs]
    counts, durations, spending = _count_work(every), _read_durations(every), spending_of(every)
    return {pk: _sum_progress(runs, counts, durations, spending, workers) for pk, runs in members.items()}


@dataclass(frozen=True, slots=True)
class _Counts:
    total: int = 0
    done: int = 0
    passed: int = 0
    failed: int = 0
    running: int = 0
    workable: int = 0  # episodes that could be worked on at once


def _count_work(runs: Sequence[Run]) -> dict[int, _Counts]:
    wanted = [run.pk for run in runs]
    trials = (
        Trial.objects.filter(episode__run__in=wanted)
        .order_by()
        .values_list("episode__run")
        .annotate(
            total=Count("pk"),
            done=Count("pk", filter=CLOSED),
            passed=Count("pk", filter=Q(success=True)),
            failed=Count("pk", filter=Q(success=False)),
        )
    )
    found = {run: (total, done, passed, failed) for run, total, done, passed, failed in trials}
    running = _count_per_run(Attempt.objects.filter(status=Attempt.Status.RUNNING), "trial__episode__run", wanted)
    workable = _count_per_run(Episode.objects.open(), "run", wanted)
    return {run: _Counts(*found.get(run, (0, 0, 0, 0)), running.get(run, 0), workable.get(run, 0)) for run in wanted}


def _count_per_run(rows: QuerySet[Attempt] | QuerySet[Episode], field: str, runs: list[int]) -> dict[int, int]:
    return dict(rows.filter(**{f"{field}__in": runs}).order_by().values_list(field).annotate(Count("pk")))


def _read_durations(runs: Sequence[Run]) -> dict[int, list[tuple[float, datetime | None]]]:
    """Return run -> seconds that each of its trials took so far, and when it finished."""
    taken = Trial.objects.filter(episode__run__in=[run.pk for run in runs if run.is_open])
    durations: defaultdict[int, list[tuple[float, datetime | None]]] = defaultdict(list)
    for run, seconds, at in taken.exclude(duration_seconds=None).values_list(
        "episode__run", "duration_seconds", "finished_at"
    ):
        if seconds is not None:  # the database excluded unknown ones
            durations[run].append((seconds, at))
    return durations


def _sum_progress(
    runs: Sequence[Run],
    counts: Mapping[int, _Counts],
    durations: Mapping[int, list[tuple[float, datetime | None]]],
    spending: Mapping[int, RunSpending],
    workers: int | None,
) -> WorkProgress:
    each = [counts[run.pk] for run in runs]
    low, eta, high = _estimate_left(runs, counts, durations, workers) or (None, None, None)
    return WorkProgress(
        total=sum(count.total for count in each),
        done=sum(count.done for count in each),
        passed=sum(count.passed for count in each),
        scored=sum(count.passed + count.failed for count in each),
        running=sum(count.running for count in each),
        spent=tuple(spending[run.pk] for run in runs),
        eta_seconds=eta,
        eta_low_seconds=low,
        eta_high_seconds=high,
        drops_trials=any(run.is_qualification for run in runs),
    )


def _estimate_left(
    runs: Sequence[Run],
    counts: Mapping[int, _Counts],
    durations: Mapping[int, list[tuple[float, datetime | None]]],
    workers: int | None,
) -> tuple[float, float, float] | None:
    """Estimate the seconds left: each run's open trials times the median of its own trials (or, before its first, of
    all), shared by the workers that have an episode to work on; or at the pace of the latest trials, if that is
    slower. What waits for an operator is not considered. Return (low, estimate, high): the bounds differ from it as
    the quartiles of the durations do from their medians."""
    taken = {run.pk: [seconds for seconds, _ in durations.get(run.pk, ())] for run in runs}
    every = [seconds for own in taken.values() for seconds in own]
    hands = sum(counts[run.pk].running for run in runs)
    if workers is not None:
        hands = min(workers, sum(counts[run.pk].workable for run in runs))
    if not every or not hands:
        return None
    to_go = {run.pk: counts[run.pk].total - counts[run.pk].done for run in runs if counts[run.pk].workable}
    spreads = [(count, *_spread(taken[pk] or every)) for pk, count in to_go.items()]
    low, left, high = (sum(row[0] * row[place] for row in spreads) for place in (1, 2, 3))
    if not left:
        return None
    finished = sorted(at for run in runs for _, at in durations.get(run.pk, ()) if at is not None)
    # Mean seconds from one trial to the next among the latest, with all that comes between them: setup, grading, the
    # author. Pauses, ten times as long as is usual, are left out.
    latest = finished[-MOST_PACED:]
    gaps = [(after - before).total_seconds() for before, after in pairwise(latest)]
    usual = [gap for gap in gaps if gap <= 10 * median(gaps)]
    estimate = max(left / hands, sum(to_go.values()) * (mean(usual) if usual else 0.0))
    return estimate * low / left, estimate, estimate * high / left


def _spread(seconds: Sequence[float]) -> tuple[float, float, float]:
    """Return the lower quartile, the median and the upper quartile; of a few, half the median,
    the median and its double."""
    if len(seconds) < FEW:
        middle = median(seconds)
        return middle / 2, middle, 2 * middle
    low, middle, high = quantiles(seconds, n=4, method="inclusive")
    return low, middle, high


# --- right now ----------------------------------------------------------------------------------------------------


def at_work(attempts: QuerySet[Attempt] | None = None, limit: int = 200) -> list[AtWork]:
    """Return running attempts (of `attempts`), newest first, with one query and one round to the broker."""
    running = Attempt.objects.under_way() if attempts is None else attempts
    found = list(running[:limit])
    steps = live.latest_of([str(attempt.public_id) for attempt in found])
    now = timezone.now()
    return [_describe_attempt(attempt, steps, now) for attempt in found]


def _describe_attempt(attempt: Attempt, steps: Mapping[str, live.Seen] | None, now: datetime) -> AtWork:
    if steps is None:  # the broker cannot be reached
        return AtWork(attempt, None, None)
    seen = steps.get(str(attempt.public_id))
    last = [at for at in (attempt.started_at, seen.at if seen else None) if at is not None]
    silent = (now - max(last)).total_seconds() if last else None
    return AtWork(attempt, seen.step if seen else None, silent)


def workforce() -> Workforce:
    """Return who listens to the queues, on any machine, and how many hints wait in them."""
    try:
        connection = django_rq.get_connection()
        workers = []
        for worker in Worker.all(connection=connection):
            jobs = [execution.job_id.split("_") for execution in worker.get_current_executions()]
            episodes = [parts[1] if len(parts) == 3 else None for parts in jobs]
            room, labels = int(connection.hget(worker.key, TRIALS) or 1), labels_of(worker.queue_names())
            for episode in [*episodes, *[None] * (room - len(episodes))]:
                state = "busy" if episode else str(worker.get_state())
                workers.append(WorkerAtHand(worker.name, state, episode, worker.birth_date, labels))
        return Workforce(tuple(workers), sum(queue.count for queue in list_queues()))
    except (RedisError, OSError):
        return Workforce(None, None)
