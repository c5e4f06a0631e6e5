"""The recorded rows of passes."""

from __future__ import annotations

from collections.abc import Iterable
from datetime import datetime

from benchapp.models import JudgedUnit, Judgement, Judging
from benchapp.stats.judged.aggregation import JudgedRow, Told, rows_of
from runner.judging.metrics import Metric

UNIT = ("unit__task", "unit__snapshot", "unit__skill", "unit__attempt")


def read_judged_rows(judgings: Iterable[Judging], as_of: datetime | None = None) -> dict[int, list[JudgedRow]]:
    """Return judging pk -> rows, for every pass. One query. `as_of`: without questions asked, or asked again, later."""
    wanted = [judging.pk for judging in judgings]
    told: dict[int, list[Told]] = {pk: [] for pk in wanted}
    columns = (
        "unit__judging",
        "unit__metric",
        *UNIT,
        "unit__task__family",
        "unit__attempt__trial__sample",
        "item",
        "label",
        "value",
    )
    found = Judgement.objects.filter(unit__judging__in=wanted).order_by("unit_id", "id")
    if as_of is not None:
        found = found.exclude(unit__in=JudgedUnit.objects.filter(judging__in=wanted, tries__asked_at__gt=as_of))
    for judging, metric, task, snapshot, skill, attempt, family, sample, item, label, value in found.values_list(
        *columns
    ):
        unit = (task, snapshot, skill, attempt)
        told[judging].append(Told(Metric(metric), unit, family, sample, item, label, value))
    return {pk: rows_of(found) for pk, found in told.items()}
