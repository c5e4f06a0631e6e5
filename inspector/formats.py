"""How numbers are written, on pages and in charts. One rule for all: what is not known says "unknown", never 0."""

from __future__ import annotations

from typing import Any

from django.utils.safestring import SafeString

from benchapp.inference.shares import percent_text
from benchapp.models import Attempt, Run

UNKNOWN = SafeString('<span class="unknown">unknown</span>')
MINUTE, HOUR, DAY = 60, 3600, 86400


def known(value: Any) -> Any:
    """The value, or the word unknown for None and for an empty text."""
    return UNKNOWN if _is_missing(value) or value == Run.UNKNOWN else value


def _is_missing(value: Any) -> bool:
    """None, or the empty text that a template makes of a key that is not there."""
    return value is None or value == ""


def percent(share: float | None) -> Any:
    """0.5 -> "50 %"; 0.995 -> "99.5 %", because "100 %" says all and "0 %" says none."""
    return UNKNOWN if _is_missing(share) else f"{percent_text(share, 0)} %"


def points(share: float) -> str:
    """A difference of two shares in percentage points, with its sign: 0.083 -> "+8.3 pp"."""
    text = f"{100 * share:+.1f}".replace("-", "−")
    return f"{text[1:] if text[1:] == '0.0' else text} pp"


def number(value: float | None, digits: int = 2) -> Any:
    """A reward or score with at most `digits` places: 1.0 -> "1", 0.333 -> "0.33"."""
    if _is_missing(value):
        return UNKNOWN
    text = f"{value:.{digits}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def compact(count: int | None) -> Any:
    """A count of tokens or steps in three figures: 412345 -> "412k"."""
    if _is_missing(count):
        return UNKNOWN
    for limit, unit in ((1_000_000_000, "G"), (1_000_000, "M"), (1_000, "k")):
        if count >= limit * 0.9995:
            value = count / limit
            return f"{value:.1f}{unit}" if value < 9.95 else f"{value:.0f}{unit}"
    return str(count)


def tokens(attempt: Attempt | None, kind: str) -> Any:
    """An attempt's "input" or "output" tokens as `compact` writes them; of a sum that is known in part, that part."""
    count, bound = (getattr(attempt, f"{kind}_{name}", None) for name in ("tokens", "at_least"))
    return f"at least {compact(bound)}" if count is None and bound is not None else compact(count)


def usd(cost: float | None) -> Any:
    """Dollars: two places, four below a cent."""
    if _is_missing(cost):
        return UNKNOWN
    return f"${cost:.4f}" if 0 < cost < 0.01 else f"${cost:,.2f}"


def duration(seconds: float | None) -> Any:
    """12.34 -> "12.3 s", 192 -> "3 min 12 s"."""
    if _is_missing(seconds):
        return UNKNOWN
    if seconds < MINUTE:
        return f"{seconds:.1f} s" if seconds < 9.95 else f"{seconds:.0f} s"
    if seconds < HOUR:
        return f"{seconds // MINUTE:.0f} min {seconds % MINUTE:02.0f} s"
    return f"{seconds // HOUR:.0f} h {seconds % HOUR // MINUTE:02.0f} min"


def headline(text: str) -> str:
    """The first line that says something: of a reason with its traceback, what happened."""
    return next((line for line in text.splitlines() if line.strip()), "")[:500]
