"""Workflows of tasks as people draw them: who may see which, drafts and handing in, export and import.

Two people draw a task's workflow, each alone. As in review, nobody sees the other's drawing while they could still draw
their own. A task shows its workflows to people who handed one in, and to everybody after two did. Every save names the
revision it started from. If another tab has saved since, nothing is overwritten.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.utils import timezone

from benchapp.models import Suite, Task, TaskWorkflow, User
from benchapp.models.suites import WorkflowQuerySet
from benchapp.record.writing.human_acts import note_activity
from runner.base.errors import SuiteError, SuiteProblems
from runner.base.text import plural
from runner.suites.workflows.workflow import Workflow, list_problems, to_plain
from runner.suites.workflows.workflow_comparison import WorkflowAgreement, compare_workflows
from runner.suites.workflows.workflow_file import FiledWorkflow, read_workflows, write_workflows

PLACES = 2  # annotators of a task


@dataclass(frozen=True, slots=True)
class SeenWorkflows:
    """One task's workflows for one person. `own`: theirs as annotator, drafts too; `settling`: their draft as
    adjudicator. `annotations`: handed in, in order; they and `settled` are empty if hidden. `handed_in` counts all."""

    own: TaskWorkflow | None = None
    settling: TaskWorkflow | None = None
    annotations: tuple[TaskWorkflow, ...] = ()
    settled: TaskWorkflow | None = None
    handed_in: int = 0
    is_hidden: bool = True
    has_brought: bool = False  # they imported a workflow of this task, so they know it

    @property
    def compared(self) -> tuple[TaskWorkflow, ...]:
        """The first two, which agreement is measured on. Empty while there are fewer."""
        return self.annotations[:PLACES] if len(self.annotations) >= PLACES else ()

    @property
    def agreement(self) -> WorkflowAgreement | None:
        """The agreement of the first with the second."""
        return compare_workflows(*(each.workflow for each in self.compared)) if self.compared else None

    @property
    def screening(self) -> bool | None:
        """Do both annotators find the two consistent? None until both have answered. (SkillFlow, appendix A.5.)"""
        verdicts = [each.finds_consistent for each in self.compared]
        return all(verdicts) if verdicts and None not in verdicts else None

    @property
    def agreed(self) -> Workflow | None:
        """The settled one; else the only one, or the one that both drew. None while two differ."""
        if self.settled:
            return self.settled.workflow
        if self.agreement is None:
            return self.annotations[0].workflow if self.annotations else None
        return self.annotations[0].workflow if self.agreement.is_same else None

    def explain_closed(self, user: User) -> str:
        """Return why this person may not draw the workflow as annotator; empty where they may."""
        if not user.may(User.Level.REVIEWER):
            return f"Only reviewers draw workflows. Your level is {user.level}; an admin can change it."
        if self.own and self.own.is_handed_in:
            return "You handed in your workflow of this task. It stays as it is."
        if self.has_brought:
            return "You imported a workflow of this task, so you know it. Somebody else draws it."
        return "" if self.is_hidden else "This task has its two annotators."

    def explain_barred(self, user: User) -> str:
        """Return why this person may not settle the task; empty where they may. Only admins may settle their own."""
        if not user.may(User.Level.REVIEWER):
            return f"Only reviewers settle. Your level is {user.level}; an admin can change it."
        if self.is_hidden and not self.explain_closed(user):
            return "Draw this task first. Until then, what others drew is hidden."
        if self.handed_in < PLACES:
            return f"Two people draw this task first. {self.handed_in} did so far."
        if self.own and not user.may(User.Level.ADMIN):
            return "You drew this task. Somebody else or an admin must settle it."
        if self.agreement and self.agreement.is_same and not self.settled:
            return "Both drew the same workflow: there is nothing to settle."
        return ""

    def may_screen(self, user: User) -> bool:
        """May they judge whether the other annotator's is consistent with theirs?"""
        return self.settled is None and any(each.by == user.pseudonym for each in self.compared)


def read_seen(suite: Suite | None, user: User) -> dict[str, SeenWorkflows]:
    """Return key of a task -> what they see, for tasks that somebody drew. One query."""
    rows = TaskWorkflow.objects.filter(task__suite=suite, superseded_at=None).select_related("annotator", "imported_by")
    found: dict[str, list[TaskWorkflow]] = {}
    for row in rows.select_related("task__family") if suite else ():
        found.setdefault(row.task.key, []).append(row)
    return {key: _see(mine, user) for key, mine in found.items()}


def read_seen_task(task: Task | None, user: User) -> SeenWorkflows:
    rows = TaskWorkflow.objects.filter(task=task, superseded_at=None).select_related("annotator", "imported_by")
    return _see(list(rows) if task else [], user)


def _see(rows: Sequence[TaskWorkflow], user: User) -> SeenWorkflows:
    drawn = [row for row in rows if not row.is_settled and row.is_handed_in]
    drawn.sort(key=lambda row: (row.handed_in_at, row.pk))
    settled = next((row for row in rows if row.is_settled and row.is_handed_in), None)
    own, settling = _find_own(rows, user, is_settled=False), _find_own(rows, user, is_settled=True)
    has_draft, has_handed_in = (own is not None and own.is_handed_in is handed for handed in (False, True))
    is_hidden = not has_handed_in and (has_draft or (len(drawn) < PLACES and settled is None))
    return SeenWorkflows(
        own,
        settling if settling and not settling.is_handed_in else None,
        () if is_hidden else tuple(drawn),
        None if is_hidden else settled,
        len(drawn),
        is_hidden,
        any(row.imported_by_id == user.pk for row in rows),
    )


def _find_own(rows: Iterable[TaskWorkflow], user: User, *, is_settled: bool) -> TaskWorkflow | None:
    """Return the person's workflow, a draft before others."""
    mine = [row for row in rows if row.by == user.pseudonym and row.is_settled is is_settled]
    return min(mine, key=lambda row: row.is_handed_in, default=None)


# --- drawing ---------------------------------------------------------------------------------------------------------

FIRST = "Somebody else settled this task first. Load the page again; yours was not handed in."


class WorkflowRefused(ValueError):
    """What keeps a workflow from being handed in, one sentence each."""

    def __init__(self, problems: Sequence[str]) -> None:
        super().__init__(" ".join(problems))
        self.problems = list(problems)


class WorkflowConflict(Exception):
    """Another tab or another person was first; nothing was saved."""


def save_workflow(task: Task, user: User, workflow: Workflow, *, revision: int, settles: bool = False) -> TaskWorkflow:
    """Save the draft. `revision`: the one it started from, 0 for none. Raises PermissionDenied, WorkflowConflict."""
    seen = read_seen_task(task, user)
    if reason := seen.explain_barred(user) if settles else seen.explain_closed(user):
        raise PermissionDenied(reason)
    if revision == 0:
        try:
            with transaction.atomic():
                return TaskWorkflow.objects.create(
                    task=task,
                    by=user.pseudonym,
                    annotator=user,
                    is_settled=settles,
                    graph=to_plain(workflow),
                    revision=1,
                )
        except IntegrityError as error:
            raise WorkflowConflict("Another tab began this workflow. Load the page again.") from error
    draft = _draft_of(task, user, settles=settles)
    if not draft.filter(revision=revision).update(graph=to_plain(workflow), revision=revision + 1):
        raise WorkflowConflict("Another tab saved a newer draft. Load the page again; this change was not saved.")
    return draft.get()


def discard_workflow(task: Task, user: User, *, settles: bool = False) -> None:
    _draft_of(task, user, settles=settles).delete()


def hand_in(task: Task, user: User, workflow: Workflow, *, revision: int) -> TaskWorkflow:
    """Hand in as annotator, for good. Raises as `save_workflow`, and WorkflowRefused with every broken rule."""
    _check_rules(workflow)
    with transaction.atomic():
        row = save_workflow(task, user, workflow, revision=revision)
        return _finish(row, user, "workflow.handed_in")


def settle(task: Task, user: User, workflow: Workflow, *, revision: int, seen: UUID | None) -> TaskWorkflow:
    """Save the adjudicator's workflow in place of `seen`, the settled one when they started. Raises as `hand_in`."""
    _check_rules(workflow)
    current = TaskWorkflow.objects.current().filter(task=task, is_settled=True)
    try:
        with transaction.atomic():
            row = save_workflow(task, user, workflow, revision=revision, settles=True)
            if seen and not current.filter(public_id=seen).supersede():
                raise WorkflowConflict(FIRST)
            return _finish(row, user, "workflow.settled")
    except IntegrityError as error:  # there is another one: the constraint allows only one
        raise WorkflowConflict(FIRST) from error


def screen(task: Task, user: User, *, is_consistent: bool) -> None:
    """Record whether the two annotations of a task are consistent, as one of the two annotators sees it."""
    seen = read_seen_task(task, user)
    if not seen.may_screen(user) or seen.own is None:
        raise PermissionDenied("Only the two annotators of a task say this, before it is settled.")
    with transaction.atomic():
        TaskWorkflow.objects.filter(pk=seen.own.pk).screen(is_consistent=is_consistent)
        note_activity(user, "workflow.screened", seen.own, detail={"task": task.key, "consistent": is_consistent})


def _check_rules(workflow: Workflow) -> None:
    if problems := list_problems(workflow):
        raise WorkflowRefused(problems)


def _draft_of(task: Task, user: User, *, settles: bool) -> WorkflowQuerySet:
    return TaskWorkflow.objects.filter(task=task, by=user.pseudonym, is_settled=settles, handed_in_at=None)


def _finish(row: TaskWorkflow, user: User, verb: str) -> TaskWorkflow:
    TaskWorkflow.objects.filter(pk=row.pk).update(handed_in_at=timezone.now())
    row.refresh_from_db()
    note_activity(user, verb, row, detail={"task": row.task.key, "steps": len(row.workflow.steps)})
    return row


# --- files -----------------------------------------------------------------------------------------------------------

NAMED = 5  # tasks in one sentence


@dataclass(frozen=True, slots=True)
class Brought:
    """The result of an import. `strange`: tasks that the suite does not have."""

    taken: int
    known: int
    strange: tuple[str, ...]

    def say(self) -> str:
        sentences = [f"{plural(self.taken, 'workflow')} taken in."]
        if self.known:
            sentences.append(f"{self.known} {'was' if self.known == 1 else 'were'} here already.")
        if self.strange:
            more = f" and {len(self.strange) - NAMED} more" if len(self.strange) > NAMED else ""
            sentences.append(f"Left out, as this suite has no such task: {', '.join(self.strange[:NAMED])}{more}.")
        return " ".join(sentences)


def export_workflows(suite: Suite | None, user: User) -> bytes:
    """Export what was handed in, was not replaced, and may be seen by this person, by family and task."""
    seen, found = read_seen(suite, user), []
    order = ("family__ordinal", "family__key", "ordinal", "key")
    for task in suite.tasks.select_related("family").order_by(*order) if suite else ():
        mine = seen.get(task.key, SeenWorkflows())
        family = task.family.key if task.family else ""
        found += [
            FiledWorkflow(family, task.key, row.by, row.workflow, row.is_settled, row.finds_consistent)
            for row in (*mine.annotations, mine.settled)
            if row
        ]
    hidden = sum(each.is_hidden and each.handed_in > 0 for each in seen.values())
    what = plural(hidden, "task")
    note = f"# Left out: {what} that you may still draw yourself.\n".encode() if hidden else b""
    return note + write_workflows(found)


def import_workflows(suite: Suite, content: bytes, name: str, user: User) -> Brought:
    """Import what is new. SuiteProblems, and no import, where the file is broken or contradicts the record."""
    filed = read_workflows(content, name)

    def key(each: FiledWorkflow) -> tuple[int, str]:
        return tasks[each.task].pk, "" if each.settled else each.by

    tasks = {task.key: task for task in suite.tasks.filter(key__in={each.task for each in filed})}
    rows = TaskWorkflow.objects.filter(task__in=tasks.values(), superseded_at=None)
    rows = rows.exclude(is_settled=True, handed_in_at=None)
    here = {(row.task_id, "" if row.is_settled else row.by): row for row in rows}
    news = [each for each in filed if each.task in tasks and key(each) not in here]
    known = [each for each in filed if each.task in tasks and key(each) in here]
    if problems := [_refuse(name, each) for each in known if not _is_same(each, here[key(each)])]:
        raise SuiteProblems(problems)
    strange = tuple(dict.fromkeys(each.task for each in filed if each.task not in tasks))
    with transaction.atomic():
        for each in news:
            TaskWorkflow.objects.create(
                task=tasks[each.task],
                by=each.by,
                imported_by=user,
                is_settled=each.settled,
                graph=to_plain(each.workflow),
                finds_consistent=each.consistent,
                handed_in_at=timezone.now(),
            )
        if news:
            note_activity(user, "workflows.imported", suite, detail={"file": name, "workflows": len(news)})
    return Brought(len(news), len(known), strange)


def _is_same(filed: FiledWorkflow, row: TaskWorkflow) -> bool:
    return (filed.by, filed.workflow, filed.consistent) == (row.by, row.workflow, row.finds_consistent)


def _refuse(name: str, filed: FiledWorkflow) -> SuiteError:
    what = "settled workflow" if filed.settled else f"workflow of {filed.by}"
    expected = "what the record has, which an import never replaces"
    return SuiteError(name, f"families.{filed.family}.{filed.task}", expected, f"another {what} is here")
