"""Numbers written for people: shares, counts, dollars, lengths of time. The caller words what is unknown."""

from __future__ import annotations

from benchapp.stats.inference.shares import half_up, percent_text
from benchapp.stats.metrics.metric import MetricUnit

MINUS = "\N{MINUS SIGN}"
MINUTE, HOUR, DAY = 60, 3600, 86400
MAGNITUDES = ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k"))


def render_number(value: float, digits: int = 2) -> str:
    """Format a reward or score with at most `digits` places: 1.0 -> "1", 0.333 -> "0.33"."""
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def render_count(count: float) -> str:
    """Format a count of tokens or steps in three figures: 412345 -> "412k"."""
    for limit, letter in MAGNITUDES:
        if count >= limit * 0.9995:
            value = count / limit
            return f"{value:.1f}{letter}" if value < 9.95 else f"{value:.0f}{letter}"
    return str(int(count)) if count == int(count) else str(count)


def render_usd(cost: float, below: float = 0.01) -> str:
    """Format dollars with two places, four below `below`. Amounts that round to nothing are "< $0.0001"."""
    if 0 < cost < 0.00005:
        return "< $0.0001"
    return f"${cost:.4f}" if 0 < cost < below else f"${cost:,.2f}"


def render_signed(value: float, digits: int = 1) -> str:
    """Format with sign, a true minus and thousands separators. What rounds to zero has no sign."""
    text = f"{half_up(value, digits):+,f}".replace("-", MINUS)
    return text if any(digit in text for digit in "123456789") else text[1:]


def render_duration(seconds: float) -> str:
    """Format a duration as measured: 12.34 -> "12.3 s", 192 -> "3 min 12 s"."""
    if seconds < MINUTE:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    if seconds < HOUR:
        return f"{seconds // MINUTE:.0f} min {seconds % MINUTE:02.0f} s"
    return f"{seconds // HOUR:.0f} h {seconds % HOUR // MINUTE:02.0f} min"


def render_rough_duration(seconds: float) -> str:
    """Format an estimate in its two largest units: "40 s", "3 min 20 s", "2 h 5 min", "4 d 1 h"."""
    whole = max(0, round(seconds))
    parts = []
    for name, length in (("d", DAY), ("h", HOUR), ("min", MINUTE), ("s", 1)):
        if whole >= length:
            parts.append(f"{whole // length} {name}")
            whole %= length
        elif parts:
            break
    return " ".join(parts[:2]) or "0 s"


def render_left(low: float, high: float) -> str:
    """Format an estimate between two bounds in seconds, rounded outward: "about 20 to 40 min", "less than a minute"."""
    if high <= MINUTE:
        return "less than a minute"
    low, high = max(MINUTE, _round_down(low)), -_round_down(-high)
    first, last = render_rough_duration(low), render_rough_duration(high)
    if first == last:
        return f"about {first}"
    alike = first.count(" ") == last.count(" ") == 1 and first.split()[1] == last.split()[1]
    return f"about {first.split()[0] if alike else first} to {last}"


def render_at_most(seconds: float) -> str:
    """Format an upper bound: 1,310 -> "at most 25 min"."""
    return "less than a minute" if seconds <= MINUTE else f"at most {render_rough_duration(-_round_down(-seconds))}"


def _round_down(seconds: float) -> float:
    """Return the next lower round duration; of a negative one its negated next higher."""
    steps = ((10, 1), (MINUTE, 10), (10 * MINUTE, MINUTE), (HOUR, 5 * MINUTE), (10 * HOUR, HOUR / 2), (2 * DAY, HOUR))
    step = next((step for below, step in steps if abs(seconds) < below), DAY / 2)
    return seconds // step * step


def render_metric(value: float, unit: MetricUnit) -> str:
    """Format a metric's value as in the tables: shares as percent without the sign, dollars with theirs."""
    if unit is MetricUnit.SHARE:
        return percent_text(value, 1)
    if unit is MetricUnit.USD:
        return render_usd(value, below=0.1)
    if unit is MetricUnit.SCORE:
        return f"{value:.2f}"
    return f"{value:,.0f}" if abs(value) >= 100 else f"{value:.1f}"


def render_relative(part: float) -> str:
    """Format a relative change: -0.33 -> "−33 %"."""
    return f"{render_signed(100 * part, 0)} %"


def render_change(value: float, unit: MetricUnit) -> str:
    """Format a difference of two values of a metric, with its sign; of shares in percentage points."""
    if unit is MetricUnit.SHARE:
        return render_signed(100 * value, 1)
    if unit is MetricUnit.USD:
        return render_signed(value, 4 if abs(value) < 0.1 else 2)
    if unit is MetricUnit.SCORE:
        return render_signed(value, 2)
    return render_signed(value, 0 if abs(value) >= 100 else 1)
