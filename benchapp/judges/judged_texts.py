"""What a judge is shown of the record: the task, skills, trajectories. Redacted before it is sent and kept."""

from __future__ import annotations

from functools import lru_cache

from benchapp.models import Attempt, Snapshot, Task, TaskRevision
from benchapp.record.own_secrets import own_secrets
from benchapp.record.redaction import Redactor
from benchapp.record.trajectory_store import iterate_steps
from runner.base.text import cut, storable
from runner.judging.judge_prompts import MAX_INSTRUCTION_CHARS
from runner.judging.judged_skill_text import library_text, skill_text, skills_of
from runner.judging.trajectory_text import trajectory_text


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
