from __future__ import annotations

import uuid
from collections.abc import Iterable, Sequence
from typing import Any, TypeVar

from django.db import models
from django.db.models import Case, Q, When
from django.db.models.functions import Now

# The namespace of every id derived from a source or from content: equal sources give equal ids anywhere.
NAMESPACE = uuid.UUID("5c1119a5-9a2c-5d6e-8f0b-7b1d3f2e4a60")


def derived_id(*parts: str) -> uuid.UUID:
    """Return a stable public id from the parts that identify the thing at its source."""
    return uuid.uuid5(NAMESPACE, "\x1f".join(parts))


class PublicModel(models.Model):
    """Something with an address: URLs and exports use `public_id` and nothing else."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)

    class Meta:
        abstract = True


Row = TypeVar("Row", bound=models.Model)


def match_words(words: Iterable[str], *columns: str) -> Q:
    """Match rows where each word is a part of one of the columns."""
    return Q(*(Q(*((f"{column}__icontains", word) for column in columns), _connector=Q.OR) for word in words))


def rank_beginning(column: str, words: Sequence[str]) -> Case:
    """Order rows whose column begins with the first word before all others."""
    return Case(When(**{f"{column}__istartswith": words[0] if words else ""}, then=0), default=1)


Sliced = TypeVar("Sliced", bound="SlicedModel")


class SlicedQuerySet(models.QuerySet[Sliced]):
    """Background work, by who holds it."""

    def open(self) -> SlicedQuerySet[Sliced]:
        return self.filter(status=SlicedModel.Status.WAITING)

    def due(self) -> SlicedQuerySet[Sliced]:
        """Unfinished work that nobody holds, by the database's clock."""
        return self.open().filter(Q(worker="") | Q(lease_until__lt=Now()))


class SlicedModel(PublicModel):
    """Background work, done slice by slice by the worker that holds its lease: see `benchapp.record.slices`."""

    class Status(models.TextChoices):
        WAITING = "waiting"  # for a worker, or running
        DONE = "done"
        STOPPED = "stopped"  # `reason` says why; continues when a person asks for it

    status = models.CharField(max_length=16, choices=Status, default=Status.WAITING, db_index=True)
    reason = models.TextField(blank=True)
    failures = models.PositiveIntegerField(default=0)  # processes in a row that started on it and vanished
    worker = models.CharField(max_length=200, blank=True)
    lease_until = models.DateTimeField(null=True)
    lease_epoch = models.PositiveIntegerField(default=0)  # the holder of an older one writes nothing

    class Meta:
        abstract = True


class GuardedQuerySet(models.QuerySet[Row]):
    """Rows that may be fixed for good. Guards `update` and `delete` as well as the model's methods."""

    def refuse_fixed(self) -> None:
        """Raise where one of these rows must not change."""
        raise NotImplementedError

    def update(self, **fields: Any) -> int:
        self.refuse_fixed()
        return super().update(**fields)

    update.alters_data = True  # type: ignore[attr-defined]

    def delete(self) -> tuple[int, dict[str, int]]:
        self.refuse_fixed()
        return super().delete()

    delete.alters_data = True  # type: ignore[attr-defined]
    delete.queryset_only = True  # type: ignore[attr-defined]


class GuardedModel(models.Model):
    """A row that may be fixed for good. The stored row decides, not this object in memory."""

    class Meta:
        abstract = True

    def refuse_fixed(self) -> None:
        """Raise where the row must not change."""
        raise NotImplementedError

    def save(self, *args: Any, **kwargs: Any) -> None:
        self.refuse_fixed()
        super().save(*args, **kwargs)

    save.alters_data = True  # type: ignore[attr-defined]

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        self.refuse_fixed()
        return super().delete(*args, **kwargs)

    delete.alters_data = True  # type: ignore[attr-defined]
