"""What several pages of a review ask about a queue: the queue itself, who may open or manage it,
and its facts in a list."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from uuid import UUID

from django.conf import settings
from django.core.exceptions import PermissionDenied
from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.shortcuts import get_object_or_404
from django.urls import reverse

from benchapp.models import Experiment, Queue, QueueItem, Trial, User
from benchapp.people.accounts import LOCAL_USER
from benchapp.record.json_shape import JsonShape
from benchapp.review.blinding import AskedElsewhere, asked_elsewhere
from benchapp.review.coding.disagreements import closed_sentence
from benchapp.review.coding.queue_agreement import still_to_review
from benchapp.review.queues.populations import Population, parse_population
from benchapp.review.queues.review_progress import awaiting
from benchapp.review.seeing import note_seen
from benchapp.stats.comparing.choices import Choices
from inspector.web.access import user_of
from inspector.web.responses import link_to

TICKED = "in."  # before the names of what narrows, so that none is taken for a field of the form
NARROWED = "narrowed"  # sent by the form: what is ticked decides, not the address
SHOWN = "shown"  # `?shown=skills`: the condition is not hidden, for codes that judge skills
AT_ONCE = 40  # more are proposed as a sample of this size
PRESET = "failed"  # what an address without one means
COOKIE = "queue_filter"
LONGEST = 3_000  # characters: browsers refuse cookies of 4 kB
SECONDS = 2 * 3600
RELATED = ("trial__task__family", "decision__family", "episode__family")
UNITS = {Queue.Unit.TRIAL: "trial", Queue.Unit.DECISION: "decision", Queue.Unit.SNAPSHOT: "library"}
FACETS = {
    "condition": "condition",
    "agent_model": "agent model",
    "author_model": "author model",
    "environment": "environment",
    "family": "family",
    "role": "role",
    "phase": "phase",
    "status": "the decision's outcome",
}


@dataclass(frozen=True, slots=True)
class QueueSelection:
    """`is_default`: nobody asked for anything yet. `query`: the address that asks for it."""

    population: Population
    problems: list[str]
    query: str
    is_default: bool = False


def read_selection(request: HttpRequest) -> QueueSelection:
    if NARROWED in request.POST:
        given = QueryDict(mutable=True)
        for name, values in request.POST.lists():
            if name.startswith(TICKED) and (filled := [value for value in values if value]):
                given.setlist(name.removeprefix(TICKED), filled)
    else:
        given = request.GET.copy()
    given.pop(SHOWN, None)
    if request.method != "POST" and not given and (newest := list_failing().first()):
        population = Population(choices=Choices(experiment=(newest.public_id,)), preset=PRESET)
        return QueueSelection(population, [], population.query(), is_default=True)
    population, problems = parse_population(given, preset=PRESET)
    return QueueSelection(population, problems, given.urlencode())


def list_failing() -> QuerySet[Experiment]:
    """List the finished experiments with a failed trial, the one that ended last first, without probes and forks,
    which repeat what they come from."""
    failed = Trial.objects.filter(episode__run__experiment=OuterRef("pk"), is_done=True, success=False)
    finished = Experiment.objects.not_deleted().comparing().exclude(finished_at=None)
    return finished.exclude(runs__forked_from__isnull=False).filter(Exists(failed)).order_by("-finished_at", "-pk")


# --- the filter that is kept ----------------------------------------------------------------------------------------


def keep_filter(request: HttpRequest, response: HttpResponse, query: str) -> None:
    """Keep the filter in a cookie for the pages of queues, if it is not too long."""
    if 0 < len(query) <= LONGEST:
        response.set_cookie(
            COOKIE,
            query,
            max_age=SECONDS,
            path=reverse("review"),
            secure=request.is_secure(),
            httponly=True,
            samesite="Lax",
        )


def drop_filter(response: HttpResponse) -> None:
    response.delete_cookie(COOKIE, path=reverse("review"))


def kept_filter(request: HttpRequest) -> dict[str, str] | None:
    """Return the filter in words and the form with it; None where nothing is kept,
    or what is kept no longer means anything."""
    query = request.COOKIES.get(COOKIE, "")
    if not query or len(query) > LONGEST:
        return None
    given = QueryDict(query)
    population, problems = parse_population(given, preset=PRESET)
    if problems:
        return None
    parts = ", ".join(text for _, _, text in population.narrowed_by())
    description = population.noun() + (f": {parts}" if parts else "")
    return {"says": description, "url": f"{reverse('queue-new')}?{given.urlencode()}"}


# A QueueProgress.
QUEUE = JsonShape(
    "id=queue.public_id name=queue.name",
    link_to("queue-json", "queue.public_id"),
    ("codebook", JsonShape("name=queue.version.codebook.name version=queue.version.number").read),
    "unit=queue.unit open=queue.is_open items",
    ("reviews", JsonShape("submitted=filled needed=slots held").read),
    ("own", JsonShape("left=own_left done=own_done").read),
)


def load_queue(public_id: UUID) -> Queue:
    """Load the queue with what every page of it names. 404 if there is none."""
    return get_object_or_404(Queue.objects.select_related("version__codebook", "created_by"), public_id=public_id)


def load_open_queue(request: HttpRequest, public_id: UUID) -> Queue:
    """Load the queue; 403 for anyone who still has items of its overlap to review blind, here or in another queue."""
    queue, user = load_queue(public_id), user_of(request)
    if left := still_to_review(queue, user):
        raise PermissionDenied(closed_sentence(left))
    if asked_elsewhere([queue], user):
        raise AskedElsewhere([queue], user)
    return queue


def open_queue(request: HttpRequest, public_id: UUID) -> Queue:
    """Return the queue for a page that shows the answers of others, and note that this person has read them."""
    queue = load_open_queue(request, public_id)
    note_seen(user_of(request), queue)
    return queue


def may_manage(queue: Queue, user: User) -> bool:
    """May this person manage it? Admins may, and the person who made it while they may review."""
    return user.may(User.Level.ADMIN) or (queue.created_by_id == user.pk and user.may(User.Level.REVIEWER))


def count_settleable(queues: Collection[Queue], user: User) -> dict[int, int]:
    """Return key of queue -> open disagreements that this person may settle: as in `explain_barred`, nobody but an
    admin settles what they answered themselves. One query."""
    if not user.may(User.Level.REVIEWER):
        return {}
    return awaiting(queues, unanswered_by=None if user.may(User.Level.ADMIN) else user)


def may_review() -> QuerySet[User]:
    """Select the people who can code here: nobody logs in as the one person of single-user mode."""
    levels = User.Level.values[User.Level.values.index(User.Level.REVIEWER) :]
    people = User.objects.filter(is_active=True, level__in=levels).order_by("username")
    return people if settings.SINGLE_USER else people.exclude(username=LOCAL_USER)


def name_unit(item: QueueItem) -> tuple[str, str]:
    """Return (title, family) of what the item is about; no query after `select_related(*RELATED)`."""
    if item.trial:
        task = item.trial.task
        return task.title, task.family.name if task.family else ""
    if item.decision:
        return f"decision {item.decision.number}", item.decision.family.name
    return (item.episode.title if item.episode else "library"), ""
