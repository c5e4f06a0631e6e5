from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path

from django.db import models
from django.db.models import Q
from django.utils import timezone

from benchapp.models.base import (
    GuardedModel,
    GuardedQuerySet,
    PublicModel,
    SlicedModel,
    SlicedQuerySet,
    match_words,
    rank_beginning,
)
from benchapp.models.blobs import Blob
from benchapp.models.people import User
from benchapp.models.stand_ins import StandIn, find_stand_ins
from runner.drafting.draft import Loop
from runner.models import is_scripted
from runner.suites.tasks.task_groups import KNOWN
from runner.suites.workflows.workflow import Workflow, from_plain, to_plain


class Suite(PublicModel):
    """Tasks from one source."""

    key = models.CharField(max_length=200, unique=True)
    name = models.CharField(max_length=200)
    version = models.CharField(max_length=64, blank=True)
    digest = models.CharField(max_length=64, blank=True)  # empty: unknown (imports)
    path = models.CharField(max_length=1000, blank=True)  # the folder it was loaded from; empty: bundled, or imported
    format = models.CharField(max_length=32, blank=True)  # the reader of that folder
    # every task of that folder: loaded, set aside, left out, and why
    account = models.JSONField(default=dict, blank=True)
    families_by = models.JSONField(default=dict, blank=True)  # what makes its families; empty: the folder does
    files_digest = models.CharField(max_length=64, blank=True)  # of its `SuiteFile` rows; empty: it has none

    @property
    def is_readable(self) -> bool:
        """Can this machine read its tasks, in the folder it was loaded from or in the record?"""
        return bool(self.path) and (Path(self.path).is_dir() or bool(self.files_digest))

    def __str__(self) -> str:
        return self.name


class SuiteFile(models.Model):
    """A file of a suite that was loaded from a folder, for machines without that folder
    (benchapp/record/sets/suite_files.py)."""

    class Kind(models.TextChoices):
        FILE = "file"
        EXECUTABLE = "executable"
        LINK = "link"  # its text is the content
        FOLDER = "folder"  # an empty one

    suite = models.ForeignKey(Suite, on_delete=models.CASCADE, related_name="files")
    path = models.CharField(max_length=1000)  # below the folder
    kind = models.CharField(max_length=16, choices=Kind)
    blob = models.ForeignKey(Blob, on_delete=models.PROTECT, related_name="+")

    class Meta:
        constraints = [models.UniqueConstraint(fields=["suite", "path"], name="suite_file_path")]

    def __str__(self) -> str:
        return self.path


class Environment(models.Model):
    """What groups families in a suite: an environment of SkillEvolBench, a corpus of SkillGenBench."""

    suite = models.ForeignKey(Suite, on_delete=models.CASCADE, related_name="environments")
    key = models.CharField(max_length=200)
    name = models.CharField(max_length=200)
    ordinal = models.PositiveIntegerField(default=0)
    kind = models.CharField(max_length=32, blank=True)  # of its corpus; empty: it has none

    class Meta:
        ordering = ["ordinal", "key"]
        constraints = [models.UniqueConstraint(fields=["suite", "key"], name="environment_key")]

    @property
    def corpus_label(self) -> str:
        """Return the kind of its corpus in words; "" where it has none."""
        return f"{self.kind.replace('-', ' ')} corpus" if self.kind else ""

    def __str__(self) -> str:
        return self.name


class Family(models.Model):
    """Tasks that share a procedure. Tasks from sources without families have none."""

    suite = models.ForeignKey(Suite, on_delete=models.CASCADE, related_name="families")
    environment = models.ForeignKey(Environment, null=True, on_delete=models.CASCADE, related_name="families")
    key = models.CharField(max_length=200)
    slug = models.CharField(max_length=200, blank=True)
    name = models.CharField(max_length=200)
    description = models.TextField(blank=True)
    ordinal = models.PositiveIntegerField(default=0)

    class Meta:
        ordering = ["ordinal", "key"]
        constraints = [models.UniqueConstraint(fields=["suite", "key"], name="family_key")]

    def __str__(self) -> str:
        return self.name


class TaskQuerySet(models.QuerySet["Task"]):
    def named(self, words: Sequence[str]) -> TaskQuerySet:
        """Tasks with every word in title or key. A joined task is found only where it counts."""
        found = self.filter(match_words(words, "title", "key"), same_as=None).select_related("suite")
        return found.order_by(rank_beginning("title", words), "title", "pk")


class Task(PublicModel):
    """A task of a suite: key, title, family and role, which all its revisions share.

    An imported task may be joined with a task of a loaded suite. Its trials then count there, and each keeps its
    revision of this one (benchapp/record/sets/joined_suites.py).
    """

    suite = models.ForeignKey(Suite, on_delete=models.CASCADE, related_name="tasks")
    family = models.ForeignKey(Family, null=True, on_delete=models.CASCADE, related_name="tasks")
    key = models.CharField(max_length=300)
    title = models.CharField(max_length=300)
    role = models.CharField(max_length=32, blank=True)
    ordinal = models.PositiveIntegerField(default=0)
    same_as = models.ForeignKey("self", null=True, blank=True, on_delete=models.SET_NULL, related_name="joined")

    objects = TaskQuerySet.as_manager()

    class Meta:
        ordering = ["ordinal", "key"]
        constraints = [models.UniqueConstraint(fields=["suite", "key"], name="task_key")]

    @property
    def counted_as(self) -> Task:
        """Return the task that its trials count for."""
        return self.same_as or self

    def __str__(self) -> str:
        return self.title


class TaskRevision(PublicModel):
    """One state of a task, fixed by its content digest, or by what an import could learn about it."""

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="revisions")
    digest = models.CharField(max_length=100)  # "unknown" where the source has none
    instruction = models.ForeignKey(Blob, null=True, on_delete=models.PROTECT, related_name="+")
    # Digests that other programs give the same folder; imported runs name it by them.
    foreign_digests = models.JSONField(default=list, blank=True)

    class Meta:
        constraints = [models.UniqueConstraint(fields=["task", "digest"], name="task_revision_digest")]


class KeyPoint(models.Model):
    """What a good skill or trajectory for a task should contain (SkillLearnBench)."""

    class Kind(models.TextChoices):
        SKILL = "skill"
        TRAJECTORY = "trajectory"
        ORACLE = "oracle"

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="key_points")
    kind = models.CharField(max_length=16, choices=Kind)
    ordinal = models.PositiveIntegerField()
    text = models.TextField()
    reason = models.TextField(blank=True)
    reference = models.TextField(blank=True)

    class Meta:
        ordering = ["kind", "ordinal"]
        constraints = [models.UniqueConstraint(fields=["task", "kind", "ordinal"], name="key_point_place")]


class TaskGroupQuerySet(models.QuerySet["TaskGroup"]):
    """Groups of tasks, as comparisons and exports ask for them."""

    def of_suites(self, suites: Iterable[int]) -> TaskGroupQuerySet:
        return self.filter(task__suite__in=set(suites)).order_by()

    def list_attributes(self) -> list[str]:
        """List the attributes of these tasks. Those that the papers group by come first."""
        found = set(self.values_list("attribute", flat=True).distinct())
        return [*(name for name in KNOWN if name in found), *sorted(found - set(KNOWN))]


class TaskGroup(models.Model):
    """One value of an attribute that people group results by, such as difficulty "easy". A task may have several values
    of one attribute."""

    task = models.ForeignKey(Task, on_delete=models.CASCADE, related_name="groups")
    attribute = models.CharField(max_length=40)
    value = models.CharField(max_length=200)
    is_mapped = models.BooleanField(default=False)  # from a mapping file, which wins over the release

    objects = TaskGroupQuerySet.as_manager()

    class Meta:
        ordering = ["task", "attribute", "pk"]
        constraints = [models.UniqueConstraint(fields=["task", "attribute", "value"], name="task_group_value")]
        indexes = [models.Index(fields=["attribute", "value"], name="task_group_by_value")]


class DraftQuerySet(SlicedQuerySet["Draft"]):
    """Drafts by who works on them. A person who edited a draft that is done can make it continue."""

    def of_suite(self, suite: Suite) -> DraftQuerySet:
        """Drafts that try out their tasks there, or had them admitted into it."""
        return self.filter(Q(admitted_as=suite) | Q(suite=suite))


class Draft(SlicedModel):
    """A family of tasks in progress. `head` is its current state; the steps are its history."""

    name = models.CharField(max_length=200)
    loop = models.CharField(max_length=16, choices=[(each.value, each.value) for each in Loop])
    brief = models.JSONField()  # the DraftBrief, plain
    model = models.CharField(max_length=200)  # as asked for
    max_calls = models.PositiveIntegerField(null=True)  # null: no limit
    max_usd = models.FloatField(null=True)
    head = models.ForeignKey("benchapp.Snapshot", on_delete=models.PROTECT, related_name="+")
    asked_by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    asked_at = models.DateTimeField()
    # under trial: all its tasks
    suite = models.ForeignKey(Suite, null=True, on_delete=models.SET_NULL, related_name="+")
    admitted_as = models.ForeignKey(Suite, null=True, on_delete=models.SET_NULL, related_name="drafts")

    objects = DraftQuerySet.as_manager()

    class Meta:
        ordering = ["-id"]

    def __str__(self) -> str:
        return self.name

    @property
    def stand_ins(self) -> frozenset[StandIn]:
        """Return each `StandIn` by the model that was asked for. Pages know more, from the answers."""
        return find_stand_ins(is_scripted(self.model), self.model)


class DraftStep(PublicModel):
    """One step of a draft, numbered in order. The request is committed before the model is asked, and the reply before
    it is used; `after` is the resulting files."""

    class Kind(models.TextChoices):
        GIVEN = "given"  # the files it began with
        ANSWER = "answer"  # of a model
        EDIT = "edit"  # by a person
        TRIAL = "trial"  # written as a suite, to be screened and qualified
        ADMISSION = "admission"  # into a suite

    class Status(models.TextChoices):
        STARTED = "started"
        TAKEN = "taken"
        UNUSABLE = "unusable"  # the reply is kept; `error` says what was expected
        FAILED = "failed"  # no reply

    draft = models.ForeignKey(Draft, on_delete=models.CASCADE, related_name="steps")
    number = models.PositiveIntegerField()
    kind = models.CharField(max_length=16, choices=Kind)
    status = models.CharField(max_length=16, choices=Status)
    key = models.CharField(max_length=300, blank=True)  # of an answer: which ask it answers
    role = models.CharField(max_length=32, blank=True)
    by = models.ForeignKey(User, null=True, on_delete=models.SET_NULL, related_name="+")
    before = models.ForeignKey("benchapp.Snapshot", on_delete=models.PROTECT, related_name="+")
    after = models.ForeignKey("benchapp.Snapshot", on_delete=models.PROTECT, related_name="+")
    summary = models.TextField(blank=True)
    accepts = models.BooleanField(null=True)  # the critic's verdict
    words = models.TextField(blank=True)
    findings = models.JSONField(default=list)  # a line each
    error = models.TextField(blank=True)
    model = models.CharField(max_length=200, blank=True)
    scripted = models.BooleanField(default=False)
    request = models.ForeignKey(Blob, null=True, on_delete=models.PROTECT, related_name="+")  # JSON of the ModelRequest
    reply = models.ForeignKey(Blob, null=True, on_delete=models.PROTECT, related_name="+")  # JSON of the ModelReply
    input_tokens = models.PositiveBigIntegerField(null=True)
    output_tokens = models.PositiveBigIntegerField(null=True)
    cost_usd = models.FloatField(null=True)
    started_at = models.DateTimeField()
    finished_at = models.DateTimeField(null=True)

    class Meta:
        ordering = ["number"]
        constraints = [
            models.UniqueConstraint(fields=["draft", "number"], name="draft_step_number"),
            models.UniqueConstraint(
                fields=["draft", "key"], condition=Q(status="taken") & ~Q(key=""), name="one_draft_answer_per_key"
            ),
        ]

    @property
    def stand_ins(self) -> frozenset[StandIn]:
        return find_stand_ins(self.scripted, self.model)


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

    def current(self) -> WorkflowQuerySet:
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
