"""`/compare/where/`: tasks by conditions, one square a trial."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from django.core.paginator import Page
from django.http import HttpRequest, HttpResponse
from django.views.decorators.http import require_safe

from benchapp.models import Square, Task
from benchapp.record.json_shape import JsonShape
from benchapp.stats.comparing.answer import Answer, JudgedGroup
from benchapp.stats.comparing.comparison import GroupComparison
from benchapp.stats.comparing.condition_names import name_condition
from benchapp.stats.comparing.groups import Group
from benchapp.stats.comparing.narrowing import Narrowing, trials_behind
from benchapp.stats.inference.interval import ZERO
from benchapp.stats.inference.sides import pair
from benchapp.stats.metrics.amounts import render_change
from benchapp.stats.metrics.catalogue import name_metric
from benchapp.stats.metrics.metric import TrialMetric
from inspector.charts import OF_PAGES
from inspector.charts.cards import build_gallery
from inspector.charts.chart_request import sheet_of
from inspector.pages.compare.results import begin_page, begin_twin
from inspector.web.responses import address_of_any, next_url, paginate, render_page

TASKS_PER_PAGE = 40
GROUPS_PER_PAGE = 8
MOST_SQUARES = 12  # of one task in one group; more are counted


@dataclass(frozen=True, slots=True)
class TaskCell:
    """The trials of one task in one group."""

    group: Group
    squares: tuple[Square, ...]

    @property
    def passed(self) -> int:
        return sum(square.success is True for square in self.squares)

    @property
    def scored(self) -> int:
        return sum(square.success is not None for square in self.squares)

    @property
    def is_drawn(self) -> bool:
        return 0 < len(self.squares) <= MOST_SQUARES


@dataclass(frozen=True, slots=True)
class TaskRow:
    """`gain`: of the best condition over its baseline, in the metric's unit; None where the two do not share the task. `change`: that
    in words."""

    task: Task
    cells: tuple[TaskCell, ...]
    gain: float | None
    change: str


CELL = JsonShape("label=group.label", "passed", "scored", ("trials", lambda cell: len(cell.squares)))
ROW = JsonShape(
    *("task=task.key", ("family", lambda row: row.task.family.key if row.task.family else None), "role=task.role"),
    "gain",
    ("groups", lambda row: CELL.read_all(row.cells)),
)


@require_safe
def where(request: HttpRequest, *, as_json: bool = False) -> HttpResponse:
    sheet = sheet_of(request)
    comparison, metric = sheet.comparison, sheet.metric
    covered = [each for each in sheet.groups if metric and comparison.cell(each, metric).rate.planned]
    groups = paginate(request, covered, per_page=GROUPS_PER_PAGE, name="groups")
    tasks = paginate(request, _list_tasks(comparison, metric), per_page=TASKS_PER_PAGE)
    best = Answer(comparison, metric).best if metric else None
    # Task pk -> what the best condition gains on it, over the tasks that it shares with its baseline.
    paired = pair(*comparison.sides(best.group, best.baseline, best.metric)) if best else None
    gains = dict(zip(paired.task.tolist(), paired.delta.tolist(), strict=True)) if paired else {}
    rows = _read_rows(comparison, metric, groups, tasks, gains) if metric else []
    data = {
        **begin_twin(request, sheet),
        "metric": metric.key if metric else None,
        "tasks": ROW.read_all(rows),
        "groups_next": next_url(request, groups, name="groups"),
        "next": next_url(request, tasks),
    }
    context = {
        **begin_page(comparison, "compare-where"),
        "answer": _write_answer(best, gains),
        "best": best,
        "has_unscored": any(cell.scored < len(cell.squares) for row in rows for cell in row.cells),
        "name": name_metric(metric) if metric else None,
        "groups": groups,
        "tasks": tasks,
        "rows": rows,
        "several_models": len({group.agent_model for group in comparison.groups.all}) > 1,
        "trial_address": address_of_any("trial"),
        "gallery": build_gallery(OF_PAGES["compare-where"], sheet),
    }
    return render_page(request, "compare/compare_where.html", data=data, context=context, as_json=as_json)


def _list_tasks(comparison: GroupComparison, metric: TrialMetric | None) -> list[Task]:
    """Return the tasks that the metric counts, family by family."""
    if metric is None:
        return []
    covered = [metric.select_covered(outcomes).task for outcomes in comparison.outcomes.values()]
    keys = np.unique(np.concatenate(covered)).tolist() if covered else []
    found = Task.objects.select_related("family").in_bulk(keys)

    def place(task: Task) -> tuple[object, ...]:
        family = task.family
        return family is None, (family.ordinal, family.key) if family else (0, ""), task.ordinal, task.key

    return sorted(found.values(), key=place)


def _read_rows(
    comparison: GroupComparison, metric: TrialMetric, groups: Page[Group], tasks: Page[Task], gains: Mapping[int, float]
) -> list[TaskRow]:
    """One query for the trials of these tasks."""
    group_of = {
        trial: group
        for group in groups
        for outcomes in comparison.of_group(group)
        for trial in metric.select_covered(outcomes).trial.tolist()
    }
    found: dict[tuple[int, object], list[Square]] = {}
    shown = trials_behind(comparison.choices, Narrowing(covered=metric.key)).filter(task__in=list(tasks))
    for square in shown.for_grid():
        if group := group_of.get(square.pk):
            found.setdefault((square.task_id, group.identity), []).append(square)
    return [
        TaskRow(
            task,
            tuple(TaskCell(group, tuple(found.get((task.pk, group.identity), ()))) for group in groups),
            gain := gains.get(task.pk),
            "" if gain is None else render_change(gain, metric.unit).removesuffix(".0"),
        )
        for task in tasks
    ]


def _write_answer(best: JudgedGroup | None, gains: Mapping[int, float]) -> str:
    """Say on how many tasks the best condition gains and loses; empty where nothing has a baseline."""
    if best is None or not gains:
        return ""
    more, less = (sum(sign * gain > ZERO for gain in gains.values()) for sign in (1, -1))
    who, tasks = name_condition(best.group.condition).title, name_metric(best.metric).tasks
    return f"{who} gains on {more} of {len(gains)} {tasks} and loses on {less or 'none'}."
