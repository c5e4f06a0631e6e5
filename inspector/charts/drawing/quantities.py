"""Numbers as charts write them: in the unit of their metric, short enough for a bar."""

from __future__ import annotations

from benchapp.stats.inference.shares import half_up, percent_text
from benchapp.stats.metrics.metric import MetricUnit
from inspector.web.text.formats import compact, number, usd

UNITS = {MetricUnit.SHARE: "%"}


def unit_of(unit: MetricUnit) -> str:
    return UNITS.get(unit, unit.value)


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


def plural(count: int, one: str, many: str = "") -> str:
    """(1, "task") -> "1 task"; (2, "library", "libraries") -> "2 libraries"."""
    return f"{count:,} {one if count == 1 else many or one + 's'}"


def write_interval(around: tuple[float, float] | None) -> str:
    """Behind a value in percent: ", 95 % interval 12 to 31"; nothing where there is none."""
    return f", 95 % interval {half_up(around[0])} to {half_up(around[1])}" if around else ""
