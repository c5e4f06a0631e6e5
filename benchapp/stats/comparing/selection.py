"""The runs that the choices select, and runs added since the pin."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import reduce
from operator import or_
from uuid import UUID

from django.db.models import Q, QuerySet

from benchapp.models import Experiment, Probe, Run
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.condition_names import name_run
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


AXES: Mapping[str, str] = {  # choice -> its name on the page
    "experiment": "Experiment",
    "suite": "Suite",
    "condition": "Condition",
    "agent_model": "Agent model",
    "author_model": "Author model",
    "author_agent": "Author's agent",
    "harness": "Harness",
    "replicate": "Replicate",
}
READ = ("experiment__public_id", "experiment__suite__key", *tuple(AXES)[2:], "created_at", "experiment__name")
NAME = len(READ) - 1
CREATED = len(READ) - 2
PROBED = ("run__experiment", "origin__run__experiment")
OF_PROBE = (
    *("state", "reverted", "skill", "run__experiment__public_id", "origin__title", "origin__run__condition"),
    *("origin__run__replicate", "origin__run__experiment__name"),
)


@dataclass(frozen=True, slots=True)
class ChoiceValue:
    """`runs`: how many the page would show with it, the other axes as chosen."""

    value: str
    label: str
    runs: int
    chosen: bool


@dataclass(frozen=True, slots=True)
class ChoiceAxis:
    """One axis of the choices under its title, with every value that some run has."""

    axis: str
    title: str
    values: tuple[ChoiceValue, ...]

    @property
    def chosen(self) -> int:
        return sum(value.chosen for value in self.values)


def facets_of(choices: Choices, experiment: Experiment | None = None) -> list[ChoiceAxis]:
    """List the axes, in one query over the runs' own columns, of one experiment or of all; one more for names with all.
    An axis with a single value is left out unless part of it is chosen."""
    standing = Run.objects.standing().order_by("id")
    runs = (standing if experiment is None else standing.filter(experiment=experiment)).values_list(*READ)
    probes: dict[UUID, str] = {}
    if experiment is None:  # probes have names in the words of the pages; stored ones are older
        found = Probe.objects.filter(run__experiment__deleted_at=None).exclude(origin=None)
        for each in found.select_related(*PROBED).only(*OF_PROBE):
            probes[each.run.experiment.public_id] = name_probe(each)
    rows = [(*row[:NAME], probes.get(row[0], row[NAME])) for row in runs if _in_time(row[CREATED], choices)]
    facets = [_facet(place, axis, rows, choices) for place, axis in enumerate(AXES)]
    return [facet for facet in facets if len(facet.values) > 1 or facet.chosen]


def name_probe(probe: Probe) -> str:
    """Name the probe in the words of the pages; `probe` with `PROBED`."""
    origin = probe.origin
    assert origin is not None, "those without one keep their stored name"
    run = origin.run
    return f"{run.experiment.name}, probe: {name_run(run.condition, run.replicate)}, {origin.title}, {probe}"


def _facet(place: int, axis: str, rows: Iterable[tuple[object, ...]], choices: Choices) -> ChoiceAxis:
    chosen = getattr(choices, axis)
    counts: Counter[object] = Counter()
    labels: dict[object, str] = {}
    for row in rows:
        value = row[place]
        named = row[NAME] if axis == "experiment" else value
        labels.setdefault(value, "none" if named == "" and axis in ("author_model", "author_agent") else str(named))
        counts[value] += _passes(row, choices, but=axis)
    values = [
        ChoiceValue("" if value is None else str(value), labels[value], counts[value], value in chosen)
        for value in labels
        if value is not None
    ]
    absent = [ChoiceValue(str(value), f"{value} (no such run)", 0, True) for value in chosen if value not in labels]
    return ChoiceAxis(axis, AXES[axis], (*values, *absent))


def _passes(row: tuple[object, ...], choices: Choices, *, but: str) -> bool:
    return all(
        not (wanted := getattr(choices, axis)) or row[place] in wanted for place, axis in enumerate(AXES) if axis != but
    )


def _in_time(created: datetime, choices: Choices) -> bool:
    day = created.astimezone(UTC).date()
    return (
        (choices.as_of is None or created <= choices.as_of)
        and (choices.since is None or day >= choices.since)
        and (choices.until is None or day <= choices.until)
    )
