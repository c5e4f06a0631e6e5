"""Which questions a run raises: libraries that its tasks were given, and attempts at them.

Trials with a sealed library are judged: evaluation and deployment, of episodes that are not tainted. The benchmark does
not measure what was tried while the library was written. An import may hold libraries alone; they are judged for every
task of their family.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from django.db.models import Q

from benchapp.models import Attempt, Episode, Run, Snapshot, Task, Trial
from runner.base.digests import digest_bytes
from runner.base.types import Phase
from runner.judging.judge_reply import Point
from runner.judging.metrics import Metric

PHASES = (Phase.EVALUATION, Phase.DEPLOYMENT)
POINT_CHARS = 12  # of a key point's digest, enough among those of one task


@dataclass(frozen=True, slots=True)
class JudgeAsk:
    """One question, not yet a unit. `number` distinguishes key points with equal words."""

    metric: Metric
    task: Task
    snapshot: Snapshot | None = None
    skill: str = ""
    attempt: Attempt | None = None
    point: str = ""
    number: int = 0

    @property
    def key(self) -> str:
        """Return a key that is equal in every copy of the record, so that repeats and archives can be compared."""
        parts = [self.metric.value, self.task.suite.key, self.task.key]
        if self.snapshot is not None:
            parts += [self.snapshot.digest[:16], self.skill]
        if self.attempt is not None:
            parts.append(str(self.attempt.public_id))
        if self.point:
            parts.append(f"{digest_bytes(self.point.encode())[:POINT_CHARS]}-{self.number}")
        whole = "/".join(parts)
        return whole if len(whole) <= 600 else f"{whole[:500]}/{digest_bytes(whole.encode())}"


@dataclass(frozen=True, slots=True)
class Work:
    """What can be judged of one task in a run."""

    task: Task
    snapshots: tuple[Snapshot, ...]  # libraries with a skill in them, that trials of the task were given
    attempts: tuple[Attempt, ...]  # the counting ones, in order of samples; each with its trial


def work_of(run: Run) -> list[Work]:
    """Return work task by task, in the order of the suite."""
    libraries: dict[Task, dict[int, Snapshot]] = {}
    attempts: dict[Task, list[Attempt]] = {}
    for attempt in _attempts(run):
        task, snapshot = attempt.trial.task, attempt.trial.snapshot
        attempts.setdefault(task, []).append(attempt)
        if snapshot is not None and snapshot.skills_total:
            libraries.setdefault(task, {})[snapshot.pk] = snapshot
    for task, snapshot in _iterate_untried(run):
        libraries.setdefault(task, {})[snapshot.pk] = snapshot
    tasks = sorted({*libraries, *attempts}, key=_place)
    return [Work(task, tuple(libraries.get(task, {}).values()), tuple(attempts.get(task, ()))) for task in tasks]


def _attempts(run: Run) -> Iterable[Attempt]:
    trials = Trial.objects.filter(Q(episode__run=run, episode__is_tainted=False, is_done=True, phase__in=PHASES))
    found = Attempt.objects.filter(trial__in=trials, counts=True)
    related = ("trial__task__family", "trial__task__suite", "trial__snapshot", "trial__task_revision")
    return found.select_related(*related).order_by("trial__sample", "trial_id")


def _iterate_untried(run: Run) -> Iterator[tuple[Task, Snapshot]]:
    """Yield (task, library) of the episodes without trials."""
    episodes = Episode.objects.filter(run=run, is_tainted=False, trials=None, library__skills_total__gt=0)
    for episode in episodes.select_related("library").exclude(family=None):
        for task in Task.objects.filter(family=episode.family_id).select_related("family", "suite"):
            assert episode.library is not None, "filtered above"
            yield task, episode.library


def _place(task: Task) -> tuple[int, str, int, str]:
    family = task.family
    return (family.ordinal if family else 0, family.key if family else "", task.ordinal, task.key)


def about_points(metric: Metric, points: Iterable[Point], task: Task, **unit: object) -> Iterator[JudgeAsk]:
    """Yield one question for each key point, also for repeated words."""
    seen: dict[str, int] = {}
    for point in points:
        seen[point.text] = seen.get(point.text, 0) + 1
        yield JudgeAsk(metric, task, point=point.text, number=seen[point.text], **unit)  # type: ignore[arg-type]
