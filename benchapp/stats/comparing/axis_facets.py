"""The available choices: every axis with its values, and how many runs each would leave."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from uuid import UUID

from benchapp.models import Experiment, Probe, Run
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.condition_names import name_run

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
    probes = _name_probes() if experiment is None else {}
    rows = [(*row[:NAME], probes.get(row[0], row[NAME])) for row in runs if _in_time(row[CREATED], choices)]
    facets = [_facet(place, axis, rows, choices) for place, axis in enumerate(AXES)]
    return [facet for facet in facets if len(facet.values) > 1 or facet.chosen]


def _name_probes() -> dict[UUID, str]:
    """Return public id of a probe's experiment -> its name in the words of the pages; stored names are older."""
    probes = Probe.objects.filter(run__experiment__deleted_at=None).exclude(origin=None)
    return {each.run.experiment.public_id: name_probe(each) for each in probes.select_related(*PROBED).only(*OF_PROBE)}


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
        labels.setdefault(value, str(row[NAME]) if axis == "experiment" else _label(axis, value))
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


def _label(axis: str, value: object) -> str:
    return "none" if axis in ("author_model", "author_agent") and value == "" else str(value)
