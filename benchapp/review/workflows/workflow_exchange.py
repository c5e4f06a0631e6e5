"""Export a suite's workflows to a file, and import them from one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from django.db import transaction
from django.utils import timezone

from benchapp.models import Suite, Task, TaskWorkflow, User
from benchapp.record.writing.human_acts import note_activity
from benchapp.review.workflows.seen_workflows import read_seen
from runner.base.errors import SuiteError, SuiteProblems
from runner.suites.workflows.workflow import to_plain
from runner.suites.workflows.workflow_file import FiledWorkflow, read_workflows, write_workflows

NAMED = 5  # tasks in one sentence


@dataclass(frozen=True, slots=True)
class Brought:
    """The result of an import. `strange`: tasks that the suite does not have."""

    taken: int
    known: int
    strange: tuple[str, ...]

    def say(self) -> str:
        sentences = [f"{self.taken} workflow{'' if self.taken == 1 else 's'} taken in."]
        if self.known:
            sentences.append(f"{self.known} {'was' if self.known == 1 else 'were'} here already.")
        if self.strange:
            more = f" and {len(self.strange) - NAMED} more" if len(self.strange) > NAMED else ""
            sentences.append(f"Left out, as this suite has no such task: {', '.join(self.strange[:NAMED])}{more}.")
        return " ".join(sentences)


def export_workflows(suite: Suite | None, user: User) -> bytes:
    """Export what was handed in, was not replaced, and may be seen by this person, by family and task."""
    seen, found = read_seen(suite, user), []
    tasks = (
        suite.tasks.select_related("family").order_by("family__ordinal", "family__key", "ordinal", "key")
        if suite
        else ()
    )
    for task in tasks:
        if mine := seen.get(task.key):
            found += [_file(task, row) for row in (*mine.annotations, *([mine.settled] if mine.settled else []))]
    hidden = sum(each.is_hidden and each.handed_in > 0 for each in seen.values())
    what = "1 task" if hidden == 1 else f"{hidden} tasks"
    note = f"# Left out: {what} that you may still draw yourself.\n".encode() if hidden else b""
    return note + write_workflows(found)


def _file(task: Task, row: TaskWorkflow) -> FiledWorkflow:
    family = task.family.key if task.family else ""
    return FiledWorkflow(family, task.key, row.by, row.workflow, row.is_settled, row.finds_consistent)


def import_workflows(suite: Suite, content: bytes, name: str, user: User) -> Brought:
    """Import what is new. SuiteProblems, and no import, where the file is broken or contradicts the record."""
    filed = read_workflows(content, name)
    tasks = {task.key: task for task in suite.tasks.filter(key__in={each.task for each in filed})}
    rows = TaskWorkflow.objects.filter(task__in=tasks.values(), superseded_at=None)
    rows = rows.exclude(is_settled=True, handed_in_at=None)
    here = {(row.task_id, "" if row.is_settled else row.by): row for row in rows}
    news = [each for each in filed if each.task in tasks and _key(tasks, each) not in here]
    known = [each for each in filed if each.task in tasks and _key(tasks, each) in here]
    if problems := [_refuse(name, each) for each in known if not _is_same(each, here[_key(tasks, each)])]:
        raise SuiteProblems(problems)
    strange = tuple(dict.fromkeys(each.task for each in filed if each.task not in tasks))
    with transaction.atomic():
        for each in news:
            _record(tasks[each.task], each, user)
        if news:
            note_activity(user, "workflows.imported", suite, detail={"file": name, "workflows": len(news)})
    return Brought(len(news), len(known), strange)


def _key(tasks: Mapping[str, Task], filed: FiledWorkflow) -> tuple[int, str]:
    return tasks[filed.task].pk, "" if filed.settled else filed.by


def _is_same(filed: FiledWorkflow, row: TaskWorkflow) -> bool:
    return (filed.by, filed.workflow, filed.consistent) == (row.by, row.workflow, row.finds_consistent)


def _refuse(name: str, filed: FiledWorkflow) -> SuiteError:
    what = "settled workflow" if filed.settled else f"workflow of {filed.by}"
    expected = "what the record has, which an import never replaces"
    return SuiteError(name, f"families.{filed.family}.{filed.task}", expected, f"another {what} is here")


def _record(task: Task, filed: FiledWorkflow, user: User) -> None:
    TaskWorkflow.objects.create(
        **{"task": task, "by": filed.by, "imported_by": user, "is_settled": filed.settled},
        **{"graph": to_plain(filed.workflow), "finds_consistent": filed.consistent, "handed_in_at": timezone.now()},
    )
