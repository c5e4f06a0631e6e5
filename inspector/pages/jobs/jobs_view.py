"""`/jobs/`: what needs somebody, what runs now, and what waits."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from datetime import timedelta
from enum import StrEnum

from django.db.models import Count, Exists, Max, OuterRef, Q, QuerySet
from django.http import HttpRequest, HttpResponse
from django.utils import timezone

from benchapp.experiments.qualification import Admission, TaskVerdict, count_admissions, read_verdicts_of, say_verdicts
from benchapp.experiments.work.call_queue import list_outages
from benchapp.experiments.work.progress import AtWork, WorkProgress, at_work, progress_of, workforce
from benchapp.experiments.work.worker_labels import list_needs
from benchapp.judges.judging_orders import progress_of_judging
from benchapp.models import (
    Activity,
    Alert,
    Attempt,
    Episode,
    Experiment,
    JudgingOrder,
    ModelCall,
    Publication,
    Run,
    Trial,
)
from benchapp.models.episodes import FAILING
from benchapp.models.experiments import Progress
from benchapp.models.stand_ins import StandIn, join_stand_ins
from benchapp.record.error_text import render_error
from benchapp.record.json_shape import JsonShape, Shaped, encode
from benchapp.review.blinding import ReviewAccess, hidden_until
from benchapp.stats.metrics.spending import spending_of
from benchapp.stats.metrics.tally import TrialTally, tally_by_phase
from inspector.pages.jobs.budget import budget_of
from inspector.pages.jobs.timeline import draw_timelines
from inspector.web.responses import PageLink, render_page, wants_fragment
from inspector.web.subject import review_access, without_closed
from inspector.web.text.formats import headline
from inspector.web.text.row_shapes import AT_WORK, AUTHOR_CALL

MAX_TROUBLED = 40
MAX_COUNTED = 25  # open experiments whose trials are counted
MAX_ENDED = 8
MAX_AT_WORK = 60  # attempts shown; a larger team has more pages to look at
SHOWN_FOR = timedelta(hours=24)  # what ended last stays drawn while nothing runs
MOST_DRAWN = 3  # experiments with a timeline, newest first
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
_OPEN = (Episode.Status.WAITING, Episode.Status.RUNNING)
_UNDECIDED = (*_OPEN, Episode.Status.BLOCKED, Episode.Status.PAUSED)


class Trouble(StrEnum):
    """Why an episode needs somebody, the worst first, in the order of the page."""

    BLOCKED = "blocked"  # nothing continues until an operator acts
    CRASHING = "crash-looping"  # the machine failed and it is tried again, with growing pauses
    STUCK = "stuck"  # an attempt is held, and for long no step came
    ASIDE = "trials blocked"  # trials were set aside; those that do not depend on them continue


class Troubled(Shaped):
    """An episode that needs somebody: why, since what, and the latest attempt where there is one. `hidden`: what is
    shown in place of the words of its trial. `reason`: the whole text, usually a traceback; its first line says what
    happened. `next_try`: when it is tried again without anybody's help."""

    json_shape = JsonShape(
        "episode title=episode.title experiment=episode.run.experiment run=episode.run label=episode.run.label",
        "trouble failures=episode.failures reason next_try trial=latest.trial",
    )

    def __init__(self, episode: Episode, trouble: Trouble, latest: Attempt | None, hidden: str = "") -> None:
        self.episode, self.trouble, self.latest = episode, trouble, latest
        self.reason = episode.blocked_reason or episode.last_failure
        if trouble is Trouble.ASIDE and latest:
            self.reason = hidden or render_error(latest.exception_type, latest.exception_message)
        self.headline = headline(self.reason)[:300]
        waits = trouble is Trouble.CRASHING and not episode.lease_owner
        self.next_try = episode.lease_until if waits else None


class OpenExperiment(Shaped):
    """An experiment with work left, and the states of its episodes. `progress`, `budget`: of the newest `MAX_COUNTED`.
    `is_qualification`: it drops trials that can no longer change a verdict. `to_do`: episodes that continue without
    help, running at this moment or not."""

    json_shape = JsonShape(
        "id=experiment name=experiment.name episodes=counts status=experiment.status progress",
        ("scripted", lambda shown: StandIn.SCRIPTED in shown.stand_ins),
    )

    def __init__(
        self, experiment: Experiment, counts: dict[str, int], runs: Sequence[Run], progress: WorkProgress | None
    ) -> None:
        self.experiment, self.counts, self.progress = experiment, counts, progress
        self.budget = budget_of(runs, progress) if progress else []
        self.stand_ins = join_stand_ins(runs)
        self.is_qualification = any(run.is_qualification for run in runs)
        self.to_do = sum(counts.get(status, 0) for status in _OPEN)


class EndedExperiment(Shaped):
    """An experiment that ended, and what it took. `verdicts`: of a qualification, on each task."""

    json_shape = JsonShape(
        "id=experiment name=experiment.name status=experiment.status finished_at=experiment.finished_at",
        "seconds=experiment.seconds progress",
        ("scripted", lambda shown: StandIn.SCRIPTED in shown.stand_ins),
    )

    def __init__(
        self, experiment: Experiment, progress: WorkProgress, runs: Sequence[Run], verdicts: list[TaskVerdict]
    ) -> None:
        self.experiment, self.progress, self.stand_ins = experiment, progress, join_stand_ins(runs)
        self.verdicts, self.verdict = verdicts, say_verdicts(verdicts).removesuffix(".") if verdicts else ""
        self.admitted = count_admissions(verdicts)[Admission.ADMIT]


def _find_troubled(access: ReviewAccess, stuck: Iterable[AtWork]) -> tuple[list[Troubled], int]:
    """Return the worst first, and the number in total."""
    wanted = (
        Q(status=Episode.Status.BLOCKED)
        | FAILING
        | Q(Exists(Trial.objects.blocked().filter(episode=OuterRef("pk"))), status__in=_OPEN)
    )
    found = Episode.objects.own().filter(wanted).select_related("run__experiment")
    found = found.defer("run__setup", "run__experiment__spec", "run__experiment__estimate")
    episodes = list(found.order_by("status", "-failures", "id")[: MAX_TROUBLED + 1])
    total = len(episodes) if len(episodes) <= MAX_TROUBLED else found.count()
    shown = episodes[:MAX_TROUBLED]
    latest = _find_latest_attempts(shown, Attempt.objects.all())
    blocked = _find_latest_attempts(shown, Attempt.objects.filter(trial__status=Trial.Status.BLOCKED))
    rows = []
    for episode in shown:
        if episode.status == Episode.Status.BLOCKED:
            rows.append(Troubled(episode, Trouble.BLOCKED, latest.get(episode.pk)))
        elif episode.failures:
            rows.append(Troubled(episode, Trouble.CRASHING, latest.get(episode.pk)))
        else:
            aside = blocked.get(episode.pk)
            queue = access.closing_trial(aside.trial.task_id, episode.key) if aside else None
            rows.append(Troubled(episode, Trouble.ASIDE, aside, hidden_until(queue) if queue else ""))
    known = {row.episode.pk for row in rows}
    silent = [
        Troubled(row.attempt.trial.episode, Trouble.STUCK, row.attempt)
        for row in stuck
        if row.attempt.trial.episode_id not in known
    ]
    order = list(Trouble)
    return sorted([*rows, *silent], key=lambda row: order.index(row.trouble)), total + len(silent)


def _find_latest_attempts(episodes: Sequence[Episode], among: QuerySet[Attempt]) -> dict[int, Attempt]:
    """Return the latest attempt of each episode."""
    if not episodes:
        return {}
    newest = among.filter(trial__episode__in=episodes).order_by().values("trial__episode")
    keys = newest.annotate(last=Max("pk")).values_list("last", flat=True)
    attempts = Attempt.objects.filter(pk__in=list(keys)).select_related("trial__task")
    return {attempt.trial.episode_id: attempt for attempt in attempts}


def _open_experiments(workers: int | None = None) -> list[OpenExperiment]:
    """List our experiments that have not ended, newest first. `workers`: how many share their work, if known."""
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
    return [OpenExperiment(each, counts[each.pk], of_experiment[each.pk], progress.get(each.pk)) for each in found]


def _ended_experiments() -> list[EndedExperiment]:
    """List our experiments that ended last, with what they took. Numbers of ended runs are kept between requests."""
    own = Experiment.objects.not_deleted().filter(origin=Experiment.Origin.RUN, finished_at__isnull=False)
    ended = own.filter(status__in=(Experiment.Status.DONE, Experiment.Status.CANCELLED)).defer("spec", "estimate")
    found = list(ended.order_by("-finished_at", "-id")[:MAX_ENDED])
    runs = list(Run.objects.filter(experiment__in=found).only(*_OF_RUN)) if found else []
    tallies, spending = tally_by_phase(runs), spending_of(runs)
    qualifying = {run.experiment_id for run in runs if run.is_qualification}
    verdicts = read_verdicts_of(list(Experiment.objects.filter(pk__in=qualifying))) if qualifying else {}
    rows = []
    for each in found:
        mine = [run for run in runs if run.experiment_id == each.pk]
        tally = sum((part for run in mine for part in tallies[run.pk].values()), TrialTally())
        spent = tuple(spending[run.pk] for run in mine)
        progress = WorkProgress(tally.total, tally.done, tally.passed, tally.scored, 0, spent)
        rows.append(EndedExperiment(each, progress, mine, verdicts.get(each.pk, [])))
    return rows


def _hide_results(rows: Sequence[OpenExperiment | EndedExperiment], access: ReviewAccess) -> None:
    """Leave out the sums of results that count some which this reviewer must not know yet. One query."""
    hidden = access.hidden_results().filter(episode__run__experiment__in=[row.experiment for row in rows])
    hiding = set(hidden.order_by().values_list("episode__run__experiment", flat=True).distinct())
    for row in rows:
        if row.progress and row.experiment.pk in hiding:
            row.progress = row.progress.without_results()


def jobs(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    access, crew, now = review_access(request), workforce(), timezone.now()
    own = Attempt.objects.under_way().filter(trial__episode__run__experiment__origin=Experiment.Origin.RUN)
    working = without_closed(access, at_work(own, MAX_AT_WORK))
    asked = ModelCall.objects.of_authors_at_work().filter(episode__run__experiment__origin=Experiment.Origin.RUN)
    authors = list(asked[:MAX_AT_WORK])
    needing, needing_total = _find_troubled(access, (each for each in working if each.is_stuck))
    waiting = _open_experiments(None if crew.workers is None else len(crew.workers))
    ended = _ended_experiments()
    _hide_results(waiting, access)
    _hide_results(ended, access)
    outages = [] if crew.workers is None else list_outages()
    labels_needed = list_needs() if crew.workers else {}
    needs = {row.experiment: labels_needed.get(row.experiment.pk, frozenset()) for row in waiting}
    unserved = [(experiment, sorted(labels)) for experiment, labels in needs.items() if crew.lacks(labels)]
    judging = progress_of_judging(JudgingOrder.objects.unfinished())
    publications = Publication.objects.filter(status=Publication.Status.WAITING)[:MAX_AT_WORK]
    data: dict[str, object] = {
        "needing": [_link_twin(encode(each), each.episode) for each in needing],
        "needing_total": needing_total,
        "at_work": [_link_twin(AT_WORK.read(each), each.attempt.trial.episode) for each in working],
        "authors": [_link_twin(AUTHOR_CALL.read(call), call.episode) for call in authors],
        "open": [_link_twin(encode(each), each.experiment) for each in waiting],
        "ended": [_link_twin(encode(each), each.experiment) for each in ended],
        "judging": judging,
        "publications": [
            {"title": each.title, "form": each.form, "made_at": each.made_at, "is_building": bool(each.worker)}
            for each in publications
        ],
        "outages": outages,
        "workers": None if crew.workers is None else [worker.name for worker in crew.workers],
        "queued": crew.queued,
        "unserved": [{"experiment": each, "worker_labels": labels} for each, labels in unserved],
    }
    drawn, last, opened = waiting[:MOST_DRAWN], None, request.GET.get("open", "")
    if as_json:
        timelines = {}
    elif drawn or not ended:
        progress = {row.experiment.pk: row.progress for row in drawn}
        timelines = draw_timelines([row.experiment for row in drawn], access, progress, opened)
    else:  # nothing runs: what ended last is drawn up to its end
        end = ended[0].experiment.finished_at
        is_recent = end is not None and end > now - SHOWN_FOR
        timelines = draw_timelines([ended[0].experiment], access, {}, opened) if is_recent else {}
        last = ended[0] if timelines else None
    paused = {row.experiment.public_id: row.experiment.pk for row in drawn if row.experiment.status == Progress.PAUSED}
    acts = Activity.objects.filter(verb="pause", target_kind="experiment", target_id__in=paused).order_by("at", "id")
    paused_by = {paused[target]: name for target, name in acts.values_list("target_id", "actor_name") if target}
    alike: dict[object, list[Troubled]] = {}  # stopped for the same reason: drawn once, with the first one's traceback
    for row in needing:
        alike.setdefault((row.episode.run.experiment_id, row.trouble, row.headline), []).append(row)
    statuses = Counter(row.experiment.status for row in waiting)
    context = {
        "last": last,
        "last_drawn": timelines[last.experiment.pk] if last else None,
        "newest": Alert.objects.first(),
        "troubles": [
            {"rows": rows, "first": rows[0], "experiment": rows[0].episode.run.experiment} for rows in alike.values()
        ],
        "shown": len(needing),
        "working": working,
        "calling": authors,
        "drawn": [(row, timelines.get(row.experiment.pk), paused_by.get(row.experiment.pk, "")) for row in drawn],
        "opened": waiting,
        "undrawn": waiting[MOST_DRAWN:],
        "publications": publications,
        "running_total": statuses[Progress.RUNNING],
        "paused_total": statuses[Progress.PAUSED],
        "waiting_total": len(waiting) - statuses[Progress.RUNNING] - statuses[Progress.PAUSED],
        "unserved": unserved,
        "finished": ended[1:] if last else ended,
        "is_moving": bool(
            working
            or authors
            or (crew.workers and any(row.to_do for row in waiting if not crew.lacks(needs[row.experiment])))
        ),
        "crew": crew,
    }
    template = "jobs/_jobs_live.html" if wants_fragment(request) else "jobs/jobs.html"
    return render_page(request, template, data=data, context=context, as_json=as_json)


def _link_twin(row: Mapping[str, object], target: Episode | Experiment) -> dict[str, object]:
    return {**row, "url": PageLink("operate-json", type(target).__name__.lower(), target.public_id)}
