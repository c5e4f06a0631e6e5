from __future__ import annotations

from collections.abc import Iterable, Sequence

from django.db import models

from benchapp.models.base import PublicModel, match_words, rank_beginning
from benchapp.models.blobs import Blob
from runner.suites.tasks.task_groups import KNOWN


class Suite(PublicModel):
    """Tasks from one source."""

    key = models.CharField(max_length=200, unique=True)
    name = models.CharField(max_length=200)
    version = models.CharField(max_length=64, blank=True)
    digest = models.CharField(max_length=64, blank=True)  # empty: unknown (imports)
    path = models.CharField(max_length=1000, blank=True)  # the folder it was loaded from; empty: bundled, or imported
    format = models.CharField(max_length=32, blank=True)  # the reader of that folder
    account = models.JSONField(
        default=dict, blank=True
    )  # every task of that folder: loaded, set aside, left out, and why
    families_by = models.JSONField(default=dict, blank=True)  # what makes its families; empty: the folder does

    def __str__(self) -> str:
        return self.name


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
