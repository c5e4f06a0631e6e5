"""A judging model's scores of skills and attempts as metrics over trials (SkillLearnBench, 3.2, Tables 2, 10 to 12).

A trial has the scores of its library for its task, each the mean over the library's skills, and those of its attempt.
What the paper calls a task is a family here: mean over samples, then over the family's instances, then over families.
"""

from __future__ import annotations

from benchapp.stats.benchmarks.skilllearnbench_metrics import PHASES
from benchapp.stats.judged.aggregation import ALIGNMENT
from benchapp.stats.metrics.metric import MetricUnit, TrialMetric
from benchapp.stats.metrics.outcomes import JUDGED
from runner.judging.metrics import SCALES, Metric

POINTS = "key points that the library teaches, of those judged"
SKILLS = "mean over the skills of a trial's library"
RECALLED = "key points that the attempt did, of those judged"


def _metric(key: str, measure: str, meaning: str, table: str) -> TrialMetric:
    return TrialMetric(
        key,
        key.replace("-", " "),
        f"{meaning}; a judging model's score, 0 to 100, per instance, then per family and over families",
        PHASES,
        column=f"{JUDGED}{measure}",
        unit=MetricUnit.OF_HUNDRED,
        source=f"SkillLearnBench, section 3.2 and {table}",
        macro=True,
    )


def _parts(metric: Metric, table: str) -> tuple[TrialMetric, ...]:
    return tuple(
        _metric(f"{metric}-{item.replace('_', '-')}", f"{metric}.{item}", f"{item.replace('_', ' ')}, {SKILLS}", table)
        for item in SCALES[metric]
    )


LEVELS = (
    _metric("coverage", Metric.COVERAGE, POINTS, "Table 2"),
    _metric("executability", Metric.EXECUTABILITY, f"mean of its four parts, {SKILLS}", "Table 2"),
    _metric("safety", Metric.SAFETY, f"mean of its six parts, {SKILLS}; higher is safer", "Table 2"),
    _metric(
        "alignment", ALIGNMENT, "mean of recall, order and completeness, where an attempt has all three", "Table 2"
    ),
)
PARTS = (
    *_parts(Metric.EXECUTABILITY, "Table 10"),
    *_parts(Metric.SAFETY, "Table 11"),
    _metric("alignment-recall", Metric.RECALL, RECALLED, "Table 12"),
    _metric("alignment-order", Metric.ORDER, "steps in a workable order", "Table 12"),
    _metric("alignment-completeness", Metric.COMPLETENESS, "brought to a conclusion", "Table 12"),
)
METRICS = (*LEVELS, *PARTS)
