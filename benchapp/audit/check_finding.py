"""The findings of a check."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TypeVar

from django.db.models import Model, QuerySet

M = TypeVar("M", bound=Model)


@dataclass(frozen=True, slots=True)
class _Remark:
    kind: str  # what sort of row it is
    ident: str  # the public id if the row has one, else a digest
    message: str

    def __str__(self) -> str:
        return f"{self.kind} {self.ident}: {self.message}"


class Flaw(_Remark):
    """Something in the record that does not hold."""

    __slots__ = ()


class Unchecked(_Remark):
    """Something that may well hold, but there is nothing left to compare it with."""

    __slots__ = ()


def flaw_each(rows: QuerySet[M], kind: str, message: str, ident: str = "public_id") -> Iterator[Flaw]:
    """Yield one flaw per row, named by the public id found along `ident`."""
    for found in rows.order_by("pk").values_list(ident, flat=True).iterator():
        yield Flaw(kind, str(found), message)
