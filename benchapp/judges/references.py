"""What runs are compared with: key points and main steps of a task.

A suite may provide them. Otherwise the judge draws them once from a trial that solved the task with human-written
skills, and every later pass of the same model and prompts reuses them: two runs can only be compared on the same key
points.
"""

from __future__ import annotations

from django.db.models import Case, IntegerField, Q, QuerySet, Value, When

from benchapp.judges.judged_texts import Texts
from benchapp.models import Attempt, JudgedUnit, Judging, KeyPoint, Task
from runner.judging.judge_reply import Point
from runner.judging.metrics import Metric

KINDS = {
    Metric.SKILL_POINTS: KeyPoint.Kind.SKILL,
    Metric.TRAJECTORY_POINTS: KeyPoint.Kind.TRAJECTORY,
    Metric.ORACLE_STEPS: KeyPoint.Kind.ORACLE,
}
HUMAN = Q(trial__episode__run__condition__startswith="human") | Q(trial__episode__run__condition="curated-static")
ORACLE = Q(trial__episode__run__setup__name="oracle")  # importers' name for a run that shows how a task is done


def read_brought_points(task: Task) -> dict[Metric, tuple[Point, ...]] | None:
    """Return the suite's points. None if it provides none at all: an empty list means "no key points"."""
    rows = list(task.key_points.order_by("kind", "ordinal"))
    if not rows:
        return None
    return {
        metric: tuple(Point(row.text, row.reason, row.reference) for row in rows if row.kind == kind)
        for metric, kind in KINDS.items()
    }


def find_earlier_points(judging: Judging, task: Task, metric: Metric) -> JudgedUnit | None:
    """Return the first that any pass of this model and these prompts has drawn for the task."""
    found = JudgedUnit.objects.filter(
        judging__model=judging.model,
        judging__model_version=judging.model_version,
        judging__prompt_version=judging.prompt_version,
        judging__run__experiment__deleted_at=None,
        task=task,
        metric=metric,
        status=JudgedUnit.Status.OK,
        source=None,
    )
    return found.exclude(judging=judging).order_by("pk").first()


def oracle_of(task: Task) -> Attempt | None:
    """Return the first readable attempt that solved the task with human-authored skills, not the nearest to a run:
    every run is compared with the same. A solved trial comes before an oracle's log, which has no verdict."""
    solved = Q(trial__success=True) & HUMAN
    sure = Case(When(trial__success=True, then=Value(0)), default=Value(1), output_field=IntegerField())
    found = _readable().filter(solved | (ORACLE & ~Q(trial__success=False)), trial__task=task)
    return found.order_by(sure, "pk").first()


def _readable() -> QuerySet[Attempt]:
    found = Attempt.objects.filter(
        counts=True,
        trial__episode__run__experiment__deleted_at=None,
        trajectories__kind="main",
        trajectories__is_superseded=False,
        trajectories__chunks__isnull=False,
    )
    return found.select_related("trial__snapshot", "trial__task_revision").distinct()


def material_of(metric: Metric, task: Task, attempt: Attempt, texts: Texts) -> dict[str, str] | None:
    """Return what a reference is drawn from; None if it needs the attempt's skills and they are unknown."""
    material = {"Task": texts.instruction(task, attempt), "Trajectory": texts.trajectory(attempt)}
    if metric is not Metric.SKILL_POINTS:
        return material
    snapshot = attempt.trial.snapshot
    if snapshot is None or not snapshot.skills_total:
        return None
    return {"Task": material["Task"], "Skills": texts.library(snapshot), "Trajectory": material["Trajectory"]}
