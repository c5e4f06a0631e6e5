"""The metric that may earn a verdict where no other was declared before the run."""

from __future__ import annotations

from benchapp.stats.comparing.comparison import GroupComparison
from benchapp.stats.metrics.catalogue import DEFAULT_METRIC, METRICS, TABLES, table_for
from benchapp.stats.metrics.metric import TrialMetric
from runner.base.types import Phase


def choose_metric(comparison: GroupComparison) -> TrialMetric:
    """Deployment success; where the table that fits these trials has none, its first share of deployment, else its first share."""
    fitting = [
        each for each in TABLES[table_for(comparison.outcomes.values())] if each.is_share and comparison.has(each)
    ]
    deployed = (each for each in fitting if each.phase == Phase.DEPLOYMENT)
    return next(
        (each for each in fitting if each.key == DEFAULT_METRIC),
        next(deployed, next(iter(fitting), METRICS[DEFAULT_METRIC])),
    )
