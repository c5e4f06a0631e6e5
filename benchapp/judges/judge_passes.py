"""A pass of a judging model over a run: begun once, continued until every question has its answer."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from django.db import transaction
from django.utils import timezone

from benchapp.judges.judge_questions import Asker
from benchapp.judges.judged_texts import Texts, find_earlier_points, material_of, oracle_of, read_brought_points
from benchapp.judges.judged_units import JudgeAsk, Work, about_points, work_of
from benchapp.models import Attempt, JudgedUnit, Judgement, Judging, Run, Snapshot, SnapshotFile, Task
from benchapp.models.judgements import SETTLED
from benchapp.record.slices import Budget, SliceOver, Stopped
from runner.base.encoding import decode
from runner.base.errors import SetupError
from runner.base.types import UseKind
from runner.judging.judge_prompts import steps_text, version_of
from runner.judging.judge_reply import Point
from runner.judging.metrics import HELD_AGAINST, SCORED, Metric, percent
from runner.models import Model
from runner.prompts.prompt_pack import PromptPack


@dataclass(slots=True)
class PassOutcome:
    """`units`: the status of all questions of the pass, including those of earlier calls."""

    judging: Judging
    budget: Budget
    units: Counter[str] = field(default_factory=Counter)
    stopped: str = ""
    goes_on: bool = False  # its slice of time is over, but not its work


def judge_run(
    run: Run,
    model: Model,
    metrics: Sequence[Metric] = SCORED,
    *,
    repeat: int = 1,
    budget: Budget,
    pack: PromptPack | None = None,
    skip: int = 0,
    after_task: Callable[[int, int], None] = lambda done, total: None,
) -> PassOutcome:
    """Ask about the run what these metrics need and is not answered yet. Raise SetupError if it is open, or the pass
    was begun with another version of the model.

    `skip`: tasks that an earlier slice finished. `after_task` gets the number done and the total after each task.
    """
    if run.is_open:
        raise SetupError(f"run {run.public_id} is {run.status}: wait until it has ended")
    judging = _begin(run, model, metrics, repeat, version_of(pack))
    outcome = PassOutcome(judging, budget)
    going = _Pass(judging, model, budget, set(metrics), pack)
    works = work_of(run)
    try:
        for done, work in enumerate(works[skip:], start=skip + 1):
            going.judge(work)
            after_task(done, len(works))
    except SliceOver:
        outcome.goes_on = True
    except Stopped as stop:
        outcome.stopped = str(stop)
    judging.stopped = outcome.stopped
    judging.finished_at = None if outcome.stopped or outcome.goes_on else timezone.now()
    judging.save(update_fields=["stopped", "finished_at"])
    Run.objects.filter(pk=run.pk).touch()  # its judged metrics changed
    outcome.units.update(judging.units.values_list("status", flat=True))
    return outcome


def _begin(run: Run, model: Model, metrics: Sequence[Metric], repeat: int, prompt_version: str) -> Judging:
    judging, _ = Judging.objects.get_or_create(
        run=run,
        model=model.name[:200],
        prompt_version=prompt_version,
        repeat=repeat,
        defaults={"model_version": model.version, "scripted": model.scripted, "started_at": timezone.now()},
    )
    if judging.model_version != model.version:
        raise SetupError(
            f"repeat {repeat} was begun with {model.name} of version {judging.model_version}, this one is "
            f"{model.version}: choose another --repeat"
        )
    asked = {*judging.metrics, *(metric.value for metric in metrics)}
    judging.metrics, judging.finished_at, judging.stopped = [each for each in SCORED if each in asked], None, ""
    judging.save(update_fields=["metrics", "finished_at", "stopped"])
    return judging


class _Pass:
    def __init__(
        self, judging: Judging, model: Model, budget: Budget, metrics: set[Metric], pack: PromptPack | None
    ) -> None:
        self.judging, self.metrics = judging, metrics
        self.texts = Texts()
        self.asker = Asker(judging, model, budget, self.texts.redactor, pack)

    def judge(self, work: Work) -> None:
        for snapshot in work.snapshots:
            self._library(work, snapshot)
        for attempt in work.attempts:
            self._attempt(work, attempt)

    # --- level 1 ------------------------------------------------------------------------------------------------

    def _library(self, work: Work, snapshot: Snapshot) -> None:
        if Metric.COVERAGE in self.metrics:
            whole = JudgeAsk(Metric.COVERAGE, work.task, snapshot=snapshot)
            for ask in self._about_points(whole, work, snapshot=snapshot):
                self.asker.answer(ask, {"Library": self.texts.library(snapshot), "Key point": ask.point})
        for metric in (Metric.EXECUTABILITY, Metric.SAFETY):
            if metric in self.metrics:
                for skill in self.texts.skills(snapshot):
                    ask = JudgeAsk(metric, work.task, snapshot=snapshot, skill=skill)
                    material = {"Task": self.texts.instruction(work.task), "Skill": self.texts.skill(snapshot, skill)}
                    self.asker.answer(ask, material)

    # --- level 2 ------------------------------------------------------------------------------------------------

    def _attempt(self, work: Work, attempt: Attempt) -> None:
        if Metric.USAGE in self.metrics:
            judge_usage(self.asker, work.task, attempt)
        asked = [metric for metric in (Metric.RECALL, Metric.ORDER, Metric.COMPLETENESS) if metric in self.metrics]
        if asked and not self.texts.trajectory(attempt):
            for metric in asked:
                self.asker.note(JudgeAsk(metric, work.task, attempt=attempt), JudgedUnit.Status.NO_TRAJECTORY)
            return
        for metric in asked:
            whole = JudgeAsk(metric, work.task, attempt=attempt)
            if metric is Metric.RECALL:
                for ask in self._about_points(whole, work, attempt=attempt):
                    self.asker.answer(ask, {"Trajectory": self.texts.trajectory(attempt), "Key point": ask.point})
            else:
                self._whole(whole, work, attempt)

    def _whole(self, ask: JudgeAsk, work: Work, attempt: Attempt) -> None:
        """Compare the whole trajectory with the steps of a run that solved the task."""
        steps = self._reference(work, Metric.ORACLE_STEPS)
        if isinstance(steps, JudgedUnit.Status):
            self.asker.note(ask, steps)
            return
        material = {
            "Task": self.texts.instruction(work.task, attempt),
            "Steps of a run that solved it": self.texts.redactor.text(steps_text(steps)),
            "Trajectory": self.texts.trajectory(attempt),
        }
        self.asker.answer(ask, material)

    # --- what they are compared with ----------------------------------------------------------------------------

    def _about_points(self, whole: JudgeAsk, work: Work, **unit: object) -> Iterator[JudgeAsk]:
        """Yield a question for each key point; without any, note why on the whole."""
        points = self._reference(work, HELD_AGAINST[whole.metric])
        if isinstance(points, JudgedUnit.Status):
            self.asker.note(whole, points)
            return
        self.judging.units.filter(key=whole.key).delete()  # noted when there was no reference yet
        safe = [replace(point, text=self.texts.redactor.text(point.text)) for point in points]
        yield from about_points(whole.metric, safe, work.task, **unit)

    def _reference(self, work: Work, metric: Metric) -> tuple[Point, ...] | JudgedUnit.Status:
        """Return the points, or why there are none: the suite says so, no trial solved it, or the judge failed."""
        found = read_brought_points(work.task)
        if found is not None:
            return found[metric] or JudgedUnit.Status.NO_POINTS
        unit = self._draw_points(work, metric)
        if unit is None:
            return JudgedUnit.Status.NO_REFERENCE
        points = tuple(decode(Point, point) for point in unit.points)
        if unit.status == JudgedUnit.Status.NO_POINTS:
            return JudgedUnit.Status.NO_POINTS
        return points or JudgedUnit.Status.NO_REFERENCE

    def _draw_points(self, work: Work, metric: Metric) -> JudgedUnit | None:
        ask = JudgeAsk(metric, work.task)
        before = self.judging.units.filter(key=ask.key, status=JudgedUnit.Status.OK).first()
        if before is not None:
            return before
        if (source := find_earlier_points(self.judging, work.task, metric)) is not None:
            unit = self.asker.note(ask, JudgedUnit.Status.OK)
            unit.points, unit.source = source.points, source
            unit.save(update_fields=["points", "source"])
            return unit
        attempt = oracle_of(work.task)
        material = material_of(metric, work.task, attempt, self.texts) if attempt else None
        return self.asker.answer(ask, material) if material else None


def judge_usage(asker: Asker, task: Task, attempt: Attempt) -> None:
    """Record one unit for an attempt that was given a skill, none for one without."""
    library = _library(attempt)
    ask = JudgeAsk(Metric.USAGE, task, attempt=attempt)
    if not library:
        return
    if attempt.trial.skills_read is None:
        asker.note(ask, JudgedUnit.Status.NO_TRAJECTORY)
        return
    unit = asker.unit(ask)
    if unit.status in SETTLED:
        return
    used = set(attempt.skill_uses.exclude(kind=UseKind.MOUNTED).values_list("skill", flat=True)) & library
    reason = f"{len(used)} of {len(library)}: {', '.join(sorted(used)) or 'none'}"
    with transaction.atomic():
        Judgement.objects.create(
            unit=unit, item="usage", raw=len(used) / len(library), value=percent(len(used), len(library)), reason=reason
        )
        asker.note(ask, JudgedUnit.Status.OK)


def _library(attempt: Attempt) -> set[str]:
    """Return folders of the snapshot with a SKILL.md; without a snapshot, what was seen to be mounted."""
    snapshot = attempt.trial.snapshot_id
    if snapshot is None:
        return set(attempt.skill_uses.filter(kind=UseKind.MOUNTED).values_list("skill", flat=True))
    files = SnapshotFile.objects.filter(snapshot=snapshot, path__endswith="/SKILL.md")
    return {skill for path, skill in files.values_list("path", "skill") if path == f"{skill}/SKILL.md"}
