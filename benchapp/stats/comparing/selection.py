"""Select the runs of a comparison, and list the values of its filters with their counts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta
from functools import reduce
from operator import or_

from django.db.models import Q, QuerySet

from benchapp.models import Experiment, Probe, Run
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.condition_names import name_run
from runner.protocols.conditions import unpooled_conditions

MAX_RUNS = 600  # in one comparison; the four published campaigns together have about as many
ORDER = ("experiment__suite__key", "experiment__created_at", "experiment_id", Run.BY_REPLICATE, "id")


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
# choice -> its field, from a run
LOOKUPS = {**{axis: axis for axis in AXES}, "experiment": "experiment__public_id", "suite": "experiment__suite__key"}
PROBE_RELATIONS = ("run__experiment", "origin__run__experiment")
PROBE_FIELDS = (
    *("state", "reverted", "skill", "run__experiment__public_id", "origin__title", "origin__run__condition"),
    *("origin__run__replicate", "origin__run__experiment__name"),
)


def filter_matching(choices: Choices) -> QuerySet[Run]:
    """Return the runs that match every choice, before or after the pin. Probes and qualifications, which do not
    learn, are left out unless sides or an experiment is named."""
    wanted = Q(experiment__deleted_at=None)
    wanted &= Q(**{f"{lookup}__in": values for axis, lookup in LOOKUPS.items() if (values := getattr(choices, axis))})
    if choices.sides:
        wanted &= reduce(or_, (side.matches() for side in choices.sides))
    elif not choices.experiment:
        wanted &= ~Q(condition__in=unpooled_conditions())  # also excludes forks of a probe, which have no Probe row
    if choices.since:
        wanted &= Q(created_at__gte=_start(choices.since))
    if choices.until:
        wanted &= Q(created_at__lt=_start(choices.until) + timedelta(days=1))
    return Run.objects.filter(wanted)


def select_runs(choices: Choices) -> QuerySet[Run]:
    """Return the matching runs that existed at the pin, in page order; without a pin, all."""
    # Hundreds of runs share a few experiments: one instance of each, and not one for every run.
    runs = filter_matching(choices).prefetch_related("experiment__suite").order_by(*ORDER)
    return runs.filter(created_at__lte=choices.as_of) if choices.as_of else runs


def filter_added(choices: Choices) -> QuerySet[Run]:
    """Return the matching runs that were added after the pin."""
    runs = filter_matching(choices)
    return runs.filter(created_at__gt=choices.as_of) if choices.as_of else runs.none()


def _start(day: date) -> datetime:
    return datetime.combine(day, time.min, UTC)


@dataclass(frozen=True, slots=True)
class ChoiceValue:
    """`runs`: matching runs if this value were chosen and the other axes stayed as they are."""

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
    """Return the axes with their values, of one experiment or of all. One query, or two for all experiments (names of
    probes). An axis with a single value is left out unless it is chosen."""
    runs = Run.objects.not_deleted().order_by("id")
    names: dict[object, str] = {}
    if experiment is not None:
        runs = runs.filter(experiment=experiment)
    else:  # a probe's name is built now: its stored name may use older words
        probes = Probe.objects.filter(run__experiment__deleted_at=None).exclude(origin=None)
        for probe in probes.select_related(*PROBE_RELATIONS).only(*PROBE_FIELDS):
            names[probe.run.experiment.public_id] = name_probe(probe)
    named = runs.values_list(*LOOKUPS.values(), "created_at", "experiment__name")
    read = (dict(zip((*LOOKUPS, "created_at", "name"), row, strict=True)) for row in named)
    rows = [row for row in read if _in_time(row["created_at"], choices)]
    for row in rows:
        row["name"] = names.get(row["experiment"], row["name"])
    axes = [_list_values(axis, rows, choices) for axis in AXES]
    return [axis for axis in axes if len(axis.values) > 1 or axis.chosen]


def name_probe(probe: Probe) -> str:
    """Name the probe in the words of the pages; `probe` with `PROBE_RELATIONS`."""
    origin = probe.origin
    assert origin is not None, "those without one keep their stored name"
    run = origin.run
    return f"{run.experiment.name}, probe: {name_run(run.condition, run.replicate)}, {origin.title}, {probe}"


def _list_values(axis: str, rows: Iterable[Mapping[str, object]], choices: Choices) -> ChoiceAxis:
    chosen = getattr(choices, axis)
    counts: Counter[object] = Counter()
    labels: dict[object, str] = {}
    for row in rows:
        value = row[axis]
        label = row["name"] if axis == "experiment" else value
        labels.setdefault(value, "none" if label == "" and axis in ("author_model", "author_agent") else str(label))
        counts[value] += _matches_others(row, choices, axis)
    values = [
        ChoiceValue("" if value is None else str(value), labels[value], counts[value], value in chosen)
        for value in labels
        if value is not None
    ]
    absent = [ChoiceValue(str(value), f"{value} (no such run)", 0, True) for value in chosen if value not in labels]
    return ChoiceAxis(axis, AXES[axis], (*values, *absent))


def _matches_others(row: Mapping[str, object], choices: Choices, axis: str) -> bool:
    return all(not (wanted := getattr(choices, other)) or row[other] in wanted for other in AXES if other != axis)


def _in_time(created: datetime, choices: Choices) -> bool:
    day = created.astimezone(UTC).date()
    return (
        (choices.as_of is None or created <= choices.as_of)
        and (choices.since is None or day >= choices.since)
        and (choices.until is None or day <= choices.until)
    )
