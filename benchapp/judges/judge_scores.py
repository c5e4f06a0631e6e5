"""The rows of passes as the record has them, and how their questions ended."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from django.db.models import Count

from benchapp.judges.aggregation import JudgedRow, Told, rows_of
from benchapp.models import JudgedUnit, Judgement, Judging
from runner.judging.metrics import CONTRADICTION, Metric

UNIT = ("unit__task", "unit__snapshot", "unit__skill", "unit__attempt")


def read_judged_rows(judgings: Iterable[Judging]) -> dict[int, list[JudgedRow]]:
    """judging pk -> rows, every pass given. One query."""
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
    for judging, metric, task, snapshot, skill, attempt, family, sample, item, label, value in (
        Judgement.objects.filter(unit__judging__in=wanted).order_by("unit_id", "id").values_list(*columns)
    ):
        unit = (task, snapshot, skill, attempt)
        told[judging].append(Told(Metric(metric), unit, family, sample, item, label, value))
    return {pk: rows_of(found) for pk, found in told.items()}


def endings(judging: Judging) -> dict[Metric, Counter[str]]:
    """metric -> status -> questions. One query."""
    found: dict[Metric, Counter[str]] = defaultdict(Counter)
    counted = judging.units.order_by().values_list("metric", "status").annotate(number=Count("pk"))
    for metric, status, number in counted:
        found[Metric(metric)][status] += number
    return found


def contradictions(judging: Judging) -> dict[Metric, int]:
    """Key points that a library or a trajectory contradicts. They count as not there, and are told."""
    found = Judgement.objects.filter(unit__judging=judging, label=CONTRADICTION).order_by()
    return {Metric(metric): n for metric, n in found.values_list("unit__metric").annotate(number=Count("pk"))}


def count_retried(judging: Judging) -> int:
    """Replies that could not be used as they came and were asked again."""
    asked = JudgedUnit.objects.filter(judging=judging).annotate(replies=Count("tries__reply"))
    return sum(number - 1 for number in asked.filter(replies__gt=1).values_list("replies", flat=True))
