"""Facts about a reviewed unit, and how much there is to review: the facets that results are broken down by."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Any
from uuid import UUID

from django.db.models import Count, Q

from benchapp.models import Queue, Trial
from benchapp.models.stand_ins import StandIn, find_stand_ins
from benchapp.review.queues.populations import Population, Rows, reopen
from benchapp.stats.comparing.narrowing import success_is

FACETS: Mapping[str, str] = {  # part of the address -> its name on the page
    "condition": "condition",
    "agent_model": "agent model",
    "environment": "environment",
    "family": "family",
    "role": "role",
    "phase": "phase",
    "source": "source",
}
SOURCES = {"run": "own run", "imported": "import", "synthetic": "synthetic"}

# a trial's facts, in the order of the fields of Facts after unit and public id
OF_TRIAL = {
    "condition": "episode__run__condition",
    "agent_model": "episode__run__agent_model",
    "environment": "task__family__environment__key",
    "family": "task__family__key",
    "role": "task__role",
    "phase": "phase",
    "source": "episode__run__experiment__origin",
}
OF_RUN = {name: path for name, path in OF_TRIAL.items() if path.startswith("episode__run")}
OF_DECISION = {**OF_RUN, "environment": "family__environment__key", "family": "family__key"}
OF_EPISODE = {
    **{name: path.removeprefix("episode__") for name, path in OF_RUN.items()},
    "environment": "environment__key",
    "family": "family__key",
}


def _under(prefix: str, paths: Mapping[str, str]) -> dict[str, str]:
    return {name: f"{prefix}__{path}" for name, path in paths.items()}


PATHS: Mapping[str, Mapping[str, str]] = {  # unit -> what is read of an item, by name
    Queue.Unit.TRIAL: {
        "unit": "trial_id",
        "public_id": "trial__public_id",
        "success": "trial__success",
        "episode": "trial__episode_id",
        "ordered": "trial__episode__is_ordered",
        "task": "trial__task_id",
        "scripted": "trial__episode__run__scripted",
        "author_model": "trial__episode__run__author_model",
        "suite": "trial__task__suite__key",
        **_under("trial", OF_TRIAL),
    },
    Queue.Unit.DECISION: {
        "unit": "decision_id",
        "public_id": "decision__public_id",
        "episode": "decision__episode_id",
        "ordered": "decision__episode__is_ordered",
        "scripted": "decision__episode__run__scripted",
        "author_model": "decision__episode__run__author_model",
        "suite": "decision__family__suite__key",
        **_under("decision", OF_DECISION),
    },
    Queue.Unit.SNAPSHOT: {
        "unit": "snapshot_id",
        "digest": "snapshot__digest",
        "episode": "episode_id",
        "ordered": "episode__is_ordered",
        "scripted": "episode__run__scripted",
        "author_model": "episode__run__author_model",
        "suite": "episode__run__experiment__suite__key",
        **_under("episode", OF_EPISODE),
    },
}


@dataclass(frozen=True, slots=True)
class Facts:
    """Facts of one unit; empty texts: unknown, or none. cluster: units that share luck: an episode, whose trials share
    a library, but the task for plain imports. failed: None without a verdict, or for other units than trials."""

    unit_kind: str
    unit: tuple[int, ...]
    public_id: UUID | None
    failed: bool | None
    cluster: tuple[str, int]
    stand_ins: frozenset[StandIn]
    condition: str
    agent_model: str
    environment: str
    family: str
    role: str
    phase: str
    source: str


def facts_of(unit: str, values: Sequence[Any]) -> Facts:
    """Read facts. `values`: one for each path of the unit, in their order."""
    told = dict(zip(PATHS[unit], values, strict=True))
    shared = bool(told["ordered"]) or "task" not in told
    success = told.get("success")
    return Facts(
        unit,
        (told["unit"],) if unit != Queue.Unit.SNAPSHOT else (told["unit"], told["episode"] or 0),
        told.get("public_id"),
        None if success is None else not success,
        ("episode", told["episode"] or 0) if shared else ("task", told["task"]),
        find_stand_ins(bool(told["scripted"]), str(told["agent_model"] or ""), str(told["author_model"] or "")),
        **{name: value_of(name, told.get(name), told["suite"]) for name in FACETS},
    )


def value_of(facet: str, raw: object, suite: str | None) -> str:
    """Return a facet's value as shown and chosen. Keys of places repeat between suites, so those name theirs."""
    if raw in (None, ""):
        return ""
    if facet == "source":
        return SOURCES.get(str(raw), str(raw))
    return f"{raw} ({suite})" if facet in {"environment", "family"} and suite else str(raw)


@dataclass(frozen=True, slots=True)
class FacetCell:
    """Trials that are alike in every facet: how many of them ran, failed, and are of the queue's population."""

    values: Mapping[str, str]
    attempted: int
    failed: int
    population: int


@dataclass(frozen=True, slots=True)
class Extent:
    """How much there is of what was drawn from, in the current record."""

    cells: tuple[FacetCell, ...]

    def within(self, chosen: Mapping[str, frozenset[str]]) -> FacetCell:
        """Sum all cells of the chosen part."""
        kept = [cell for cell in self.cells if all(cell.values[name] in values for name, values in chosen.items())]
        sums = (sum(getattr(cell, name) for cell in kept) for name in ("attempted", "failed", "population"))
        return FacetCell({}, *sums)


ATTEMPTED = (Trial.Status.PASSED, Trial.Status.FAILED, Trial.Status.UNSCORED)


def extent_of(queues: Iterable[Queue]) -> Extent:
    """Count the trials of the same selections with any outcome, and those that the queues were drawn from. A trial of
    several selections counts once. Two queries. ValueError where a stored population is no longer valid."""
    drawn = [reopen(queue.unit, queue.population) for queue in queues]
    whole = [
        replace(each, narrowing=each.narrowing.without("outcome").without("replay"), preset="all") for each in drawn
    ]
    attempted = {values: (ran, fell) for values, ran, fell in _counts(whole)}
    counted = {values: ran for values, ran, _ in _counts(drawn)}
    return Extent(
        tuple(
            FacetCell(dict(zip(FACETS, key, strict=True)), *attempted.get(key, (0, 0)), counted.get(key, 0))
            for key in sorted(attempted.keys() | counted.keys())
        )
    )


def _counts(populations: Sequence[Population]) -> Iterable[tuple[tuple[str, ...], int, int]]:
    """Count trials that ran, and those that had failed when their population was pinned."""
    failed = reduce(or_, (_among(each.rows().filter(success_is(False, each.choices))) for each in populations))
    trials = Trial.objects.filter(_within(populations), status__in=ATTEMPTED).order_by()
    counted = trials.values_list("task__suite__key", *OF_TRIAL.values()).annotate(
        ran=Count("pk"), fell=Count("pk", filter=failed)
    )
    for suite, *raw, ran, fell in counted:
        yield tuple(value_of(name, value, suite) for name, value in zip(FACETS, raw, strict=True)), ran, fell


def in_common(queues: Iterable[Queue]) -> int:
    """Count the units that the queues' populations of one unit share in the current record; with none they can be added
    up. A unit of three populations counts twice. ValueError where a stored population is no longer valid."""
    drawn = [reopen(queue.unit, queue.population) for queue in queues]
    units = drawn[0].rows().model._default_manager.filter(_within(drawn))
    return sum(each.total() for each in drawn) - int(units.count())


def _within(populations: Iterable[Population]) -> Q:
    return reduce(or_, (_among(each.rows()) for each in populations))


def _among(rows: Rows) -> Q:
    return Q(pk__in=rows.values("pk"))
