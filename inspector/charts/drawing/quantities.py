"""Numbers as charts write them: in the unit of their metric, short enough for a bar."""

from __future__ import annotations

from benchapp.stats.comparing.comparison import MetricCell
from benchapp.stats.inference.shares import half_up, percent_text
from benchapp.stats.metrics.amounts import render_signed
from benchapp.stats.metrics.metric import MetricUnit, TrialMetric
from inspector.web.text.formats import compact, number, usd

Ends = tuple[float, float]  # of an interval


def unit_of(unit: MetricUnit) -> str:
    return "%" if unit is MetricUnit.SHARE else unit.value


def say_unit(unit: str) -> str:
    """On a page; files keep "pp"."""
    return "points" if unit == "pp" else unit


def write_value(value: float | None, unit: MetricUnit) -> str:
    """0.5 -> "50 %", 4123 tokens -> "4.1k"; "unknown" for None."""
    if value is None:
        return "unknown"
    if unit is MetricUnit.SHARE:
        return f"{percent_text(value, 1)} %"
    if unit is MetricUnit.USD:
        return str(usd(value))
    if unit is MetricUnit.TOKENS:
        return tokens(value)
    return str(number(value, 2 if unit is MetricUnit.SCORE else 1))


def tokens(count: float) -> str:
    return str(compact(round(count)))


def write_budget(count: int) -> str:
    """For an axis: without a zero behind the point."""
    return tokens(count).replace(".0", "")


def write_interval(around: Ends | None) -> str:
    """Behind a value in percent: ", 95 % interval 12 to 31"; nothing where there is none."""
    return f", 95 % interval {half_up(around[0])} to {half_up(around[1])}" if around else ""


def in_percent(ends: Ends | None) -> Ends | None:
    """Of a share."""
    return (100 * ends[0], 100 * ends[1]) if ends else None


def scale_value(metric: TrialMetric, value: float) -> float:
    """A share in percent, else as it is; free of the noise behind the tenth digit."""
    return round(100 * value if metric.is_share else value, 10)


def scale_cell(cell: MetricCell) -> tuple[float | None, Ends | None]:
    """Return the value and its interval in the unit shown."""
    metric, ends = cell.metric, cell.spread
    around = (scale_value(metric, ends[0]), scale_value(metric, ends[1])) if ends else None
    return None if cell.value is None else scale_value(metric, cell.value), around


def difference_unit(metric: TrialMetric) -> str:
    return "pp" if metric.is_share else metric.unit.value


def write_difference(metric: TrialMetric, delta: float) -> str:
    """For inside a cell."""
    value = scale_value(metric, delta)
    digits = 1 if metric.is_share or 10 <= abs(value) < 1000 else 0 if abs(value) >= 1000 else 2
    return render_signed(value, digits)
