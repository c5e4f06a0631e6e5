"""Candidates for the sides of a comparison: every condition of every experiment, and suggested pairs."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import combinations, islice
from typing import NamedTuple
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Count, Q

from benchapp.models import Experiment, Run, Trial
from benchapp.models.experiments import ExperimentQuerySet
from benchapp.record.json_shape import QueryRow
from benchapp.stats.comparing.choices import MAX_SIDE_NAME, NO_SKILL, Side
from benchapp.stats.comparing.condition_names import ITERATED, name_condition
from runner.protocols.conditions import base_name, unpooled_conditions

MOST_EXPERIMENTS = 200  # the newest that match
MOST_SUGGESTIONS = 6
MOST_REPEATED = 3  # suggestions of one condition in two experiments


@dataclass(frozen=True, slots=True)
class TrialCounts:
    """`tasks`, `suites`: keys. `known`: trials whose trajectory shows whether a skill was opened; `opened`: it was."""

    tasks: frozenset[int] = frozenset()
    suites: frozenset[int] = frozenset()
    trials: int = 0
    known: int = 0
    opened: int = 0

    def __add__(self, other: TrialCounts) -> TrialCounts:
        tasks, suites = self.tasks | other.tasks, self.suites | other.suites
        known, opened = self.known + other.known, self.opened + other.opened
        return TrialCounts(tasks, suites, self.trials + other.trials, known, opened)


class CandidateRun:
    """One run, with its trials counted. `condition`: the recorded one, else the one that its folders' names suggest.
    `came_in`: the name of the experiment that it was launched or imported with, also if it was joined to another since;
    `source`: the folder of that experiment."""

    COLUMNS = (
        *("public_id", "experiment__public_id", "condition", "agent_model", "replicate"),
        *("setup__suggested_condition", "setup__suggested_by"),
        *("joined_from__name", "joined_from__source", "experiment__name", "experiment__source"),
    )

    def __init__(self, row: QueryRow, counts: TrialCounts) -> None:
        came_with = "joined_from" if row["joined_from__name"] else "experiment"
        self.run: UUID = row["public_id"]
        self.experiment: UUID = row["experiment__public_id"]
        self.recorded: str = row["condition"]
        self.suggested: str = row["setup__suggested_condition"] or ""
        self.suggested_by: str = row["setup__suggested_by"] or ""
        self.model: str = row["agent_model"]
        self.replicate: int | None = row["replicate"]
        self.came_in: str = row[f"{came_with}__name"]
        self.source: str = row[f"{came_with}__source"]
        self.counts = counts
        self.condition = self.suggested if self.recorded == Run.UNKNOWN and self.suggested else self.recorded


@dataclass(frozen=True, slots=True)
class SideRow:
    """One condition of one experiment, to put on a side. `part` names it in the address."""

    condition: str
    part: str
    runs: tuple[CandidateRun, ...]

    def is_on(self, side: Side) -> bool:
        return all(side.holds(run.run, run.experiment, run.recorded) for run in self.runs)

    @classmethod
    def merge(cls, rows: Sequence[SideRow]) -> SideRow:
        """Return one row for all of them, which has no part in the address."""
        return cls(rows[0].condition, "", tuple(run for row in rows for run in row.runs))

    @property
    def folder(self) -> str:
        """The last folder of where it was imported from."""
        return self.runs[0].source.rpartition("/")[2]

    @property
    def models(self) -> list[str]:
        return list(dict.fromkeys(run.model for run in self.runs))

    @property
    def trials(self) -> int:
        return sum_up_runs(self.runs).trials

    @property
    def tasks(self) -> int:
        return len(sum_up_runs(self.runs).tasks)


@dataclass(frozen=True, slots=True)
class CandidateExperiment:
    """An experiment with its rows."""

    public_id: UUID
    name: str
    is_imported: bool
    rows: list[SideRow] = field(default_factory=list)


class SuggestedSide(NamedTuple):
    """`name`: a condition's code, or words."""

    name: str
    runs: list[CandidateRun]


@dataclass(frozen=True, slots=True)
class Suggestion:
    """Sides that share tasks. `query`: the address of their comparison."""

    title: str
    evidence: str
    query: str
    sides: tuple[Sequence[CandidateRun], ...]

    @classmethod
    def of_pair(cls, first: SuggestedSide, second: SuggestedSide, evidence: str) -> Suggestion:
        pairs = []
        for letter, side in (("a", first), ("b", second)):
            pairs += [(letter, str(run.run)) for run in side.runs]
            pairs.append((f"name_{letter}", side.name))
        title = " / ".join(name_condition(side.name).title for side in (first, second))
        return cls(title, evidence, urlencode(pairs), (first.runs, second.runs))

    @property
    def trials(self) -> int:
        return sum(sum_up_runs(side).trials for side in self.sides)

    @property
    def shared(self) -> int:
        """Tasks on more than one side."""
        tried = Counter(task for side in self.sides for task in sum_up_runs(side).tasks)
        return sum(sides > 1 for sides in tried.values())

    @property
    def tasks(self) -> int:
        return len(frozenset.union(*(sum_up_runs(side).tasks for side in self.sides)))

    @property
    def key(self) -> frozenset[frozenset[UUID]]:
        """A key that is equal for suggestions of the same sides."""
        return frozenset(frozenset(run.run for run in side) for side in self.sides)


def sum_up_runs(runs: Collection[CandidateRun]) -> TrialCounts:
    return sum((run.counts for run in runs), TrialCounts())


def list_candidates(find: str = "", *, of: ExperimentQuerySet | None = None) -> list[CandidateExperiment]:
    """List experiments with their rows, newest first: all of these; or without `of` the newest whose name, conditions
    or models contain `find`. Three queries."""
    experiments = (
        (of if of is not None else Experiment.objects.not_deleted()).comparing().order_by("-created_at", "-id")
    )
    if find:
        in_runs = Q(condition__icontains=find) | Q(agent_model__icontains=find)
        matching = Run.objects.filter(in_runs).values("experiment")
        experiments = experiments.filter(Q(name__icontains=find) | Q(pk__in=matching))
    listed = list(experiments if of is not None else experiments[:MOST_EXPERIMENTS])
    runs = _read_runs(listed)
    return [
        CandidateExperiment(each.public_id, each.name, each.origin != Experiment.Origin.RUN, _list_rows(runs[each.pk]))
        for each in listed
        if runs[each.pk]
    ]


def _read_runs(experiments: Sequence[Experiment]) -> dict[int, list[CandidateRun]]:
    """Return experiment pk -> its runs. Two queries."""
    found: dict[int, list[CandidateRun]] = {each.pk: [] for each in experiments}
    counted = _count_trials(found)
    runs = Run.objects.filter(experiment__in=found).exclude(condition__in=unpooled_conditions())
    for row in runs.order_by("condition", Run.BY_REPLICATE, "id").values("pk", "experiment", *CandidateRun.COLUMNS):
        found[row["experiment"]].append(CandidateRun(row, counted.get(row["pk"], TrialCounts())))
    return found


def _count_trials(experiments: Collection[int]) -> dict[int, TrialCounts]:
    """Return run pk -> its tasks, their suites and its numbers."""
    opened = Count("pk", filter=Q(skills_read__gt=0))
    counted = Trial.objects.filter(episode__run__experiment__in=experiments).order_by()
    by_task = counted.values_list("episode__run", "task", "task__suite").annotate(
        done=Count("pk", filter=Q(is_done=True)), known=Count("skills_read"), opened=opened
    )
    found: dict[int, TrialCounts] = {}
    for run, task, suite, *numbers in by_task:
        found[run] = found.get(run, TrialCounts()) + TrialCounts(frozenset({task}), frozenset({suite}), *numbers)
    return found


def _list_rows(runs: Sequence[CandidateRun]) -> list[SideRow]:
    """List the conditions in their order, of imported iterations the last first."""
    by_condition: dict[str, list[CandidateRun]] = {}
    for run in runs:
        by_condition.setdefault(run.recorded, []).append(run)
    rows = [
        SideRow(found[0].condition, f"{found[0].experiment}:{condition}", tuple(found))
        for condition, found in by_condition.items()
    ]

    def place(row: SideRow) -> tuple[int, tuple[int, int]]:
        order = name_condition(row.condition).order
        return (-order[1] if base_name(row.condition) in ITERATED else 0), order

    return sorted(rows, key=place)


def suggest(experiments: Sequence[CandidateExperiment]) -> list[Suggestion]:
    """Suggest pairs of sides over several experiments that share a task, the surest evidence first, each pair once."""
    found: dict[frozenset[frozenset[UUID]], Suggestion] = {}
    repeated = islice(_by_experiment(experiments), MOST_REPEATED)
    for each in (*_by_name(experiments), *_by_use(experiments), *repeated):
        if each.shared:
            found.setdefault(each.key, each)
    return list(found.values())[:MOST_SUGGESTIONS]


def suggest_experiments(experiments: Sequence[CandidateExperiment]) -> Iterator[Suggestion]:
    """Suggest each experiment whose own conditions share a task."""
    for experiment in experiments:
        rows = [row for row in experiment.rows if row.condition != Run.UNKNOWN]
        if len(rows) > 1:
            against = ", each against no skill" if any(row.condition == NO_SKILL for row in rows) else ""
            found = Suggestion(
                experiment.name,
                f"its {len(rows)} conditions{against}",
                urlencode({"experiment": experiment.public_id}),
                tuple(row.runs for row in rows),
            )
            if found.shared:
                yield found


def _imported(experiments: Sequence[CandidateExperiment]) -> dict[frozenset[int], list[CandidateRun]]:
    """Group imported runs by the suites of their tasks. Jobs of one benchmark often come in many folders."""
    found: dict[frozenset[int], list[CandidateRun]] = {}
    for experiment in experiments:
        for row in experiment.rows if experiment.is_imported else ():
            for run in row.runs:
                found.setdefault(run.counts.suites, []).append(run)
    return found


def _by_name(experiments: Sequence[CandidateExperiment]) -> Iterator[Suggestion]:
    """Suggest no skill against each other condition, over the imported jobs of a benchmark."""
    for runs in _imported(experiments).values():
        by_condition: dict[str, list[CandidateRun]] = {}
        for run in runs:
            by_condition.setdefault(run.condition, []).append(run)
        bare = by_condition.pop(NO_SKILL, [])
        by_condition.pop(Run.UNKNOWN, None)
        for condition, others in sorted(by_condition.items(), key=lambda each: -len(each[1])):
            if bare and len({run.experiment for run in (*bare, *others)}) > 1:
                yield Suggestion.of_pair(
                    SuggestedSide(NO_SKILL, bare), SuggestedSide(condition, others), _write_evidence(bare, others)
                )


def _write_evidence(bare: Sequence[CandidateRun], others: Sequence[CandidateRun]) -> str:
    both = [*bare, *others]
    named = sum(run.recorded == Run.UNKNOWN for run in both)
    jobs = f"all {len(both)} runs are recorded so"
    if named:
        jobs = f"{named} of {len(both)} runs by the names of their folders"
    found = sum_up_runs(others)
    if not found.known:
        return f"{jobs}; whether a skill was opened is unknown"
    which = f"all {found.known}" if found.opened == found.known else f"{found.opened} of {found.known}"
    return f"{jobs}; {which} trials of the second side opened a skill"


def _by_use(experiments: Sequence[CandidateExperiment]) -> Iterator[Suggestion]:
    """Suggest runs that opened no skill against those that opened one in every trial, as the trajectories show."""
    for runs in _imported(experiments).values():
        known = [run for run in runs if run.counts.known]
        none = [run for run in known if not run.counts.opened]
        every = [run for run in known if run.counts.opened == run.counts.known]
        if none and every and len({run.experiment for run in (*none, *every)}) > 1:
            first, second = SuggestedSide("No skill opened", none), SuggestedSide("Skill opened", every)
            yield Suggestion.of_pair(first, second, "by what the trials opened")


def _by_experiment(experiments: Sequence[CandidateExperiment]) -> Iterator[Suggestion]:
    """Suggest one condition in two experiments on the same tasks."""
    for newer, older in combinations([each for each in experiments if not each.is_imported], 2):
        theirs = {row.condition: row for row in older.rows}
        for row in newer.rows:
            other = theirs.get(row.condition)
            if other is None or row.condition == NO_SKILL:
                continue
            own, before = (list(each.runs) for each in (row, other))
            if sum_up_runs(own).tasks & sum_up_runs(before).tasks:
                ends = ((older, before), (newer, own))
                first, second = (SuggestedSide(each.name[:MAX_SIDE_NAME], runs) for each, runs in ends)
                title = name_condition(row.condition).title
                yield Suggestion.of_pair(first, second, f"{title} in both experiments")
