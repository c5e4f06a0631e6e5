"""What one person may see of a task's workflows, and what they may do with them.

Two people draw a task's workflow, each alone. As in review, nobody sees the other's drawing while they could still draw
their own. A task shows its workflows to people who handed one in, and to everybody after two did.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from benchapp.models import Suite, Task, TaskWorkflow, User
from runner.suites.workflows.workflow import Workflow
from runner.suites.workflows.workflow_comparison import WorkflowAgreement, compare_workflows

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
        said = [each.finds_consistent for each in self.compared]
        return all(said) if said and None not in said else None

    @property
    def standing(self) -> Workflow | None:
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
    drawn = sorted((row for row in rows if not row.is_settled and row.is_handed_in), key=_when)
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


def _when(row: TaskWorkflow) -> tuple[object, int]:
    return row.handed_in_at, row.pk
