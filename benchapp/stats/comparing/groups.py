"""Runs that differ in nothing but the replicate form a group: one row of a table, one mark of a chart."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from operator import attrgetter

from benchapp.models import Run
from benchapp.models.stand_ins import StandIn, join_stand_ins
from benchapp.stats.comparing.choices import (
    LETTERS,
    MODEL_ROWS,
    NO_SKILL,
    OLD_SKILL,
    Choices,
    assign,
    merge_model_name,
    name_sides,
)
from benchapp.stats.comparing.condition_names import SEPARATOR, drop_iteration, name_condition
from runner.agents import agent_title
from runner.base.text import natural_key

MODEL = "model:"  # a baseline of this kind names an agent model instead of a condition
UNFINISHED = "unfinished"


@dataclass(frozen=True, slots=True)
class Group:
    """The replicates of one cell of one experiment, by their number; or the runs on a side that a reader put together.

    `label` distinguishes it from the other groups of a comparison. `is_unfinished`: one of its runs has unfinished
    trials; the label says so. `side`: its letter. `side_name`: replaces its runs' condition. `model_row`: the agent
    model whose row of a side it is; empty where all are pooled.
    """

    runs: tuple[Run, ...]
    label: str = ""
    is_unfinished: bool = False
    side: str = ""
    side_name: str = ""
    model_row: str = ""

    @property
    def first(self) -> Run:
        return self.runs[0]

    @property
    def condition(self) -> str:
        return self.side_name or self.first.condition

    @property
    def agent_model(self) -> str:
        return self.model_row or self._shared("agent_model")

    @property
    def author_model(self) -> str:
        return self._shared("author_model")

    @property
    def author_agent(self) -> str:
        return self._shared("author_agent")

    @property
    def harness(self) -> str:
        return self._shared("harness")

    def _shared(self, name: str) -> str:
        """Return what all of its runs have; empty where those of a side differ in it."""
        first: str = getattr(self.first, name)
        return first if not self.side or all(getattr(run, name) == first for run in self.runs) else ""

    @property
    def parts(self) -> tuple[tuple[Run, ...], ...]:
        """The runs of each replicate. On a side, runs with equal setup and suite are replicates; others form one."""
        if self.side:
            names = ("condition", "agent_model", "author_model", "author_agent", "harness", "experiment.suite_id")
            if self.first.experiment.suite_id is None or len(set(map(attrgetter(*names), self.runs))) > 1:
                return (self.runs,)
        return tuple((run,) for run in self.runs)

    @property
    def replicates(self) -> int:
        return len(self.parts) if self.side else len(self.runs)

    @property
    def order(self) -> tuple[int, int]:
        """Return its place in every list: of sides by letter, else by condition."""
        return (LETTERS.index(self.side), 0) if self.side else name_condition(self.condition).order

    @property
    def arm(self) -> tuple[object, ...]:
        """Return what is listed together: one model in one harness of one experiment; of sides one model, or all of
        them."""
        if self.side:
            return "", self.paired_model, ""
        return self.first.experiment_id, self.agent_model, self.harness

    @property
    def paired_model(self) -> str:
        """Return the model that its baseline must have; empty if models are pooled."""
        return self.model_row if self.side else self.agent_model

    @property
    def scripted(self) -> bool:
        return any(run.scripted for run in self.runs)

    @property
    def stand_ins(self) -> frozenset[StandIn]:
        return join_stand_ins(self.runs)

    @property
    def identity(self) -> tuple[object, ...]:
        run = self.first
        if self.side:
            return self.side, self.paired_model
        return (run.experiment_id, run.condition, run.agent_model, run.author_model, run.author_agent, run.harness)

    @property
    def narrowing(self) -> dict[str, tuple[object, ...]]:
        """Return the choices that leave only this group's runs."""
        run = self.first
        if self.side:
            others: dict[str, tuple[object, ...]] = {letter: () for letter in LETTERS if letter != self.side}
            models = tuple(dict.fromkeys(run.agent_model for run in self.runs))
            return {**others, "agent_model": models} if self.model_row else others
        choices: dict[str, tuple[object, ...]] = {
            "experiment": (run.experiment.public_id,),
            "condition": (run.condition,),
            "agent_model": (run.agent_model,),
            "author_model": (run.author_model,),
            "harness": (run.harness,),
        }
        if run.author_agent or run.experiment.spec.get("author_agents"):  # elsewhere addresses stay as they were
            return {**choices, "author_agent": (run.author_agent,)}
        return choices


@dataclass(frozen=True)
class Groups:
    """All groups of a comparison, and which of them is the baseline of another."""

    all: tuple[Group, ...]
    baseline: str
    _by_place: dict[tuple[object, ...], list[Group]] = field(default_factory=dict)

    @classmethod
    def of(cls, runs: Iterable[Run], baseline: str, unfinished: Collection[int] = ()) -> Groups:
        """Group the runs. `unfinished`: keys of runs with unfinished trials."""
        members: dict[tuple[object, ...], list[Run]] = {}
        for run in runs:
            members.setdefault(Group((run,)).identity, []).append(run)
        groups = [Group(tuple(sorted(found, key=_by_replicate))) for found in members.values()]
        conditions = {drop_iteration(group.condition) for group in groups} - {Run.UNKNOWN}
        if baseline == NO_SKILL and NO_SKILL not in conditions:
            if OLD_SKILL in conditions:
                baseline = OLD_SKILL
            elif len(conditions) == 2 and all(name_condition(each).origin is None for each in conditions):
                baseline = min(conditions, key=natural_key)  # two versions, as an import names them
        return cls._label(groups, baseline, unfinished)

    @classmethod
    def chosen(cls, runs: Iterable[Run], choices: Choices, unfinished: Collection[int] = ()) -> Groups:
        """Make each side of the choices a group, or each agent model of a side; the first side is the baseline. Without
        sides group by the recorded facts."""
        if not (sides := choices.sides):
            return cls.of(runs, choices.baseline, unfinished)
        members = assign(runs, sides)
        names, groups = name_sides(sides, members), []
        for letter, on_side in members.items():
            rows: dict[str, list[Run]] = {}
            for run in on_side:
                rows.setdefault(merge_model_name(run.agent_model) if choices.pool == MODEL_ROWS else "", []).append(run)
            for model, found in rows.items():
                in_order = tuple(sorted(found, key=_by_replicate))
                groups.append(Group(in_order, side=letter, side_name=names[letter], model_row=model))
        return cls._label(groups, names[sides[0].letter], unfinished)

    @classmethod
    def _label(cls, groups: Sequence[Group], baseline: str, unfinished: Collection[int]) -> Groups:
        known = [replace(each, is_unfinished=any(run.pk in unfinished for run in each.runs)) for each in groups]
        labelled = [replace(group, label=label) for group, label in zip(known, _labels(known), strict=True)]
        places: dict[tuple[object, ...], list[Group]] = {}
        for group in labelled:
            for place in _places(group):
                places.setdefault((place, group.condition, group.paired_model), []).append(group)
        return cls(tuple(labelled), baseline, places)

    def baseline_of(self, group: Group) -> Group | None:
        """Find the group that differs in nothing but what the baseline names. None for the baseline itself, or
        without one.

        Search the same experiment first, then other experiments of the same suite. If several groups match, take the
        one with the same author model, or none if that is ambiguous. A single match may have another author: no-skill
        has none.
        """
        condition, model = group.condition, group.paired_model
        if self.baseline.startswith(MODEL):
            model = self.baseline.removeprefix(MODEL)
        else:
            condition, iteration = self.baseline, group.condition.partition("@")[2]
            if iteration and (found := self.find_counterpart(group, f"{condition}@{iteration}", model)):
                return found  # tried in the same iteration
            if self.is_baseline(group):
                return None
        return self.find_counterpart(group, condition, model)

    def find_counterpart(self, group: Group, condition: str, model: str) -> Group | None:
        """Return the group that differs in just this condition and agent model; None for the group itself."""
        if (condition, model) == (group.condition, group.paired_model):
            return None
        for place in _places(group):
            if found := self._by_place.get((place, condition, model)):
                same = [other for other in found if other.author_model == group.author_model] or found
                same = [other for other in same if other.author_agent == group.author_agent] or same
                return same[0] if len(same) == 1 else None
        return None

    def is_baseline(self, group: Group) -> bool:
        if self.baseline.startswith(MODEL):
            return group.agent_model == self.baseline.removeprefix(MODEL)
        return self.baseline in (group.condition, drop_iteration(group.condition))

    @cached_property
    def pairs(self) -> list[tuple[Group, Group]]:
        """Return every group that has a baseline, with it."""
        return [(group, baseline) for group in self.all if (baseline := self.baseline_of(group)) is not None]

    @cached_property
    def families(self) -> list[list[tuple[Group, Group]]]:
        """Pairs that are judged together: those of one experiment, and of experiments that share a group or use a
        baseline of each other. Each experiment asks its own question, so other contents of a page change no verdict."""
        reached = [{run.experiment_id for group in pair for run in group.runs} for pair in self.pairs]
        joined: list[set[int]] = []
        for own in reached:
            whole = own.union(*(each for each in joined if each & own))
            joined = [*(each for each in joined if not each & own), whole]
        return [[pair for pair, own in zip(self.pairs, reached, strict=True) if own <= family] for family in joined]

    @property
    def compares_with_no_skill(self) -> bool:
        return self.baseline == NO_SKILL

    @property
    def names_no_condition(self) -> bool:
        """Are all conditions unknown, so that skills cannot be judged?"""
        return self.compares_with_no_skill and {group.condition for group in self.all} == {Run.UNKNOWN}


def _by_replicate(run: Run) -> tuple[bool, int, int]:
    """Sort runs without a number last, so that replicates of two groups line up."""
    return run.replicate is None, run.replicate or 0, run.pk


def _places(group: Group) -> list[tuple[object, ...]]:
    """List the places to search for a group's baseline: its experiment, then its suite; for a side the sides."""
    if group.side:
        return [("sides",)]
    experiment = group.first.experiment
    places: list[tuple[object, ...]] = [("experiment", experiment.pk, group.harness)]
    if experiment.suite_id is not None:
        places.append(("suite", experiment.suite_id, group.harness))
    return places


def _labels(groups: Sequence[Group]) -> list[str]:
    """Return each group's facts that differ between groups, and the condition. For sides the name and a row's model."""
    experiments = experiment_names(groups)
    facts: list[tuple[str, ...]] = []
    for group in groups:
        if group.side:
            facts.append((group.condition, group.paired_model, "", "", "", ""))
            continue
        condition = group.condition if group.condition != Run.UNKNOWN else "condition unknown"
        model = group.agent_model if group.agent_model != Run.UNKNOWN else "model unknown"
        author = f"author {group.author_model}" if group.author_model not in ("", group.agent_model) else ""
        written = "single call as author" if group.author_model else ""
        if group.author_agent:
            written = f"{agent_title(group.author_agent)} as author"
        facts.append((condition, model, author, written, group.harness, experiments[group.first.experiment_id]))
    shown = [place for place in range(6) if place == 0 or len({fact[place] for fact in facts} - {""}) > 1]
    labels = [SEPARATOR.join(text for place in shown if (text := fact[place])) for fact in facts]
    times, found = Counter(labels), []
    for group, label in zip(groups, labels, strict=True):
        whole = label if times[label] == 1 else f"{label}{SEPARATOR}author {group.author_model or 'none'}"
        found.append(f"{whole}{SEPARATOR}{UNFINISHED}" if group.is_unfinished else whole)
    return found


def experiment_names(groups: Sequence[Group]) -> dict[int, str]:
    """Return primary key -> name, with the beginning of the id where two experiments have the same."""
    found = {group.first.experiment_id: group.first.experiment for group in groups}
    times = Counter(experiment.name for experiment in found.values())
    return {
        pk: each.name if times[each.name] == 1 else f"{each.name} ({str(each.public_id)[:8]})"
        for pk, each in found.items()
    }
