"""Skill usage: skills of the library that the attempt used, out of all skills in it. No model is asked.

A use is recorded when a skill's file was read, the harness' own skill tool was called, or a script of it was run.
Skills outside the library, such as a harness' own, count on neither side. The paper counts only calls of the skill
tool, which not every harness has (SkillLearnBench, section L.2, equation 3).
"""

from __future__ import annotations

from django.db import transaction

from benchapp.judges.judge_questions import Asker
from benchapp.judges.judged_units import JudgeAsk
from benchapp.models import Attempt, JudgedUnit, Judgement, SnapshotFile, Task
from benchapp.models.judgements import SETTLED
from runner.base.types import UseKind
from runner.judging.metrics import Metric, percent


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
