"""What the scripted model knows, one module per family of the bundled suites."""

from __future__ import annotations

from dataclasses import replace

from demo.playbooks import (
    duplicate_merging,
    effective_date_join,
    freight_charges,
    gauge_reports,
    instances,
    key_alignment,
    ledger_extraction,
    meeting_slots,
    null_safe_aggregation,
    paged_api_merge,
    regatta_scoring,
    regression_fix,
    source_reconciliation,
    timeline_repair,
)
from demo.playbooks.playbook import Lesson, Playbook, PlaybookCase

__all__ = ["LESSONS", "PLAYBOOKS", "PlaybookCase", "Lesson", "Playbook", "recognise"]


def _with(playbook: Playbook, further: tuple[PlaybookCase, ...]) -> Playbook:
    return replace(playbook, cases=(*playbook.cases, *further))


PLAYBOOKS: tuple[Playbook, ...] = (
    _with(null_safe_aggregation.PLAYBOOK, instances.AVERAGES),
    _with(key_alignment.PLAYBOOK, instances.JOINS),
    _with(timeline_repair.PLAYBOOK, instances.TIMELINES),
    duplicate_merging.PLAYBOOK,
    gauge_reports.PLAYBOOK,
    freight_charges.PLAYBOOK,
    regatta_scoring.PLAYBOOK,
    regression_fix.PLAYBOOK,
    paged_api_merge.PLAYBOOK,
    effective_date_join.PLAYBOOK,
    ledger_extraction.PLAYBOOK,
    source_reconciliation.PLAYBOOK,
    meeting_slots.PLAYBOOK,
)
LESSONS: dict[str, Lesson] = {lesson.key: lesson for playbook in PLAYBOOKS for lesson in playbook.lessons}


def recognise(instruction: str) -> tuple[Playbook, PlaybookCase] | None:
    """The family and case of an instruction, or None if the model does not recognise it."""
    for playbook in PLAYBOOKS:
        case = playbook.case_of(instruction)
        if case is not None:
            return playbook, case
    return None
