"""`/review/`: what waits for the reader, and how far the team is."""

from __future__ import annotations

from collections import Counter

from django.db.models import Count, Max, Q
from django.http import HttpRequest, HttpResponse

from benchapp.models import Codebook, Queue, Run
from benchapp.record.json_shape import JsonShape
from benchapp.review.blinding import hiding_queues
from benchapp.review.queues.populations import Population
from benchapp.review.queues.review_progress import awaiting, own_drafts, progress_of
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.metrics.tally import tally_by_phase
from inspector.pages.review.queues.queues import AT_ONCE, QUEUE, count_settleable, list_failing
from inspector.web.access import user_of
from inspector.web.responses import link_to, paginate, render_page

PER_PAGE = 50
DRAFTS = 10
OFFERED = 2  # experiments: one's own newest and the example
CODEBOOKS = 12
DRAFT = JsonShape(
    "queue=item.queue.name",
    ("item", lambda draft: draft.item.ordinal + 1),
    link_to("review-item", "item.public_id"),
    "saved_at",
)


def review(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    user = user_of(request)
    assigned = Queue.objects.filter(closed_at=None, reviewers=user).select_related("version__codebook")
    # Open queues with something left for this person, the oldest first: what was asked for first.
    waiting = [each for each in progress_of(list(assigned.order_by("created_at", "pk")), user) if each.own_left]
    page = paginate(request, Queue.objects.select_related("version__codebook"), per_page=PER_PAGE)
    rows = progress_of(list(page), user)
    drafts = list(own_drafts(user)[: DRAFTS + 1])
    early = hiding_queues([each.queue for each in rows], user)
    unresolved = awaiting([each.queue for each in rows if each.queue.pk not in early])
    ready = [each.queue for each in rows if unresolved.get(each.queue.pk) and (each.is_done or not each.queue.is_open)]
    settleable = count_settleable(ready, user)  # open disagreements of queues whose reviews are all in
    data = {
        "waiting": QUEUE.read_all(waiting),
        "drafts": DRAFT.read_all(drafts[:DRAFTS]),
        "queues": [{**QUEUE.read(each), "awaiting_resolution": unresolved.get(each.queue.pk, 0)} for each in rows],
    }
    codebooks = Codebook.objects.annotate(
        frozen=Max("versions__number", filter=Q(versions__frozen_at__isnull=False)),
        drafts=Count("versions", filter=Q(versions__frozen_at=None)),
    ).order_by("name")
    context = {
        "mine": waiting,
        "own_left": sum(each.own_left for each in waiting),
        "to_settle": [(queue, settleable[queue.pk]) for queue in ready if settleable.get(queue.pk)],
        "rows": [(each, unresolved.get(each.queue.pk, 0), early.get(each.queue.pk)) for each in rows],
        "own_drafts": drafts[:DRAFTS],
        "more_drafts": len(drafts) > DRAFTS,
        "codebooks": codebooks[:CODEBOOKS],
        "offers": [] if rows else _offer_starts(),
    }
    return render_page(request, "review/index.html", data=data, context=context, page=page, as_json=as_json)


def _offer_starts() -> list[dict[str, object]]:
    """Offer failures that somebody without a queue can code at once, of the experiments that ended last; none if none
    that ended has a failed trial. query: of the form, empty if it opens with them."""
    found = list(list_failing()[:OFFERED])
    runs = Run.objects.filter(experiment__in=found).only("public_id", "revision", "status", "experiment_id")
    tallies, failed = tally_by_phase(runs), Counter[int]()
    for run in runs:
        failed[run.experiment_id] += sum(tally.scored - tally.passed for tally in tallies[run.pk].values())
    offers: list[dict[str, object]] = []
    for experiment in found:
        population = Population(choices=Choices(experiment=(experiment.public_id,)), preset="failed")
        total = failed[experiment.pk]
        query = f"?{population.query()}" if offers else ""
        offers.append({"experiment": experiment, "failed": total, "drawn": min(total, AT_ONCE), "query": query})
    return offers
