from __future__ import annotations

import uuid
from typing import Any, TypeVar

from django.db import models

# Every id derived from a source or from content hangs below this one, so equal sources give equal ids anywhere.
NAMESPACE = uuid.UUID("5c1119a5-9a2c-5d6e-8f0b-7b1d3f2e4a60")


def derived_id(*parts: str) -> uuid.UUID:
    """A stable public id from the parts that identify the thing at its source."""
    return uuid.uuid5(NAMESPACE, "\x1f".join(parts))


class PublicModel(models.Model):
    """Something with an address: URLs and exports use `public_id` and nothing else."""

    public_id = models.UUIDField(default=uuid.uuid4, unique=True, editable=False)

    class Meta:
        abstract = True


Row = TypeVar("Row", bound=models.Model)


class GuardedQuerySet(models.QuerySet[Row]):
    """Rows of which some must not change any more. Django would let `update` and `delete` go around the model's own."""

    def refuse_fixed(self) -> None:
        """Raises where one of these rows must not change."""
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
    """A row that may stop changing. What counts is what the row says, whatever this object in memory believes."""

    class Meta:
        abstract = True

    def refuse_fixed(self) -> None:
        """Raises where the row must not change."""
        raise NotImplementedError

    def save(self, *args: Any, **kwargs: Any) -> None:
        self.refuse_fixed()
        super().save(*args, **kwargs)

    save.alters_data = True  # type: ignore[attr-defined]

    def delete(self, *args: Any, **kwargs: Any) -> tuple[int, dict[str, int]]:
        self.refuse_fixed()
        return super().delete(*args, **kwargs)

    delete.alters_data = True  # type: ignore[attr-defined]
