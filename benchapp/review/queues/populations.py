"""The population of a queue: a selection of Compare, narrowed to a preset, as trials, decisions or libraries.

A population is named by an address, the one of Compare's trials with `unit=` and `preset=` added, so that any filter
and any mark of a chart can be reviewed. Everything is filtered in the database.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from operator import or_
from typing import Any
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Count, Q, QuerySet
from django.http import QueryDict

from benchapp.exports.export_run import parse_trials_request
from benchapp.models import Decision, Episode, Experiment, Queue, Run, Trial
from benchapp.models.stand_ins import StandIn, find_stand_ins
from benchapp.stats.comparing.choices import Choices
from benchapp.stats.comparing.narrowing import (
    BESIDE,
    OUTCOME_WORDS,
    Narrowing,
    differs_from_baseline,
    in_words,
    later,
    success_is,
    trials_behind,
)
from benchapp.stats.comparing.selection import select_runs
from runner.base.types import DecisionStatus

Unit = Queue.Unit
Rows = QuerySet[Trial] | QuerySet[Decision] | QuerySet[Episode]
FORM = ("unit", "preset")  # parts of a population's address that Compare does not know
PRESETS: Mapping[str, Mapping[str, str]] = {  # unit -> preset -> its words after "trials", "decisions", ...
    Unit.TRIAL: {
        "all": "that ran",
        "failed": "that failed",
        "passed": "that passed",
        "unscored": "without a verdict",
        "silent-bypass": "that failed with skills mounted and none read",
        **{name: f"that {OUTCOME_WORDS[name]}" for name in BESIDE},
    },
    Unit.DECISION: {
        "all": "of every outcome",
        DecisionStatus.APPLIED: "that changed the library",
        DecisionStatus.NO_OP: "that changed nothing",
        DecisionStatus.REJECTED: "that broke a rule",
        DecisionStatus.FAILED: "that failed or could not be read",
    },
    Unit.SNAPSHOT: {"all": "that hold a file"},
}
NOUNS = {Unit.TRIAL: "trials", Unit.DECISION: "decisions", Unit.SNAPSHOT: "final libraries"}
WITHOUT_PASSES = ("failed", "silent-bypass", "regressions")  # presets that can have passes drawn as controls
NARROWED_BY = {  # what else than the runs narrows a unit
    Unit.DECISION: ("environment", "family"),
    Unit.SNAPSHOT: ("environment", "family"),
}
STRATA: Mapping[str, tuple[str, ...]] = {  # unit -> facts that can be its strata
    Unit.TRIAL: ("condition", "agent_model", "environment", "family", "role", "phase"),
    Unit.DECISION: ("condition", "agent_model", "author_model", "environment", "family", "status"),
    Unit.SNAPSHOT: ("condition", "agent_model", "author_model", "environment", "family"),
}


def _of_run(run: str) -> dict[str, str]:
    names = ("condition", "agent_model", "author_model", "scripted")
    return {name: f"{run}__{name}" for name in names} | {"source": f"{run}__experiment__origin"}


FACTS: Mapping[
    str, Mapping[str, str]
] = {  # unit -> fact -> its path from the trial, the decision, the library's episode
    Unit.TRIAL: {
        **_of_run("episode__run"),
        "public_id": "public_id",
        "success": "success",
        "episode": "episode_id",
        "ordered": "episode__is_ordered",
        "task": "task_id",
        "suite": "task__suite__key",
        "environment": "task__family__environment__key",
        "family": "task__family__key",
        "role": "task__role",
        "phase": "phase",
    },
    Unit.DECISION: {
        **_of_run("episode__run"),
        "public_id": "public_id",
        "episode": "episode_id",
        "ordered": "episode__is_ordered",
        "suite": "family__suite__key",
        "environment": "family__environment__key",
        "family": "family__key",
        "status": "status",
    },
    Unit.SNAPSHOT: {
        **_of_run("run"),
        "episode": "pk",
        "ordered": "is_ordered",
        "suite": "run__experiment__suite__key",
        "environment": "environment__key",
        "family": "family__key",
    },
}
# Facet -> what blindness hides it.
HIDES = {"condition": "conditions", "agent_model": "models", "author_model": "models"}


@dataclass(frozen=True, slots=True)
class Population:
    """`rows` are trials, decisions or, for libraries, the episodes that own them."""

    unit: str = Unit.TRIAL
    choices: Choices = Choices()
    narrowing: Narrowing = Narrowing()
    preset: str = "all"

    def rows(self) -> Rows:
        """Select in SQL, unordered, what can be read: trials that ran, libraries that hold a file."""
        if self.unit == Unit.TRIAL:
            trials = trials_behind(self.choices, self.narrowing).filter(is_done=True)
            return trials.filter(_preset(self.preset, self.choices))
        if self.unit == Unit.DECISION:
            decisions = Decision.objects.filter(episode__run__in=self._runs(), **self._places("family__")).order_by()
            return decisions if self.preset == "all" else decisions.filter(status=self.preset)
        held = Episode.objects.filter(run__in=self._runs(), library__files_total__gt=0, **self._places(""))
        return held.order_by()

    def total(self) -> int:
        return int(self.rows().count())

    def has_several_conditions(self) -> bool:
        """Do the runs have more than one condition? Otherwise there is nothing to hide."""
        return bool(self._runs().values("condition").distinct().count() > 1)

    def has_several_models(self) -> bool:
        """Do several models solve, or several write? A run without an author does not count as another model."""
        solving = self._runs().values("agent_model", "harness").distinct()
        writing = self._runs().exclude(author_model="").values("author_model", "author_agent").distinct()
        return bool(solving.count() > 1 or writing.count() > 1)

    def by_stratum(self, facet: str = "") -> dict[str, list[UUID]]:
        """Return value of the facet -> public ids of the rows, all under "" without a facet. "unknown" where the record
        has no value."""
        where = FACTS[self.unit][facet] if facet else None
        found: dict[str, list[UUID]] = {}
        for public_id, value in self.rows().values_list("public_id", where or "public_id"):
            found.setdefault(str(value or "unknown") if where else "", []).append(public_id)
        return dict(sorted(found.items()))

    def passes(self) -> Population:
        """Return the passed trials of the same selection: what controls are drawn from."""
        return Population(self.unit, self.choices, self.narrowing.without("outcome"), "passed")

    def query(self) -> str:
        """Return the address that names it, as `parse_population` reads it."""
        own = [("unit", self.unit), ("preset", self.preset)]
        return urlencode([*self.choices.pairs(), *self.narrowing.pairs(), *own])

    def shown_query(self) -> str:
        """Return the part of it that Compare's list of trials understands."""
        return urlencode([*self.choices.pairs(), *self.narrowing.pairs()])

    def noun(self) -> str:
        """Return the words without the selection: "trials that failed where the baseline passed"."""
        return f"{NOUNS[Unit(self.unit)]} {PRESETS[self.unit][self.preset]}"

    def narrowed_by(self) -> list[tuple[str, object, str]]:
        """List (part of the address, its value, words) for everything that narrows the selection, without the pin that
        every queue has."""
        experiments = Experiment.objects.filter(public_id__in=self.choices.experiment)
        names: dict[object, str] = dict(experiments.values_list("public_id", "name")) if self.choices.experiment else {}
        return [
            (name, value, f"experiment {names.get(value, value)}" if name == "experiment" else text)
            for name, value, text in in_words(self.choices, self.narrowing)
            if name != "as_of"
        ]

    def _runs(self) -> QuerySet[Run]:
        return select_runs(self.choices).order_by()

    def _places(self, prefix: str) -> dict[str, str | None]:
        """Filter by environment and family; an empty text selects rows without one."""
        wanted: dict[str, str | None] = {}
        family = prefix.rstrip("_") or "family"
        for name, path in {"environment": f"{prefix}environment", "family": family}.items():
            if (value := getattr(self.narrowing, name)) is not None:
                wanted |= {f"{path}__key": value} if value else {path: None}
        return wanted


def parse_population(query: QueryDict, *, preset: str = "all") -> tuple[Population, list[str]]:
    """Return the population of an address, and a sentence for each invalid part. `preset`: default for trials.

    With an invalid part nothing may be drawn: less narrowing would draw from more than was asked for. `outcome=failed`
    of Compare's list of trials becomes the preset of the same meaning.
    """
    choices, narrowing, problems = parse_trials_request(query, besides=FORM)
    unit = query.get("unit") or Unit.TRIAL
    if unit not in PRESETS:
        problems.append(f"unit: {unit[:80]!r} is unknown, expected one of {', '.join(PRESETS)}")
        unit = Unit.TRIAL
    if named := query.get("preset"):
        preset = named
    elif unit != Unit.TRIAL:
        preset = "all"
    elif narrowing.outcome and (narrowing.outcome in BESIDE or not narrowing.covered):  # else as its metric counts
        preset, narrowing = narrowing.outcome, narrowing.without("outcome")
    if preset not in PRESETS[unit]:
        problems.append(f"preset: {preset[:80]!r} is unknown, expected one of {', '.join(PRESETS[unit])}")
        preset = "all"
    for name, _ in narrowing.pairs():
        if name not in NARROWED_BY.get(Unit(unit), (name,)):
            problems.append(f"{name}: narrows trials alone, not {NOUNS[Unit(unit)]}")
    return Population(unit, choices, narrowing, preset), problems


def reopen(unit: str, query: str) -> Population:
    """Return a stored population, with the record's current rows. ValueError where the address is no longer valid."""
    given = QueryDict(query, mutable=True)
    given["unit"] = unit
    population, problems = parse_population(given)
    if problems:
        raise ValueError("; ".join(problems))
    return population


def _preset(preset: str, choices: Choices) -> Q:
    failed, passed = success_is(False, choices), success_is(True, choices)
    if preset == "unscored":
        return Q(success=None) | (later(choices) if choices.as_of else Q())
    if preset == "silent-bypass":
        return failed & Q(skills_mounted__gt=0, skills_read=0)
    if preset in BESIDE:
        return differs_from_baseline(preset, choices)
    return {"all": Q(), "failed": failed, "passed": passed}[preset]


# --- facets ----------------------------------------------------------------------------------------------------------

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

PATHS: Mapping[str, Mapping[str, str]] = {  # unit -> what is read of an item, by name
    Unit.TRIAL: {"unit": "trial_id", **{name: f"trial__{path}" for name, path in FACTS[Unit.TRIAL].items()}},
    Unit.DECISION: {
        "unit": "decision_id",
        **{name: f"decision__{path}" for name, path in FACTS[Unit.DECISION].items()},
    },
    Unit.SNAPSHOT: {"unit": "snapshot_id", **{name: f"episode__{path}" for name, path in FACTS[Unit.SNAPSHOT].items()}},
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
    named = dict(zip(PATHS[unit], values, strict=True))
    shared = bool(named["ordered"]) or "task" not in named
    success = named.get("success")
    return Facts(
        unit,
        (named["unit"],) if unit != Queue.Unit.SNAPSHOT else (named["unit"], named["episode"] or 0),
        named.get("public_id"),
        None if success is None else not success,
        ("episode", named["episode"] or 0) if shared else ("task", named["task"]),
        find_stand_ins(bool(named["scripted"]), str(named["agent_model"] or ""), str(named["author_model"] or "")),
        **{name: value_of(name, named.get(name), named["suite"]) for name in FACETS},
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
    paths = (FACTS[Unit.TRIAL][name] for name in ("suite", *FACETS))
    counted = trials.values_list(*paths).annotate(ran=Count("pk"), fell=Count("pk", filter=failed))
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
