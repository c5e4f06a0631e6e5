"""How p values are written."""

from __future__ import annotations

from django import template

register = template.Library()


@register.filter
def p_value(p: float | None) -> str:
    """Two places, three below 0.1, never 0: 0.0004 -> "< 0.001"; "none" where there is none."""
    if p is None:
        return "none"
    if p < 0.001:
        return "< 0.001"
    return f"{p:.2f}" if p >= 0.1 else f"{p:.3f}"
