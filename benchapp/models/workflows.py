from __future__ import annotations

from django.db import models
from django.db.models import Q
from django.utils import timezone

from benchapp.models.base import GuardedModel, GuardedQuerySet, PublicModel
from benchapp.models.people import User
from benchapp.models.suites import Task
from runner.suites.workflows.workflow import Workflow, from_plain, to_plain


class FinalWorkflow(Exception):
    """A workflow that was handed in cannot be changed."""


class WorkflowQuerySet(GuardedQuerySet["TaskWorkflow"]):
    """Changes drafts only. A workflow that was handed in can only be judged or superseded."""

    def screen(self, *, is_consistent: bool) -> int:
        return models.QuerySet.update(self, finds_consistent=is_consistent)

    def supersede(self) -> int:
        return models.QuerySet.update(self, superseded_at=timezone.now())

    def refuse_fixed(self) -> None:
        if self.exclude(handed_in_at=None).exists():
            raise FinalWorkflow("A workflow that was handed in never changes.")

    def standing(self) -> WorkflowQuerySet:
        """Handed in, and not replaced by a later one."""
        return self.exclude(handed_in_at=None).filter(superseded_at=None)


class TaskWorkflow(GuardedModel, PublicModel):
    """A task's workflow as one person drew it: draft, then final (FinalWorkflow). `is_settled`: drawn as adjudicator.

    `by`: pseudonym of the person, or the author that the imported file names; `annotator` is then empty. `graph`: as
    `to_plain` writes it. `finds_consistent`: the annotator's opinion of the other one, after both handed in.
    """

    task = models.ForeignKey(Task, on_delete=models.PROTECT, related_name="workflows")
    by = models.CharField(max_length=100)
    annotator = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")
    imported_by = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")
    is_settled = models.BooleanField(default=False)
    graph = models.JSONField()
    revision = models.PositiveIntegerField(default=0)  # counts saves; a save names the one it started from
    finds_consistent = models.BooleanField(null=True)
    started_at = models.DateTimeField(auto_now_add=True)
    handed_in_at = models.DateTimeField(null=True)  # empty: a draft
    superseded_at = models.DateTimeField(null=True)  # an adjudicator replaced it

    objects = WorkflowQuerySet.as_manager()

    class Meta:
        ordering = ["task", "is_settled", "handed_in_at", "id"]
        constraints = [
            models.UniqueConstraint(
                fields=["task", "by"], condition=Q(is_settled=False), name="one_workflow_per_person"
            ),
            models.UniqueConstraint(
                fields=["task", "by"], condition=Q(is_settled=True, handed_in_at=None), name="one_settling_draft"
            ),
            models.UniqueConstraint(
                fields=["task"],
                condition=Q(is_settled=True, handed_in_at__isnull=False, superseded_at=None),
                name="one_settled_workflow",
            ),
        ]

    @property
    def workflow(self) -> Workflow:
        return from_plain(self.graph)

    @workflow.setter
    def workflow(self, value: Workflow) -> None:
        self.graph = to_plain(value)

    @property
    def is_handed_in(self) -> bool:
        return self.handed_in_at is not None

    @property
    def name(self) -> str:
        """Return the person's name for pages. Exports use `by`."""
        return self.annotator.get_username() if self.annotator else self.by

    def refuse_fixed(self) -> None:
        if self.pk:
            TaskWorkflow.objects.filter(pk=self.pk).refuse_fixed()
