"""A person's work on a task's workflow: drafts, handing in, and judging the other annotator's.

Every save names the revision it started from. If another tab has saved since, nothing is overwritten.
"""

from __future__ import annotations

from collections.abc import Sequence
from uuid import UUID

from django.core.exceptions import PermissionDenied
from django.db import IntegrityError, transaction
from django.utils import timezone

from benchapp.models import Task, TaskWorkflow, User
from benchapp.models.workflows import WorkflowQuerySet
from benchapp.record.writing.human_acts import note_activity
from benchapp.review.workflows.seen_workflows import read_seen_task
from runner.suites.workflows.workflow import Workflow, list_problems, to_plain

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
    _check_may_draw(task, user, settles=settles)
    if revision == 0:
        try:
            with transaction.atomic():
                return TaskWorkflow.objects.create(
                    **{"task": task, "by": user.pseudonym, "annotator": user, "is_settled": settles},
                    **{"graph": to_plain(workflow), "revision": 1},
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
    standing = TaskWorkflow.objects.standing().filter(task=task, is_settled=True)
    try:
        with transaction.atomic():
            row = save_workflow(task, user, workflow, revision=revision, settles=True)
            if seen and not standing.filter(public_id=seen).supersede():
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


def _check_may_draw(task: Task, user: User, *, settles: bool) -> None:
    seen = read_seen_task(task, user)
    if reason := seen.explain_barred(user) if settles else seen.explain_closed(user):
        raise PermissionDenied(reason)


def _draft_of(task: Task, user: User, *, settles: bool) -> WorkflowQuerySet:
    return TaskWorkflow.objects.filter(task=task, by=user.pseudonym, is_settled=settles, handed_in_at=None)


def _finish(row: TaskWorkflow, user: User, verb: str) -> TaskWorkflow:
    TaskWorkflow.objects.filter(pk=row.pk).update(handed_in_at=timezone.now())
    row.refresh_from_db()
    note_activity(user, verb, row, detail={"task": row.task.key, "steps": len(row.workflow.steps)})
    return row
