"""Which runs the choices name, and what has come since they were pinned."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from functools import reduce
from operator import or_

from django.db.models import Q, QuerySet

from benchapp.models import Run
from benchapp.stats.comparing.choices import Choices
from runner.protocols.conditions import unpooled_conditions

MAX_RUNS = 600  # beside each other; the four published campaigns together have about as many
ORDER = ("experiment__suite__key", "experiment__created_at", "experiment_id", Run.BY_REPLICATE, "id")


def filter_matching(choices: Choices) -> QuerySet[Run]:
    """Standing runs that pass every filter, whenever they came; probes and qualifications only where somebody names them."""
    wanted = Q(experiment__deleted_at=None)
    lists = {
        "experiment__public_id__in": choices.experiment,
        "experiment__suite__key__in": choices.suite,
        "condition__in": choices.condition,
        "agent_model__in": choices.agent_model,
        "author_model__in": choices.author_model,
        "author_agent__in": choices.author_agent,
        "harness__in": choices.harness,
        "replicate__in": choices.replicate,
    }
    wanted &= Q(**{lookup: values for lookup, values in lists.items() if values})
    if choices.sides:
        wanted &= reduce(or_, (side.matches() for side in choices.sides))
    elif not choices.experiment:  # a probe is no learning run, nor is a qualification: compared where somebody names it
        wanted &= ~Q(condition__in=unpooled_conditions())  # nor is the fork of one, which has no row that says so
    if choices.since:
        wanted &= Q(created_at__gte=_start(choices.since))
    if choices.until:
        wanted &= Q(created_at__lt=_start(choices.until) + timedelta(days=1))
    return Run.objects.filter(wanted)


def select_runs(choices: Choices) -> QuerySet[Run]:
    """Those of them that were there when the page was pinned; all where it is not."""
    # Hundreds of runs share a few experiments: one instance of each, and not one for every run.
    runs = filter_matching(choices).prefetch_related("experiment__suite").order_by(*ORDER)
    return runs.filter(created_at__lte=choices.as_of) if choices.as_of else runs


def filter_added(choices: Choices) -> QuerySet[Run]:
    """Those that match and came after the pin."""
    runs = filter_matching(choices)
    return runs.filter(created_at__gt=choices.as_of) if choices.as_of else runs.none()


def _start(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)
