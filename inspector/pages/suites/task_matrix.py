"""A suite's tasks by the conditions of one experiment, and how fit each is to measure skills."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from urllib.parse import urlencode
from uuid import UUID

from django.db.models import Max, Min
from django.urls import reverse

from benchapp.experiments.qualifying.task_fit import TaskFit, judge_by_trials, judge_by_verdict
from benchapp.models import Experiment, Run, Trial
from benchapp.models.trials import TALLY
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.review.blinding import Words
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.inference.shares import Rate
from inspector.pages.suites.qualified import ShippedVerdict, ShippedVerdicts, SuiteQualification
from inspector.pages.suites.suite import SuiteTask, SuiteView
from runner.base.types import Phase
from runner.protocols.conditions import base_name

BARE = "no-skill"
TRACES = frozenset({"raw-trajectory", "history-context"})  # no skill, and not bare either
MOST_SQUARES = 12  # of one cell; more trials are a count


@dataclass(frozen=True, slots=True)
class MatrixCell(Shaped):
    """The trials of one task under one condition. Replays are left out: they repeat a task."""

    condition: str
    rate: Rate
    url: str

    json_shape = JsonShape("condition", "*rate", "url")

    @property
    def marks(self) -> list[str]:
        """One word a square, passed trials first; empty where only the count is shown."""
        if self.rate.planned > MOST_SQUARES:
            return []
        failed = self.rate.scored - self.rate.passed
        return ["passed"] * self.rate.passed + ["failed"] * failed + ["unscored"] * self.rate.missing


@dataclass(frozen=True, slots=True)
class TaskMatrix(Shaped):
    """`experiment`: None while nothing was tried. `source`: what the fits are read from."""

    experiment: Experiment | None
    conditions: tuple[str, ...]
    models: int
    source: str
    cells: Mapping[str, Mapping[str, MatrixCell]]

    json_shape = JsonShape("experiment", "conditions", "models", "source")

    def row_of(self, task: SuiteTask) -> list[MatrixCell | None]:
        return [self.cells.get(task.key, {}).get(condition) for condition in self.conditions]


def read_matrix(view: SuiteView, asked: str, words: Words) -> tuple[TaskMatrix, list[str]]:
    """Without the trials that this reader still reviews blind. Of the experiment that was asked for by its id, or else the newest one; and what of the address was not understood."""
    experiments = {str(each.public_id): each for each in view.experiments}
    problems = []
    if asked and asked not in experiments:
        problems.append(f"experiment: {asked[:80]!r} did not use this suite")
    experiment = experiments.get(asked) or next(iter(view.experiments), None)
    if experiment is None or view.row is None:
        return TaskMatrix(None, (), 0, "", {}), problems
    cells = _read_cells(view.row.pk, experiment.pk, experiment.public_id, words)
    found = {condition for row in cells.values() for condition in row}
    conditions = tuple(sorted(found, key=lambda code: (name_condition(code).order, code)))
    models = Run.objects.filter(experiment=experiment).order_by().values("agent_model").distinct().count()
    return TaskMatrix(experiment, conditions, models, "", cells), problems


def _read_cells(suite: int, experiment: int, public_id: UUID, words: Words) -> dict[str, dict[str, MatrixCell]]:
    """One query."""
    by = ("task__key", "episode__run__condition")
    trials = Trial.objects.pooled().filter(task__suite=suite, episode__run__experiment=experiment)
    trials = trials.exclude(pk__in=words.closed_trials())
    counted = trials.exclude(phase=Phase.REPLAY).order_by().values(*by)
    cells: dict[str, dict[str, MatrixCell]] = {}
    for each in counted.annotate(**TALLY, first=Min("phase"), last=Max("phase")):
        key, condition = (each[name] for name in by)
        asked = {"experiment": public_id, "condition": condition, "task": key}
        if each["first"] == each["last"]:
            asked["phase"] = each["first"]
        rate = Rate(each["passed"], each["scored"], each["planned"])
        url = f"{reverse('compare-trials')}?{urlencode(asked)}"
        cells.setdefault(key, {})[condition] = MatrixCell(condition, rate, url)
    return cells


def judge_tasks(
    view: SuiteView,
    matrix: TaskMatrix,
    qualification: SuiteQualification | None,
    shipped: ShippedVerdicts | None,
) -> tuple[SuiteView, TaskMatrix]:
    """The view with the fit of each task: by its qualification in this state, or by the verdicts that came along, or by trials."""
    if qualification and qualification.is_of_this_state:
        fits = {
            each.key: judge_by_verdict(each.admission, each.reasons, [c.name for c in each.checks if c.kept is False])
            for each in qualification.tasks
        }
        source = "qualification"
    elif shipped:
        fits = {each["task"]: _read_shipped(each) for each in shipped["tasks"]}
        source = "shipped"
    else:
        fits = {key: _judge_row(cells) for key, cells in matrix.cells.items()}
        source = "trials"
    tasks = tuple(replace(task, fit=fits.get(task.key, TaskFit())) for task in view.tasks)
    return replace(view, tasks=tasks), replace(matrix, source=source if fits else "")


def _read_shipped(verdict: ShippedVerdict) -> TaskFit:
    broken = [each["check"] for each in verdict["checks"] if each["kept"] is False]
    return judge_by_verdict(verdict["verdict"], verdict["reasons"], broken)


def _judge_row(cells: Mapping[str, MatrixCell]) -> TaskFit:
    alone = sum((cell.rate for condition, cell in cells.items() if base_name(condition) == BARE), Rate())
    skilled = (cell.rate for condition, cell in cells.items() if base_name(condition) not in TRACES | {BARE})
    return judge_by_trials(alone, sum(skilled, Rate()))
