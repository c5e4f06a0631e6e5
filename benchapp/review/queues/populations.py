"""The population of a queue: a selection of Compare, narrowed to a preset, as trials, decisions or libraries.

A population is named by an address, the one of Compare's trials with `unit=` and `preset=` added, so that any filter
and any mark of a chart can be reviewed. Everything is filtered in the database.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Q, QuerySet
from django.http import QueryDict

from benchapp.exports.export_request import parse_trials_request
from benchapp.models import Decision, Episode, Experiment, Queue, Run, Trial
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
STRATA: Mapping[str, Mapping[str, str]] = {  # unit -> facet -> its path
    Unit.TRIAL: {
        "condition": "episode__run__condition",
        "agent_model": "episode__run__agent_model",
        "environment": "task__family__environment__key",
        "family": "task__family__key",
        "role": "task__role",
        "phase": "phase",
    },
    Unit.DECISION: {
        "condition": "episode__run__condition",
        "agent_model": "episode__run__agent_model",
        "author_model": "episode__run__author_model",
        "environment": "family__environment__key",
        "family": "family__key",
        "status": "status",
    },
    Unit.SNAPSHOT: {
        "condition": "run__condition",
        "agent_model": "run__agent_model",
        "author_model": "run__author_model",
        "environment": "environment__key",
        "family": "family__key",
    },
}
HIDES = {
    "condition": "conditions",
    "agent_model": "models",
    "author_model": "models",
}  # facet -> what blindness hides it


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
        where = STRATA[self.unit][facet] if facet else None
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

    def says(self) -> str:
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
