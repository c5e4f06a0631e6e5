from __future__ import annotations

import uuid

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
