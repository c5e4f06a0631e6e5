from __future__ import annotations

from collections.abc import Iterable
from typing import Any, Self, TypeVar

from django.db import models
from django.db.models import Q
from django.urls import reverse

from benchapp.models.base import GuardedModel, GuardedQuerySet, PublicModel
from benchapp.models.libraries import Decision
from benchapp.models.people import User
from benchapp.models.trials import Trial


class FrozenVersion(Exception):
    """A frozen version, or something in it, cannot be changed."""


def _refuse_frozen(found: models.QuerySet[models.Model]) -> None:
    if found.exists():
        raise FrozenVersion("A frozen version of a codebook never changes; change the draft of its next version.")


class VersionQuerySet(GuardedQuerySet["CodebookVersion"]):
    """Freezing is an update of drafts: `drafts().filter(...).update(frozen_at=...)`."""

    def drafts(self) -> Self:
        return self.filter(frozen_at=None)

    def frozen(self) -> Self:
        return self.exclude(frozen_at=None)

    def refuse_fixed(self) -> None:
        _refuse_frozen(self.frozen())


class VersionPart(GuardedModel):
    """A row that belongs to a version of a codebook and is frozen with it."""

    TO_VERSION = "version"

    class Meta:
        abstract = True

    def version_id_of(self) -> int:
        raise NotImplementedError

    def refuse_fixed(self) -> None:
        _refuse_frozen(CodebookVersion.objects.frozen().filter(pk=self.version_id_of()))


Part = TypeVar("Part", bound=VersionPart)


class PartQuerySet(GuardedQuerySet[Part]):
    """Rows that each belong to one version, found along the model's `TO_VERSION`. Frozen ones never change."""

    def bulk_create(self, objs: Iterable[Part], *args: Any, **kwargs: Any) -> list[Part]:
        rows = list(objs)
        _refuse_frozen(CodebookVersion.objects.frozen().filter(pk__in={row.version_id_of() for row in rows}))
        return super().bulk_create(rows, *args, **kwargs)

    def refuse_fixed(self) -> None:
        _refuse_frozen(self.exclude(**{f"{self.model.TO_VERSION}__frozen_at": None}))


class Codebook(PublicModel):
    """A failure taxonomy in progress. Its versions hold the content."""

    name = models.CharField(max_length=200, unique=True)
    about = models.TextField(blank=True)
    cloned_from = models.CharField(max_length=200, blank=True)  # "starter NAME", or the public id of a version
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")

    class Meta:
        ordering = ["name"]

    def __str__(self) -> str:
        return self.name

    def get_absolute_url(self) -> str:
        return reverse("codebook", args=[self.public_id])


class CodebookVersion(GuardedModel, PublicModel):
    """A draft, one at a time, until it is frozen. A frozen version never changes, and only its codes can label."""

    codebook = models.ForeignKey(Codebook, on_delete=models.PROTECT, related_name="versions")
    number = models.PositiveIntegerField()
    previous = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="followers")
    note = models.TextField(blank=True)  # why this version
    digest = models.CharField(max_length=64, blank=True)  # of its codes in canonical JSON, taken when frozen
    created_at = models.DateTimeField(auto_now_add=True)
    created_by = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")
    frozen_at = models.DateTimeField(null=True)
    frozen_by = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")

    objects = VersionQuerySet.as_manager()

    class Meta:
        ordering = ["codebook", "-number"]
        constraints = [
            models.UniqueConstraint(fields=["codebook", "number"], name="codebook_version_number"),
            models.UniqueConstraint(fields=["codebook"], condition=Q(frozen_at=None), name="one_draft_per_codebook"),
        ]

    def __str__(self) -> str:
        return f"{self.codebook.name} v{self.number}"

    def get_absolute_url(self) -> str:
        return reverse("codebook-version", args=[self.public_id])

    def refuse_fixed(self) -> None:
        if self.pk is not None:
            CodebookVersion.objects.filter(pk=self.pk).refuse_fixed()

    @property
    def is_frozen(self) -> bool:
        return self.frozen_at is not None


class Code(VersionPart, PublicModel):
    """One kind of failure in one version. Its origins say which codes of the version before it came from."""

    version = models.ForeignKey(CodebookVersion, on_delete=models.PROTECT, related_name="codes")
    parent = models.ForeignKey("self", null=True, on_delete=models.PROTECT, related_name="children")
    name = models.CharField(max_length=120)
    definition = models.TextField(blank=True)
    include = models.TextField(blank=True)  # label it when ...
    exclude = models.TextField(blank=True)  # do not when ..., and what to use instead
    ordinal = models.PositiveIntegerField(default=0)

    objects = PartQuerySet.as_manager()

    class Meta:
        ordering = ["ordinal", "id"]
        constraints = [models.UniqueConstraint(fields=["version", "name"], name="code_name")]

    def __str__(self) -> str:
        return self.name

    def version_id_of(self) -> int:
        return self.version_id


class CodeOrigin(VersionPart):
    """How a code follows from one of the version before. A code of the old version without a follower was retired."""

    class Kind(models.TextChoices):
        KEPT = "kept"
        RENAMED = "renamed"
        REDEFINED = "redefined"  # definition, include or exclude differs
        MERGED = "merged"  # several became this one
        SPLIT = "split"  # this is one of several that one became

    code = models.ForeignKey(Code, on_delete=models.CASCADE, related_name="origins")
    before = models.ForeignKey(Code, on_delete=models.PROTECT, related_name="became")
    kind = models.CharField(max_length=16, choices=Kind)

    TO_VERSION = "code__version"
    objects = PartQuerySet.as_manager()

    class Meta:
        constraints = [models.UniqueConstraint(fields=["code", "before"], name="code_origin")]

    def version_id_of(self) -> int:
        return self.code.version_id


class CodeExample(VersionPart, PublicModel):
    """An anchor in real evidence that shows what a code means, or (`is_counter`) what it does not."""

    code = models.ForeignKey(Code, on_delete=models.CASCADE, related_name="examples")
    trial = models.ForeignKey(Trial, null=True, on_delete=models.PROTECT, related_name="+")
    decision = models.ForeignKey(Decision, null=True, on_delete=models.PROTECT, related_name="+")
    step = models.PositiveIntegerField(null=True)
    field = models.CharField(max_length=64, blank=True)
    start = models.PositiveBigIntegerField(null=True)
    end = models.PositiveBigIntegerField(null=True)
    path = models.CharField(max_length=1000, blank=True)  # of a skill file, for a decision
    quote = models.TextField(blank=True)
    note = models.TextField(blank=True)
    is_counter = models.BooleanField(default=False)
    added_by = models.ForeignKey(User, null=True, on_delete=models.PROTECT, related_name="+")

    TO_VERSION = "code__version"
    objects = PartQuerySet.as_manager()

    class Meta:
        ordering = ["id"]

    def version_id_of(self) -> int:
        return self.code.version_id
