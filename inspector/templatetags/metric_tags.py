"""Metrics by their plain names."""

from __future__ import annotations

from django import template

from benchapp.stats.metrics.metric import TrialMetric
from benchapp.stats.metrics.metric_names import MetricName, name_metric

register = template.Library()


@register.filter
def metric_name(metric: TrialMetric) -> MetricName:
    return name_metric(metric)
