"""What one reviewer has said so far: shown to them alone, while the queue still hides what others said.

Their own labels give nothing away: no condition is named, and nobody else's answer is counted.
"""

from __future__ import annotations

from dataclasses import dataclass

from django.db.models import Count

from benchapp.models import Label, Queue, Review, User
from benchapp.record.json_shape import JsonShape, Shaped
from benchapp.stats.inference.shares import MIN_FOR_INTERVAL, half_up, wilson


@dataclass(frozen=True, slots=True)
class OwnCount(Shaped):
    """How many of a reviewer's items carry a code; no interval where they are too few for one."""

    code: str
    items: int
    of: int

    json_shape = JsonShape("code", "items", "of", "interval")

    @property
    def interval(self) -> tuple[float, float] | None:
        return wilson(self.items, self.of) if self.of >= MIN_FOR_INTERVAL else None

    @property
    def percents(self) -> tuple[int, int] | None:
        """The interval in whole percent."""
        return (int(half_up(100 * self.interval[0])), int(half_up(100 * self.interval[1]))) if self.interval else None


def count_own(queue: Queue, user: User) -> tuple[int, list[OwnCount]]:
    """(items that this person submitted, their codes, the most frequent first). Two queries."""
    own = Review.objects.filter(item__queue=queue, reviewer=user, state=Review.State.SUBMITTED)
    total = own.count()
    labels = Label.objects.filter(mark__review__in=own).order_by().values_list("code__name")
    counted = labels.annotate(items=Count("mark__review", distinct=True)).order_by("-items", "code__name")
    return total, [OwnCount(name, items, total) for name, items in counted]
