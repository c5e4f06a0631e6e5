"""What a new queue is drawn from: the address, what is ticked in the form, or the failures of the newest experiment."""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Exists, OuterRef, QuerySet
from django.http import HttpRequest, QueryDict

from benchapp.models import Experiment, Trial
from benchapp.review.queues.populations import Population, parse_population
from benchapp.stats.comparing.choices import Choices
from inspector.pages.review.queues.kept_filter import PRESET

TICKED = "in."  # before the names of what narrows, so that none is taken for a field of the form
NARROWED = "narrowed"  # sent by the form: what is ticked decides, not the address
SHOWN = "shown"  # `?shown=skills`: the condition is not hidden, for codes that judge skills
AT_ONCE = 40  # more are proposed as a sample of so many


@dataclass(frozen=True, slots=True)
class QueueSelection:
    """`is_default`: nobody asked for anything yet. `query`: the address that asks for it."""

    population: Population
    problems: list[str]
    query: str
    is_default: bool = False


def read_selection(request: HttpRequest) -> QueueSelection:
    given = _read_ticked(request.POST) if NARROWED in request.POST else request.GET.copy()
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


def _read_ticked(sent: QueryDict) -> QueryDict:
    given = QueryDict(mutable=True)
    for name, values in sent.lists():
        if name.startswith(TICKED) and (filled := [value for value in values if value]):
            given.setlist(name.removeprefix(TICKED), filled)
    return given
