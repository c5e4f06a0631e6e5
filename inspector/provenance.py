"""Why a library is what it is: the decision, the evidence its author was shown, and who worked with the text since."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import orjson
from django.db.models import Exists, OuterRef

from benchapp.models import Blob, Decision, DecisionEvidence, Run, SkillUse, Trial
from inspector.changes import FileChange
from inspector.excerpt import Excerpt, excerpts_of
from inspector.verdict import VerdictView, verdicts_of
from inspector.visible import visible
from runner.types import Patch, UseKind

MAX_REPLY = 12_000  # characters
MAX_USERS = 300  # trials drawn; beyond it they are counted
NO_SKILL = "no-skill"


@dataclass(frozen=True, slots=True)
class Shown:
    """One trial the author was shown; excerpt None where only the fact is recorded."""

    trial: Trial
    excerpt: Excerpt | None


@dataclass(frozen=True, slots=True)
class Tally:
    """Passed k of n scored."""

    passed: int
    scored: int

    @classmethod
    def of(cls, outcomes: Iterable[bool | None]) -> Tally:
        scored = [outcome for outcome in outcomes if outcome is not None]
        return cls(sum(scored), len(scored))

    def __str__(self) -> str:
        return f"{self.passed}/{self.scored}"


@dataclass(frozen=True, slots=True)
class Use:
    trial: Trial
    was_read: bool
    same_family: bool


@dataclass(frozen=True, slots=True)
class Users:
    """Later trials whose library held exactly this text. What they did with it is association, not effect.

    `beside` is the same tasks in the same phases under no-skill in this experiment, scored on both sides: (trials
    that read it, no-skill trials, how many task-and-phase slots both cover); None where there are none.
    """

    skill: str
    path: str
    uses: tuple[Use, ...]
    total: int
    beside: tuple[Tally, Tally, int] | None

    @property
    def read(self) -> Tally:
        return Tally.of(use.trial.success for use in self.uses if use.was_read)

    @property
    def read_total(self) -> int:
        return sum(use.was_read for use in self.uses)

    @property
    def same_family(self) -> Tally:
        return Tally.of(use.trial.success for use in self.uses if use.was_read and use.same_family)

    @property
    def other_families(self) -> Tally:
        return Tally.of(use.trial.success for use in self.uses if use.was_read and not use.same_family)

    @property
    def not_read(self) -> Tally:
        return Tally.of(use.trial.success for use in self.uses if not use.was_read)

    @property
    def not_read_total(self) -> int:
        return len(self.uses) - self.read_total


def patch_of(decision: Decision) -> Patch | None:
    """The patch as parsed; None where the reply was no patch."""
    if decision.patch_id is None:
        return None
    raw = orjson.loads(Blob.objects.read(decision.patch_id))
    return Patch(
        summary=str(raw.get("summary", "")),
        operation_type=str(raw.get("operation_type", "")),
        upsert_files={str(path): str(text) for path, text in raw.get("upsert_files", {}).items()},
        delete_paths=tuple(map(str, raw.get("delete_paths", ()))),
    )


def reply_text(decision: Decision) -> str:
    """The beginning of the author's answer as it came, made visible; empty where none is recorded."""
    if decision.call is None or decision.call.reply_id is None:
        return ""
    reply = orjson.loads(Blob.objects.read(decision.call.reply_id))
    return visible(str(reply.get("text", ""))[:MAX_REPLY])


def evidence_of(decision: Decision) -> list[Shown]:
    """The trials it was made from, in the order shown. Two queries."""
    rows = list(
        DecisionEvidence.objects.filter(decision=decision)
        .select_related("trial__task__family", "compaction")
        .order_by("ordinal")
    )
    excerpts = {found.compaction.pk: found for found in excerpts_of([row.compaction for row in rows if row.compaction])}
    return [Shown(row.trial, excerpts.get(row.compaction_id)) for row in rows]


def verdict_seen(decision: Decision) -> VerdictView | None:
    """The primary verdict of the trial after which the decision was asked for."""
    trial = decision.after_trial
    return next(iter(verdicts_of(trial.counting_attempt())), None) if trial else None


def users_of(change: FileChange, family_id: int | None, run: Run, episode_id: int) -> Users:
    """Who had the new side of this file mounted. Two queries, or three with a no-skill run beside."""
    skill = change.path.split("/", 1)[0]
    if change.new is None:
        return Users(skill, change.path, (), 0, None)
    reading = SkillUse.objects.filter(attempt__trial=OuterRef("pk"), attempt__counts=True, skill=skill)
    trials = Trial.objects.filter(
        episode=episode_id, snapshot__files__path=change.path, snapshot__files__blob=change.new.digest, is_done=True
    )
    rows = list(
        trials.annotate(was_read=Exists(reading.exclude(kind=UseKind.MOUNTED)))
        .select_related("task__family")
        .order_by("finished_at", "id")[: MAX_USERS + 1]
    )
    total = len(rows) if len(rows) <= MAX_USERS else trials.count()
    uses = tuple(Use(trial, trial.was_read, trial.task.family_id == family_id) for trial in rows[:MAX_USERS])
    return Users(skill, change.path, uses, total, _beside(uses, run))


def _beside(uses: Iterable[Use], run: Run) -> tuple[Tally, Tally, int] | None:
    """The readers and the no-skill trials of the same experiment, agent and slots that are scored on both sides."""
    ours = {
        (use.trial.task_id, use.trial.phase): use.trial.success
        for use in uses
        if use.was_read and use.trial.success is not None
    }
    if run.condition == NO_SKILL or not ours:
        return None
    theirs = Trial.objects.filter(
        episode__run__experiment=run.experiment_id,
        episode__run__condition=NO_SKILL,
        episode__run__agent_model=run.agent_model,
        episode__run__harness=run.harness,
        task__in={task for task, _ in ours},
        success__isnull=False,
    ).values_list("task_id", "phase", "success")
    matching = [((task, phase), success) for task, phase, success in theirs if (task, phase) in ours]
    slots = {slot for slot, _ in matching}
    if not slots:
        return None
    return Tally.of(ours[slot] for slot in slots), Tally.of(success for _, success in matching), len(slots)
