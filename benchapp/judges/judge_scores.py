"""Count how the questions of passes ended."""

from __future__ import annotations

from collections import Counter, defaultdict

from django.db.models import Count

from benchapp.models import JudgedUnit, Judgement, Judging
from runner.judging.metrics import CONTRADICTION, Metric


def endings(judging: Judging) -> dict[Metric, Counter[str]]:
    """Return metric -> status -> questions. One query."""
    found: dict[Metric, Counter[str]] = defaultdict(Counter)
    counted = judging.units.order_by().values_list("metric", "status").annotate(number=Count("pk"))
    for metric, status, number in counted:
        found[Metric(metric)][status] += number
    return found


def contradictions(judging: Judging) -> dict[Metric, int]:
    """Count key points that a library or a trajectory contradicts. They are scored as missing, and reported."""
    found = Judgement.objects.filter(unit__judging=judging, label=CONTRADICTION).order_by()
    return {Metric(metric): n for metric, n in found.values_list("unit__metric").annotate(number=Count("pk"))}


def count_retried(judging: Judging) -> int:
    """Count replies that were unusable and asked again."""
    asked = JudgedUnit.objects.filter(judging=judging).annotate(replies=Count("tries__reply"))
    return sum(number - 1 for number in asked.filter(replies__gt=1).values_list("replies", flat=True))
