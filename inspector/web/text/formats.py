"""How numbers are written, on pages and in charts.
One rule for all: an unknown value is written "unknown", never 0."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TypeVar

from django.utils.html import format_html
from django.utils.safestring import SafeString

from benchapp.experiments.work.progress import WorkProgress
from benchapp.models import Attempt, ModelCall, Run, Trial
from benchapp.stats.inference.shares import percent_text
from benchapp.stats.metrics.amounts import render_count, render_duration, render_number, render_signed, render_usd
from benchapp.stats.metrics.spending import Spending

MAX_STEP = 200  # characters of a step in a line
GLYPHS = {"passed": "✓", "failed": "✗", "unscored": "!", "skipped": "!", "blocked": "⊘", "running": "…", "waiting": "·"}
V = TypeVar("V")
UNKNOWN = SafeString('<span class="unknown">unknown</span>')


def known(value: object) -> object:
    """Return the value, or the word "unknown" for None and for an empty text."""
    return UNKNOWN if value is None or value in ("", Run.UNKNOWN) else value


def _write_known(value: V | None, write: Callable[[V], str]) -> str:
    """Format the value with `write`; "unknown" for None, and for the empty text that a template makes of a missing
    key."""
    return UNKNOWN if value is None or value == "" else write(value)


def percent(share: float | None) -> str:
    """Format a share: 0.5 -> "50 %". 0.995 -> "99.5 %", because "100 %" means all and "0 %" means none."""
    return _write_known(share, lambda found: f"{percent_text(found, 0)} %")


def points(share: float) -> str:
    """Format a difference of two shares in percentage points, with its sign: 0.083 -> "+8.3 points"."""
    return f"{render_signed(100 * share, 1)} points"


def whole_points(share: float) -> str:
    """Format it for prose: 0.083 -> "+8 points"."""
    return f"{render_signed(100 * share, 0)} points"


def number(value: float | None, digits: int = 2) -> str:
    """Format a reward or score with at most `digits` places: 1.0 -> "1", 0.333 -> "0.33"."""
    return _write_known(value, lambda found: render_number(found, digits))


def compact(count: int | None) -> str:
    """Format a count of tokens or steps in three figures: 412345 -> "412k"."""
    return _write_known(count, render_count)


def tokens(spent: Attempt | ModelCall | Spending | None, kind: str) -> str:
    """Format "input" or "output" tokens as `compact` does; "at least" before a number that is known only in part."""
    count = getattr(spent, f"{kind}_tokens", None)
    bound = count if getattr(spent, f"{kind}_is_partial", False) else getattr(spent, f"{kind}_at_least", None)
    return at_least(count if bound is None else bound, is_partial=bound is not None)


def all_tokens(progress: WorkProgress) -> str:
    """Format all tokens that were spent, input and output together."""
    return at_least(progress.spent_tokens, is_partial=progress.unknown_tokens > 0)


def at_least(count: int | None, *, is_partial: bool) -> str:
    return f"at least {compact(count)}" if is_partial and count is not None else compact(count)


def usd(cost: float | None) -> str:
    """Format dollars with two places, four below a cent."""
    return _write_known(cost, render_usd)


def estimated_usd(cost: float, word: str = "estimated") -> SafeString:
    """Format dollars that a price list gives for reported tokens, marked as estimated."""
    subject = "Some of it is" if word != "estimated" else "It is"
    title = f"{subject} estimated: the source reports tokens and no cost, the price list has the model"
    return format_html(
        '<span class="estimated" title="{}">≈ {} <small>{}</small></span>', title, render_usd(cost), word
    )


def cost(row: Trial | Attempt | None) -> str:
    """Format what a trial or an attempt cost: as reported, else estimated and marked."""
    reported, estimate = getattr(row, "cost_usd", None), getattr(row, "estimated_usd", None)
    return usd(reported) if reported is not None or estimate is None else estimated_usd(estimate)


def spent_cost(spent: Spending) -> str:
    """Format the cost of a sum, with how much of it is estimated."""
    if spent.estimated_usd is None:
        return usd(spent.cost_usd)
    if spent.cost_usd is None:
        return estimated_usd(spent.estimated_usd)
    return estimated_usd(spent.cost_usd + spent.estimated_usd, "partly estimated")


def duration(seconds: float | None) -> str:
    """12.34 -> "12.3 s", 192 -> "3 min 12 s"."""
    return _write_known(seconds, render_duration)


def headline(text: str) -> str:
    """Return the first line that means something: of a reason with its traceback, what happened."""
    return next((line for line in text.splitlines() if line.strip()), "")[:500]


def status_word(status: str) -> str:
    """Return the word that pages use for a state."""
    return "no verdict" if status == "unscored" else status


def in_a_line(step: Mapping[str, object] | None) -> str:
    """Describe an ATIF step, as `live.latest_of` returns it, in a line: "step 6 · shell · python merge.py ..."; ""
    without a step."""
    if step is None:
        return ""
    calls = step.get("tool_calls")
    call = calls[0] if isinstance(calls, list) and calls and isinstance(calls[0], dict) else {}
    arguments = call.get("arguments")
    texts = list(arguments.values()) if isinstance(arguments, dict) else []
    message = next((text for text in [*texts, step.get("message")] if isinstance(text, str) and text.strip()), "")
    place = f"step {step.get('step_id', '?')}"
    parts = [place, call.get("function_name") or "", " ".join(message.split())[:MAX_STEP]]
    return " · ".join(part for part in parts if part)
