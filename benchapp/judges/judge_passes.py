"""A pass of a judging model over a run: begun once, continued until every question has its answer.

A try is recorded before it is made, and its reply is committed before it is read. So a killed pass loses at most the
reply under way: when continued, it reads what is recorded and asks only for the rest.

Runs are compared on key points and main steps of a task. A suite may provide key points. Otherwise the judge draws them
once from a trial that solved the task with human-written skills, and every later pass of the same model and prompts
reuses them: two runs can only be compared on the same key points.

A run raises questions about the libraries that its tasks were given, and about attempts at them. Trials with a sealed
library are judged: evaluation and deployment, of episodes that are not tainted. The benchmark does not measure what
was tried while the library was written. An import may hold libraries alone; they are judged for every task of their
family.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

import orjson
from django.db import transaction
from django.db.models import Case, IntegerField, Q, Value, When
from django.utils import timezone

from benchapp import models
from benchapp.models.judgements import SETTLED
from benchapp.record.error_text import render_error
from benchapp.record.redaction import Redactor, own_secrets
from benchapp.record.slices import Budget, SliceOver, Stopped
from benchapp.record.trajectory_store import iterate_steps
from runner.base.digests import canonical_json, digest_bytes
from runner.base.encoding import decode, encode
from runner.base.errors import AccountRefused, KeyRefused, ModelRefused, ModelUnavailable, SetupError
from runner.base.text import cut, storable
from runner.base.types import ModelReply, ModelRequest, Phase, UseKind
from runner.engine.toolbox import Cleaner
from runner.judging.judge_prompts import MAX_INSTRUCTION_CHARS, request_for, steps_text, version_of
from runner.judging.judge_reply import Point, Settled, settle
from runner.judging.judged_texts import library_text, skill_text, skills_of, trajectory_text
from runner.judging.metrics import (
    GOOD,
    HELD_AGAINST,
    REFERENCES,
    SCORED,
    Form,
    Metric,
    form_of,
    normalise_score,
    percent,
)
from runner.models import Model, price_table_of
from runner.prompts.prompt_pack import PromptPack

PHASES = (Phase.EVALUATION, Phase.DEPLOYMENT)
POINT_CHARS = 12  # of a key point's digest, enough among those of one task


@dataclass(frozen=True, slots=True)
class JudgeAsk:
    """One question, not yet a unit. `number` distinguishes key points with equal words."""

    metric: Metric
    task: models.Task
    snapshot: models.Snapshot | None = None
    skill: str = ""
    attempt: models.Attempt | None = None
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

    task: models.Task
    snapshots: tuple[models.Snapshot, ...]  # libraries with a skill in them, that trials of the task were given
    attempts: tuple[models.Attempt, ...]  # the counting ones, in order of samples; each with its trial


def work_of(run: models.Run) -> list[Work]:
    """Return work task by task, in the order of the suite."""
    libraries: dict[models.Task, dict[int, models.Snapshot]] = {}
    attempts: dict[models.Task, list[models.Attempt]] = {}
    for attempt in _attempts(run):
        task, snapshot = attempt.trial.task, attempt.trial.snapshot
        attempts.setdefault(task, []).append(attempt)
        if snapshot is not None and snapshot.skills_total:
            libraries.setdefault(task, {})[snapshot.pk] = snapshot
    for task, snapshot in _iterate_untried(run):
        libraries.setdefault(task, {})[snapshot.pk] = snapshot
    tasks = sorted({*libraries, *attempts}, key=_place)
    return [Work(task, tuple(libraries.get(task, {}).values()), tuple(attempts.get(task, ()))) for task in tasks]


def _attempts(run: models.Run) -> Iterable[models.Attempt]:
    trials = models.Trial.objects.filter(Q(episode__run=run, episode__is_tainted=False, is_done=True, phase__in=PHASES))
    found = models.Attempt.objects.filter(trial__in=trials, counts=True)
    related = ("trial__task__family", "trial__task__suite", "trial__snapshot", "trial__task_revision")
    return found.select_related(*related).order_by("trial__sample", "trial_id")


def _iterate_untried(run: models.Run) -> Iterator[tuple[models.Task, models.Snapshot]]:
    """Yield (task, library) of the episodes without trials."""
    episodes = models.Episode.objects.filter(run=run, is_tainted=False, trials=None, library__skills_total__gt=0)
    for episode in episodes.select_related("library").exclude(family=None):
        for task in models.Task.objects.filter(family=episode.family_id).select_related("family", "suite"):
            assert episode.library is not None, "filtered above"
            yield task, episode.library


def _place(task: models.Task) -> tuple[int, str, int, str]:
    family = task.family
    return (family.ordinal if family else 0, family.key if family else "", task.ordinal, task.key)


def about_points(metric: Metric, points: Iterable[Point], task: models.Task, **unit: object) -> Iterator[JudgeAsk]:
    """Yield one question for each key point, also for repeated words."""
    seen: dict[str, int] = {}
    for point in points:
        seen[point.text] = seen.get(point.text, 0) + 1
        yield JudgeAsk(metric, task, point=point.text, number=seen[point.text], **unit)  # type: ignore[arg-type]


MAX_ERROR_CHARS = 4_000
# Their answers are in judgements, or in points.
ANSWERED = (models.JudgedUnit.Status.OK, models.JudgedUnit.Status.PARTIAL)
FAILURES_IN_A_ROW = 3  # units without a reply before the provider counts as down


@dataclass(slots=True)
class PassOutcome:
    """`units`: the status of all questions of the pass, including those of earlier calls."""

    judging: models.Judging
    budget: Budget
    units: Counter[str] = field(default_factory=Counter)
    stopped: str = ""
    goes_on: bool = False  # its slice of time is over, but not its work


def judge_run(
    run: models.Run,
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
    judging, _ = models.Judging.objects.get_or_create(
        run=run,
        model=model.name[:200],
        prompt_version=version_of(pack),
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
    models.Run.objects.filter(pk=run.pk).touch()  # its judged metrics changed
    outcome.units.update(judging.units.values_list("status", flat=True))
    return outcome


class _Pass:
    def __init__(
        self, judging: models.Judging, model: Model, budget: Budget, metrics: set[Metric], pack: PromptPack | None
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

    def _library(self, work: Work, snapshot: models.Snapshot) -> None:
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

    def _attempt(self, work: Work, attempt: models.Attempt) -> None:
        if Metric.USAGE in self.metrics:
            judge_usage(self.asker, work.task, attempt)
        asked = [metric for metric in (Metric.RECALL, Metric.ORDER, Metric.COMPLETENESS) if metric in self.metrics]
        if asked and not self.texts.trajectory(attempt):
            for metric in asked:
                self.asker.note(JudgeAsk(metric, work.task, attempt=attempt), models.JudgedUnit.Status.NO_TRAJECTORY)
            return
        for metric in asked:
            whole = JudgeAsk(metric, work.task, attempt=attempt)
            if metric is Metric.RECALL:
                for ask in self._about_points(whole, work, attempt=attempt):
                    self.asker.answer(ask, {"Trajectory": self.texts.trajectory(attempt), "Key point": ask.point})
            else:
                self._whole(whole, work, attempt)

    def _whole(self, ask: JudgeAsk, work: Work, attempt: models.Attempt) -> None:
        """Compare the whole trajectory with the steps of a run that solved the task."""
        steps = self._reference(work, Metric.ORACLE_STEPS)
        if isinstance(steps, models.JudgedUnit.Status):
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
        if isinstance(points, models.JudgedUnit.Status):
            self.asker.note(whole, points)
            return
        self.judging.units.filter(key=whole.key).delete()  # noted when there was no reference yet
        safe = [replace(point, text=self.texts.redactor.text(point.text)) for point in points]
        yield from about_points(whole.metric, safe, work.task, **unit)

    def _reference(self, work: Work, metric: Metric) -> tuple[Point, ...] | models.JudgedUnit.Status:
        """Return the points, or why there are none: the suite says so, no trial solved it, or the judge failed."""
        found = read_brought_points(work.task)
        if found is not None:
            return found[metric] or models.JudgedUnit.Status.NO_POINTS
        unit = self._draw_points(work, metric)
        if unit is None:
            return models.JudgedUnit.Status.NO_REFERENCE
        points = tuple(decode(Point, point) for point in unit.points)
        if unit.status == models.JudgedUnit.Status.NO_POINTS:
            return models.JudgedUnit.Status.NO_POINTS
        return points or models.JudgedUnit.Status.NO_REFERENCE

    def _draw_points(self, work: Work, metric: Metric) -> models.JudgedUnit | None:
        ask = JudgeAsk(metric, work.task)
        before = self.judging.units.filter(key=ask.key, status=models.JudgedUnit.Status.OK).first()
        if before is not None:
            return before
        if (source := find_earlier_points(self.judging, work.task, metric)) is not None:
            unit = self.asker.note(ask, models.JudgedUnit.Status.OK)
            unit.points, unit.source = source.points, source
            unit.save(update_fields=["points", "source"])
            return unit
        attempt = oracle_of(work.task)
        material = material_of(metric, work.task, attempt, self.texts) if attempt else None
        return self.asker.answer(ask, material) if material else None


def judge_usage(asker: Asker, task: models.Task, attempt: models.Attempt) -> None:
    """Record one unit for an attempt that was given a skill, none for one without."""
    library = _library(attempt)
    ask = JudgeAsk(Metric.USAGE, task, attempt=attempt)
    if not library:
        return
    if attempt.trial.skills_read is None:
        asker.note(ask, models.JudgedUnit.Status.NO_TRAJECTORY)
        return
    unit = asker.unit(ask)
    if unit.status in SETTLED:
        return
    used = set(attempt.skill_uses.exclude(kind=UseKind.MOUNTED).values_list("skill", flat=True)) & library
    reason = f"{len(used)} of {len(library)}: {', '.join(sorted(used)) or 'none'}"
    with transaction.atomic():
        models.Judgement.objects.create(
            unit=unit, item="usage", raw=len(used) / len(library), value=percent(len(used), len(library)), reason=reason
        )
        asker.note(ask, models.JudgedUnit.Status.OK)


def _library(attempt: models.Attempt) -> set[str]:
    """Return folders of the snapshot with a SKILL.md; without a snapshot, what was seen to be mounted."""
    snapshot = attempt.trial.snapshot_id
    if snapshot is None:
        return set(attempt.skill_uses.filter(kind=UseKind.MOUNTED).values_list("skill", flat=True))
    files = models.SnapshotFile.objects.filter(snapshot=snapshot, path__endswith="/SKILL.md")
    return {skill for path, skill in files.values_list("path", "skill") if path == f"{skill}/SKILL.md"}


class Texts:
    """The texts of one pass, redacted before they are sent and kept.
    Holds a few at a time; questions are ordered by what they are about."""

    def __init__(self) -> None:
        self.redactor = Redactor(own_secrets())
        self._files = lru_cache(maxsize=2)(models.Snapshot.read)
        self.library = lru_cache(maxsize=2)(self._read_library)
        self.trajectory = lru_cache(maxsize=2)(self._read_trajectory)
        self._instruction = lru_cache(maxsize=8)(self._read_instruction)

    def instruction(self, task: models.Task, attempt: models.Attempt | None = None) -> str:
        """Return the attempt's instruction, else the current one; "" if the record does not hold it."""
        revision = attempt.trial.task_revision if attempt else None
        return self._instruction(task.pk, revision.pk if revision else None)

    def skills(self, snapshot: models.Snapshot) -> list[str]:
        return list(skills_of(self._files(snapshot)))

    def skill(self, snapshot: models.Snapshot, skill: str) -> str:
        return self._safe(skill_text(skill, skills_of(self._files(snapshot))[skill]))

    def _read_library(self, snapshot: models.Snapshot) -> str:
        return self._safe(library_text(self._files(snapshot)))

    def _read_trajectory(self, attempt: models.Attempt) -> str:
        """Return every trajectory of the attempt; "" if none can be read."""
        found = attempt.trajectories.current().filter(chunks__isnull=False).distinct()
        rows = list(found.order_by("ordinal", "id"))
        if not rows:
            return ""
        return self._safe(trajectory_text((row.name, iterate_steps(row)) for row in rows))

    def _read_instruction(self, task: int, revision: int | None) -> str:
        rows = models.TaskRevision.objects.select_related("instruction").exclude(instruction=None)
        given = rows.filter(pk=revision).first() if revision else None
        found = given or rows.filter(task=task).order_by("-pk").first()
        text = found.instruction.text() if found and found.instruction else ""
        return self._safe(cut(text, MAX_INSTRUCTION_CHARS))

    def _safe(self, text: str) -> str:
        # Piece by piece: `storable` limits one field of the record, and a trajectory is larger.
        return self.redactor.text("\n".join(storable(line) for line in text.split("\n")))


KINDS = {
    Metric.SKILL_POINTS: models.KeyPoint.Kind.SKILL,
    Metric.TRAJECTORY_POINTS: models.KeyPoint.Kind.TRAJECTORY,
    Metric.ORACLE_STEPS: models.KeyPoint.Kind.ORACLE,
}
HUMAN = Q(trial__episode__run__condition__startswith="human") | Q(trial__episode__run__condition="curated-static")
ORACLE = Q(trial__episode__run__setup__name="oracle")  # importers' name for a run that shows how a task is done


def read_brought_points(task: models.Task) -> dict[Metric, tuple[Point, ...]] | None:
    """Return the suite's points. None if it provides none at all: an empty list means "no key points"."""
    rows = list(task.key_points.order_by("kind", "ordinal"))
    if not rows:
        return None
    return {
        metric: tuple(Point(row.text, row.reason, row.reference) for row in rows if row.kind == kind)
        for metric, kind in KINDS.items()
    }


def find_earlier_points(judging: models.Judging, task: models.Task, metric: Metric) -> models.JudgedUnit | None:
    """Return the first that any pass of this model and these prompts has drawn for the task."""
    found = models.JudgedUnit.objects.filter(
        judging__model=judging.model,
        judging__model_version=judging.model_version,
        judging__prompt_version=judging.prompt_version,
        judging__run__experiment__deleted_at=None,
        task=task,
        metric=metric,
        status=models.JudgedUnit.Status.OK,
        source=None,
    )
    return found.exclude(judging=judging).order_by("pk").first()


def oracle_of(task: models.Task) -> models.Attempt | None:
    """Return the first readable attempt that solved the task with human-authored skills, not the nearest to a run:
    every run is compared with the same. A solved trial comes before an oracle's log, which has no verdict."""
    solved = Q(trial__success=True) & HUMAN
    sure = Case(When(trial__success=True, then=Value(0)), default=Value(1), output_field=IntegerField())
    found = models.Attempt.objects.filter(
        solved | (ORACLE & ~Q(trial__success=False)),
        trial__task=task,
        counts=True,
        trial__episode__run__experiment__deleted_at=None,
        trajectories__kind="main",
        trajectories__is_superseded=False,
        trajectories__chunks__isnull=False,
    )
    return found.select_related("trial__snapshot", "trial__task_revision").distinct().order_by(sure, "pk").first()


def material_of(metric: Metric, task: models.Task, attempt: models.Attempt, texts: Texts) -> dict[str, str] | None:
    """Return what a reference is drawn from; None if it needs the attempt's skills and they are unknown."""
    material = {"Task": texts.instruction(task, attempt), "Trajectory": texts.trajectory(attempt)}
    if metric is not Metric.SKILL_POINTS:
        return material
    snapshot = attempt.trial.snapshot
    if snapshot is None or not snapshot.skills_total:
        return None
    return {"Task": material["Task"], "Skills": texts.library(snapshot), "Trajectory": material["Trajectory"]}


class NoReply(Exception):
    """The provider gave no answer to this question; others may still get theirs."""


@dataclass(slots=True)
class Asker:
    judging: models.Judging
    model: Model
    budget: Budget
    redactor: Redactor
    pack: PromptPack | None = None  # replaces our prompts for the questions it covers
    failures: int = 0

    def unit(self, ask: JudgeAsk) -> models.JudgedUnit:
        """Return its row, created if missing."""
        fields = {
            "metric": ask.metric,
            "task": ask.task,
            "snapshot": ask.snapshot,
            "skill": ask.skill,
            "attempt": ask.attempt,
            "point": ask.point,
        }
        return models.JudgedUnit.objects.get_or_create(judging=self.judging, key=ask.key, defaults=fields)[0]

    def note(self, ask: JudgeAsk, status: models.JudgedUnit.Status) -> models.JudgedUnit:
        """Note a unit that cannot, or need not, be asked about. An earlier answer stays."""
        unit = self.unit(ask)
        if unit.status not in (status, *ANSWERED):
            unit.status = status
            unit.save(update_fields=["status"])
        return unit

    def answer(self, ask: JudgeAsk, material: Mapping[str, str]) -> models.JudgedUnit:
        """Return the unit settled, if necessary. Raise Stopped if the budget is spent or the provider is down."""
        unit = self.unit(ask)
        if unit.status in SETTLED:
            return unit
        # References are drawn once for all repeats, which could not be paired on different key points.
        repeat = 1 if ask.metric in REFERENCES else self.judging.repeat
        request = request_for(ask.metric, material, seed_of(repeat, ask.key), self.pack)
        try:
            settled = settle(request, form_of(ask.metric), lambda asked, number: self.read_or_call(unit, asked))
        except NoReply as error:
            unit.status, unit.problem = models.JudgedUnit.Status.FAILED, str(error)
            unit.save(update_fields=["status", "problem"])
            self.failures += 1
            if self.failures >= FAILURES_IN_A_ROW:
                reason = f"{self.failures} questions in a row got no reply; the last: {unit.problem[:500]}"
                raise Stopped(reason) from error
            return unit
        self.failures = 0
        return _keep(unit, settled, form_of(ask.metric))

    def read_or_call(self, unit: models.JudgedUnit, request: ModelRequest) -> ModelReply:
        """Return the reply on record to this request, else make the call."""
        asked = digest_bytes(canonical_json(encode(request)))
        replied = unit.tries.filter(request=asked).exclude(reply=None).select_related("reply").first()
        if replied is not None and replied.reply is not None:
            return decode(ModelReply, orjson.loads(replied.reply.content()))
        return self.call(unit, request)

    def call(self, unit: models.JudgedUnit, request: ModelRequest) -> ModelReply:
        """Make one call and record it. Raise NoReply if another question may succeed; Stopped if none will."""
        self.budget.check()
        row = _begin_try(unit, request)
        self.budget.used_calls += 1
        try:
            reply = self.model.complete(request)
        except (ModelRefused, ModelUnavailable, SetupError) as error:
            message = self.redactor.text(storable(str(error)))[:MAX_ERROR_CHARS]
            models.JudgingTry.objects.filter(pk=row.pk).update(error=message)
            if isinstance(error, KeyRefused | AccountRefused | SetupError):
                models.JudgedUnit.objects.filter(pk=unit.pk).update(
                    status=models.JudgedUnit.Status.FAILED, problem=message
                )
                raise Stopped(render_error(type(error).__name__, message[:500])) from error
            raise NoReply(render_error(type(error).__name__, message)) from error
        self.budget.note(reply.usage.cost_usd)
        reply = Cleaner(lambda text: self.redactor.text(storable(text))).reply(
            replace(reply, tool_calls=(), carried=None)  # a judge's answer is never continued
        )
        with transaction.atomic():  # a sweep between the two would remove the reply
            models.JudgingTry.objects.filter(pk=row.pk).update(
                reply_id=models.Blob.objects.put(canonical_json(encode(reply))),
                input_tokens=reply.usage.input_tokens,
                output_tokens=reply.usage.output_tokens,
                cost_usd=reply.usage.cost_usd,
                price_table=price_table_of(self.model, reply.usage)[:64],
            )
        return reply


@transaction.atomic
def _begin_try(unit: models.JudgedUnit, request: ModelRequest) -> models.JudgingTry:
    """Record the try with its request, together: a sweep takes contents that nothing refers to."""
    return models.JudgingTry.objects.create(
        unit=unit,
        number=unit.tries.count() + 1,
        request_id=models.Blob.objects.put(canonical_json(encode(request))),
        asked_at=timezone.now(),
    )


def seed_of(repeat: int, key: str) -> int:
    """Return 31 bits that depend only on the repeat and the unit: no two questions of a run are the same request."""
    digest = hashlib.sha256(f"{repeat}:{key}".encode()).digest()
    return int.from_bytes(digest[:4], "big") >> 1


@transaction.atomic
def _keep(unit: models.JudgedUnit, settled: Settled, form: Form) -> models.JudgedUnit:
    """Keep the result, all of it or nothing."""
    reading = settled.reading
    unit.status = models.JudgedUnit.Status(reading.fault.value) if reading.fault else models.JudgedUnit.Status.OK
    unit.problem = reading.problem
    unit.points = [encode(point) for point in reading.points] if unit.status == models.JudgedUnit.Status.OK else []
    if form.points and unit.status == models.JudgedUnit.Status.OK and not reading.points:
        unit.status = models.JudgedUnit.Status.NO_POINTS
    unit.save(update_fields=["status", "problem", "points"])
    rows = []
    for name, item in reading.items.items():
        row = models.Judgement(unit=unit, item=name, label=item.label, reason=item.reason)
        if item.score is not None:
            row.label, row.raw, row.value = "", item.score, normalise_score(item.score)
        else:
            row.raw, row.value = float(item.label in GOOD), 100.0 * (item.label in GOOD)
        rows.append(row)
    models.Judgement.objects.bulk_create(rows)
    return unit
