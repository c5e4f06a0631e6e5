"""`/jobs/`: what needs somebody, what runs now, and what waits."""

from __future__ import annotations

from datetime import timedelta

from django.http import HttpRequest, HttpResponse
from django.utils import timezone
from django.views.decorators.http import require_safe

from benchapp.experiments.work.call_queue import list_outages
from benchapp.experiments.work.progress import at_work, workforce
from benchapp.judges.judging_orders import progress_of_judging
from benchapp.models import Activity, Alert, Attempt, Experiment, JudgingOrder, ModelCall, Publication
from benchapp.models.experiments import Progress
from benchapp.record.json_shape import encode
from inspector.pages.jobs.jobs import (
    OpenExperiment,
    ended_experiments,
    find_troubled,
    group_troubles,
    hide_results,
    open_experiments,
)
from inspector.pages.jobs.timeline import draw_timelines
from inspector.web.closed_pages import without_closed, words_of
from inspector.web.responses import PageLink, render_page, wants_fragment
from inspector.web.text.row_shapes import AT_WORK, AUTHOR_CALL

MAX_AT_WORK = 60  # attempts shown; a larger team has more pages to look at
SHOWN_FOR = timedelta(hours=24)  # what ended last stays drawn while nothing runs
MOST_DRAWN = 3  # experiments with a timeline, newest first


@require_safe
def jobs(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    own = Attempt.objects.under_way().filter(trial__episode__run__experiment__origin=Experiment.Origin.RUN)
    working = without_closed(words_of(request), at_work(own, MAX_AT_WORK))
    asked = ModelCall.objects.of_authors_at_work().filter(episode__run__experiment__origin=Experiment.Origin.RUN)
    authors = list(asked[:MAX_AT_WORK])
    crew, now = workforce(), timezone.now()
    needing, needing_total = find_troubled(words_of(request), (each for each in working if each.is_stuck))
    workers = None if crew.workers is None else len(crew.workers)
    waiting = hide_results(open_experiments(workers), words_of(request))
    ended = hide_results(ended_experiments(), words_of(request))
    outages = [] if crew.workers is None else list_outages()
    judging = progress_of_judging(JudgingOrder.objects.unfinished())
    publications = Publication.objects.filter(status=Publication.Status.WAITING)[:MAX_AT_WORK]
    data: dict[str, object] = {
        "needing": [
            {**encode(each), "url": PageLink("operate-json", "episode", each.episode.public_id)} for each in needing
        ],
        "needing_total": needing_total,
        "at_work": [
            {**AT_WORK.read(each), "url": PageLink("operate-json", "episode", each.attempt.trial.episode.public_id)}
            for each in working
        ],
        "authors": [
            {**AUTHOR_CALL.read(call), "url": PageLink("operate-json", "episode", call.episode.public_id)}
            for call in authors
        ],
        "open": [
            {**encode(each), "url": PageLink("operate-json", "experiment", each.experiment.public_id)}
            for each in waiting
        ],
        "ended": [
            {**encode(each), "url": PageLink("operate-json", "experiment", each.experiment.public_id)} for each in ended
        ],
        "judging": judging,
        "publications": [
            {"title": each.title, "form": each.form, "made_at": each.made_at, "is_building": bool(each.worker)}
            for each in publications
        ],
        "outages": outages,
        "workers": None if crew.workers is None else [worker.name for worker in crew.workers],
        "queued": crew.queued,
        "next": None,
    }
    drawn, last = waiting[:MOST_DRAWN], None
    if as_json:
        timelines = {}
    elif drawn or not ended:
        progress = {row.experiment.pk: row.progress for row in drawn}
        timelines = draw_timelines([row.experiment for row in drawn], words_of(request), progress)
    else:  # nothing runs: what ended last is drawn up to its end
        end = ended[0].experiment.finished_at
        is_recent = end is not None and end > now - SHOWN_FOR
        timelines = draw_timelines([ended[0].experiment], words_of(request), {}) if is_recent else {}
        last = ended[0] if timelines else None
    running = sum(row.experiment.status == Progress.RUNNING for row in waiting)
    paused_by = _read_who_paused(drawn)
    context = {
        "last": last,
        "last_drawn": timelines[last.experiment.pk] if last else None,
        "newest": Alert.objects.first(),
        "troubles": group_troubles(needing),
        "shown": len(needing),
        "working": working,
        "calling": authors,
        "drawn": [(row, timelines.get(row.experiment.pk), paused_by.get(row.experiment.pk, "")) for row in drawn],
        "opened": waiting,
        "undrawn": waiting[MOST_DRAWN:],
        "judging": judging,
        "publications": publications,
        "running_total": running,
        "rest_total": len(waiting) - running,
        "all_paused": bool(waiting) and all(row.experiment.status == Progress.PAUSED for row in waiting),
        "outages": outages,
        "finished": ended[1:] if last else ended,
        "is_moving": bool(working or authors or (crew.workers and any(row.to_do for row in waiting))),
        "crew": crew,
    }
    template = "jobs/_jobs_live.html" if wants_fragment(request) else "jobs/jobs.html"
    return render_page(request, template, data=data, context=context, as_json=as_json)


def _read_who_paused(rows: list[OpenExperiment]) -> dict[int, str]:
    """Return pk of a paused experiment -> who paused it last. One query."""
    paused = {row.experiment.public_id: row.experiment.pk for row in rows if row.experiment.status == Progress.PAUSED}
    acts = Activity.objects.filter(verb="pause", target_kind="experiment", target_id__in=paused).order_by("at", "id")
    return {paused[target]: name for target, name in acts.values_list("target_id", "actor_name") if target}
