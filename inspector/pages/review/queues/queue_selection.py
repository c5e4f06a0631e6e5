"""What a new queue is drawn from: the address, what is ticked in the form, or the failures of the newest experiment; and the
filter somebody came with, kept while they first make a codebook."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest, HttpResponse, QueryDict
from django.urls import reverse

from benchapp.models import Experiment, Trial
from benchapp.review.queues.populations import Population, parse_population
from benchapp.stats.comparing.choices import Choices

TICKED = "in."  # before the names of what narrows, so that none is taken for a field of the form
NARROWED = "narrowed"  # sent by the form: what is ticked decides, not the address
SHOWN = "shown"  # `?shown=skills`: the condition is not hidden, for codes that judge skills
AT_ONCE = 40  # more are proposed as a sample of this size
PRESET = "failed"  # what an address without one means
COOKIE = "queue_filter"
LONGEST = 3_000  # characters: browsers refuse cookies of 4 kB
SECONDS = 2 * 3600


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
    """The finished experiments with a failed trial, the one that ended last first; no probe or fork, which
    repeat what they come from."""
    failed = Trial.objects.filter(episode__run__experiment=OuterRef("pk"), is_done=True, success=False)
    finished = Experiment.objects.standing().comparing().exclude(finished_at=None)
    return finished.exclude(runs__forked_from__isnull=False).filter(Exists(failed)).order_by("-finished_at", "-pk")


# --- the filter that is kept -------------------------------------------------------------------------------------------


def keep_filter(request: HttpRequest, response: HttpResponse, query: str) -> None:
    """Only what fits, and only while the reader is at making a queue."""
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


@dataclass(frozen=True, slots=True)
class KeptFilter:
    query: str
    population: Population

    @property
    def url(self) -> str:
        return f"{reverse('queue-new')}?{self.query}"

    @property
    def says(self) -> str:
        parts = ", ".join(text for _, _, text in self.population.narrowed_by())
        return self.population.says() + (f": {parts}" if parts else "")


def kept_filter(request: HttpRequest) -> KeptFilter | None:
    """None where nothing is kept, or what is kept no longer means anything."""
    query = request.COOKIES.get(COOKIE, "")
    if not query or len(query) > LONGEST:
        return None
    given = QueryDict(query)
    population, problems = parse_population(given, preset=PRESET)
    return None if problems else KeptFilter(given.urlencode(), population)
