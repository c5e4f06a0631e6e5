"""SkillEvolBench's six success rates (paper section 4.5, equation 6), recomputed from trials by SQL.

Which trials each covers: acquisition T1-T3 for LSR, replay of T1-T3 for RSR, frozen deployment T4-T6 for ESR, and
of these T4 alone for CSSR, T5 for ARSR, T6 for CompSR.
"""

from __future__ import annotations

from collections import defaultdict

from django.db.models import Count, Q, QuerySet

from benchapp.metrics.metric import Metric
from benchapp.metrics.rates import Rate
from benchapp.models import Trial
from runner.types import Phase, Role

PAPER = "SkillEvolBench, section 4.5, equation 6"

METRICS = (
    Metric(
        "LSR",
        "acquisition",
        "learning success: tasks passed while the library is being written",
        (Phase.ACQUISITION,),
        source=PAPER,
    ),
    Metric(
        "RSR",
        "replay",
        "replay success: the same tasks again with the finished library",
        (Phase.REPLAY,),
        source=PAPER,
    ),
    Metric(
        "ESR",
        "deployment",
        "evaluation success: unseen tasks with the frozen library",
        (Phase.DEPLOYMENT,),
        source=PAPER,
    ),
    Metric(
        "CSSR",
        "context shift",
        "deployment tasks in another context",
        (Phase.DEPLOYMENT,),
        Role.CONTEXT_SHIFT,
        source=PAPER,
    ),
    Metric(
        "ARSR",
        "adversarial",
        "deployment tasks built against a wrong rule",
        (Phase.DEPLOYMENT,),
        Role.ADVERSARIAL,
        source=PAPER,
    ),
    Metric(
        "CompSR",
        "composition",
        "deployment tasks that need several skills",
        (Phase.DEPLOYMENT,),
        Role.COMPOSITION,
        source=PAPER,
    ),
)


def rates_by_run(trials: QuerySet[Trial]) -> dict[int, dict[str, Rate]]:
    """run pk -> metric key -> rate, in one query. A metric without a planned trial has no entry."""
    counted = (
        trials.order_by()
        .values_list("episode__run", "phase", "task__role")
        .annotate(
            passing=Count("pk", filter=Q(success=True)),
            with_score=Count("pk", filter=Q(success__isnull=False)),
            in_all=Count("pk"),
        )
    )
    rates: dict[int, dict[str, Rate]] = defaultdict(dict)
    for run, phase, role, *counts in counted:
        for metric in METRICS:
            if metric.covers(phase, role):
                rates[run][metric.key] = rates[run].get(metric.key, Rate()) + Rate(*counts)
    return dict(rates)
