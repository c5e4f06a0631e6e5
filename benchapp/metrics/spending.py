"""What runs used: tokens and cost of every attempt that was billed, whether it counted or not, and of author calls."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from django.db.models import Count, QuerySet, Sum

from benchapp.models import Attempt, ModelCall


@dataclass(frozen=True, slots=True)
class Spending:
    """Sums over what is known; `*_known` of `things` say how many told. None: nothing told."""

    things: int = 0  # attempts, or calls
    tokens_known: int = 0
    cost_known: int = 0
    input_tokens: int | None = None
    cached_tokens: int | None = None
    output_tokens: int | None = None
    cost_usd: float | None = None

    @property
    def is_partial(self) -> bool:
        return self.cost_known < self.things and self.cost_usd is not None

    def as_json(self) -> dict[str, Any]:
        return {
            "things": self.things,
            "tokens_known": self.tokens_known,
            "cost_known": self.cost_known,
            "input_tokens": self.input_tokens,
            "cached_tokens": self.cached_tokens,
            "output_tokens": self.output_tokens,
            "cost_usd": self.cost_usd,
        }


SUMS = (
    Count("pk"),
    Count("input_tokens"),
    Count("cost_usd"),
    Sum("input_tokens"),
    Sum("cached_tokens"),
    Sum("output_tokens"),
    Sum("cost_usd"),
)


def spent_by(rows: QuerySet[Attempt] | QuerySet[ModelCall], field: str) -> dict[Any, Spending]:
    """value of `field` -> what its attempts or calls used, in one grouped query."""
    return {value: Spending(*sums) for value, *sums in rows.order_by().values_list(field).annotate(*SUMS)}
