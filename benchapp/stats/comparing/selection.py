"""The runs that the choices select, and runs added since the pin."""

from __future__ import annotations

from datetime import UTC, date, datetime, time, timedelta
from functools import reduce
from operator import or_

from django.db.models import Q, QuerySet

from benchapp.models import Run
from benchapp.stats.comparing.choices import Choices
from runner.protocols.conditions import unpooled_conditions

MAX_RUNS = 600  # in one comparison; the four published campaigns together have about as many
ORDER = ("experiment__suite__key", "experiment__created_at", "experiment_id", Run.BY_REPLICATE, "id")


def filter_matching(choices: Choices) -> QuerySet[Run]:
    """Filter runs by every choice, at any time; probes and qualifications only where somebody names them."""
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
    elif not choices.experiment:  # probes and qualifications do not learn: compared where somebody names them
        wanted &= ~Q(condition__in=unpooled_conditions())  # nor a probe's fork, which has no row of its own
    if choices.since:
        wanted &= Q(created_at__gte=_start(choices.since))
    if choices.until:
        wanted &= Q(created_at__lt=_start(choices.until) + timedelta(days=1))
    return Run.objects.filter(wanted)


def select_runs(choices: Choices) -> QuerySet[Run]:
    """Select those that existed when the page was pinned; all without a pin."""
    # Hundreds of runs share a few experiments: one instance of each, and not one for every run.
    runs = filter_matching(choices).prefetch_related("experiment__suite").order_by(*ORDER)
    return runs.filter(created_at__lte=choices.as_of) if choices.as_of else runs


def filter_added(choices: Choices) -> QuerySet[Run]:
    """Filter those that match and came after the pin."""
    runs = filter_matching(choices)
    return runs.filter(created_at__gt=choices.as_of) if choices.as_of else runs.none()


def _start(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)
