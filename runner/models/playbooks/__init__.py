"""What the scripted model knows, one module per family of the starter suite."""

from __future__ import annotations

from runner.models.playbooks import duplicate_merging, key_alignment, null_safe_aggregation, timeline_repair
from runner.models.playbooks.playbook import Case, Lesson, Playbook

__all__ = ["LESSONS", "PLAYBOOKS", "Case", "Lesson", "Playbook", "recognise"]

PLAYBOOKS: tuple[Playbook, ...] = (
    null_safe_aggregation.PLAYBOOK,
    key_alignment.PLAYBOOK,
    timeline_repair.PLAYBOOK,
    duplicate_merging.PLAYBOOK,
)
LESSONS: dict[str, Lesson] = {lesson.key: lesson for playbook in PLAYBOOKS for lesson in playbook.lessons}


def recognise(instruction: str) -> tuple[Playbook, Case] | None:
    """The family and case an instruction belongs to, or None where the model has no idea."""
    for playbook in PLAYBOOKS:
        case = playbook.case_of(instruction)
        if case is not None:
            return playbook, case
    return None
