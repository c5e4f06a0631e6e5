"""Metrics and groups of a comparison by their plain names."""

from __future__ import annotations

from django import template
from django.utils.html import format_html
from django.utils.safestring import SafeString

from benchapp.record.visible import visible
from benchapp.stats.comparing.condition_names import SEPARATOR, name_condition
from benchapp.stats.comparing.effects import Effect
from benchapp.stats.metrics.amounts import MINUS, render_change, render_count, render_usd
from benchapp.stats.metrics.catalogue import METRIC_NAMES, name_metric, note_metric
from benchapp.stats.metrics.metric import MetricUnit, TrialMetric
from benchapp.stats.metrics.tally import TrialTally
from inspector.pages.compare.lanes import draw_share
from inspector.templatetags.page_tags import condition

register = template.Library()
register.filter("metric_name", name_metric)
register.filter("metric_note", note_metric)


@register.filter
def effect_words(code: str) -> str:
    return Effect(code).words


@register.simple_tag
def chart_label(label: str) -> SafeString:
    """A row or column of a chart: a metric or a group by its short name, a place by its own."""
    return format_html("{}", METRIC_NAMES[label].short) if label in METRIC_NAMES else group_label(label, "short")


@register.filter
def change(value: float, metric: TrialMetric) -> str:
    """A difference in points or in the metric's unit, with its sign."""
    return render_change(value, metric.unit)


@register.filter
def amount(value: float, unit: MetricUnit) -> str:
    """What was spent: in dollars, or a count of tokens in three figures."""
    return render_usd(value, below=0.1) if unit is MetricUnit.USD else render_count(round(value))


@register.filter
def is_condition(text: str) -> bool:
    """Whether it is the code of a condition with a name and a mark of its own."""
    return name_condition(text).origin is not None


@register.simple_tag
def share_bar(tally: TrialTally, condition: str = "") -> SafeString:
    """Passed of scored as a bar from nothing to all; without an interval,
    since repeats of a task are not independent draws."""
    return draw_share(condition, tally.rate.value or 0.0, None, f"{tally.passed} of {tally.scored} passed")


@register.filter
def minus(text: object) -> str:
    """A printed number with a real minus sign."""
    return str(text).replace("-", MINUS)


@register.simple_tag
def group_label(label: str, form: str = "title") -> SafeString:
    """Return the label of a group: its condition with mark and name, and below it, small,
    what distinguishes the group."""
    code, _, rest = label.partition(SEPARATOR)
    return format_html(
        "{}{}", condition(code, form), format_html('<span class="sub">{}</span>', visible(rest)) if rest else ""
    )
