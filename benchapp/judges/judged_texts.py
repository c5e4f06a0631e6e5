"""What a judge is shown of the record, and what runs are compared with: key points and main steps of a task.

Texts are redacted before they are sent and kept. A suite may provide key points. Otherwise the judge draws them once
from a trial that solved the task with human-written skills, and every later pass of the same model and prompts reuses
them: two runs can only be compared on the same key points.
"""

from __future__ import annotations

from functools import lru_cache

from django.db.models import Case, IntegerField, Q, QuerySet, Value, When

from benchapp.models import Attempt, JudgedUnit, Judging, KeyPoint, Snapshot, Task, TaskRevision
from benchapp.record.redaction import Redactor, own_secrets
from benchapp.record.trajectory_store import iterate_steps
from runner.base.text import cut, storable
from runner.judging.judge_prompts import MAX_INSTRUCTION_CHARS
from runner.judging.judge_reply import Point
from runner.judging.judged_texts import library_text, skill_text, skills_of, trajectory_text
from runner.judging.metrics import Metric


class Texts:
    """The texts of one pass. Holds a few at a time; questions are ordered by what they are about."""

    def __init__(self) -> None:
        self.redactor = Redactor(own_secrets())
        self._files = lru_cache(maxsize=2)(Snapshot.read)
        self.library = lru_cache(maxsize=2)(self._read_library)
        self.trajectory = lru_cache(maxsize=2)(self._read_trajectory)
        self._instruction = lru_cache(maxsize=8)(self._read_instruction)

    def instruction(self, task: Task, attempt: Attempt | None = None) -> str:
        """Return the attempt's instruction, else the current one; "" if the record does not hold it."""
        revision = attempt.trial.task_revision if attempt else None
        return self._instruction(task.pk, revision.pk if revision else None)

    def skills(self, snapshot: Snapshot) -> list[str]:
        return list(skills_of(self._files(snapshot)))

    def skill(self, snapshot: Snapshot, skill: str) -> str:
        return self._safe(skill_text(skill, skills_of(self._files(snapshot))[skill]))

    def _read_library(self, snapshot: Snapshot) -> str:
        return self._safe(library_text(self._files(snapshot)))

    def _read_trajectory(self, attempt: Attempt) -> str:
        """Return every trajectory of the attempt; "" if none can be read."""
        found = attempt.trajectories.filter(is_superseded=False, chunks__isnull=False).distinct()
        rows = list(found.order_by("ordinal", "id"))
        if not rows:
            return ""
        return self._safe(trajectory_text((row.name, iterate_steps(row)) for row in rows))

    def _read_instruction(self, task: int, revision: int | None) -> str:
        rows = TaskRevision.objects.select_related("instruction").exclude(instruction=None)
        given = rows.filter(pk=revision).first() if revision else None
        found = given or rows.filter(task=task).order_by("-pk").first()
        text = found.instruction.text() if found and found.instruction else ""
        return self._safe(cut(text, MAX_INSTRUCTION_CHARS))

    def _safe(self, text: str) -> str:
        # Piece by piece: `storable` limits one field of the record, and a trajectory is larger.
        return self.redactor.text("\n".join(storable(line) for line in text.split("\n")))


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
