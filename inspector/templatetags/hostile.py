"""Filters for text that trials and authors wrote, and for lists that must stay short."""

from __future__ import annotations

from typing import Any

from django import template

from inspector.visible import visible as make_visible

register = template.Library()


@register.filter
def visible(text: object) -> str:
    """Text of strangers without anything a reader could not see; nothing stays nothing."""
    return "" if text is None else make_visible(str(text))


@register.filter
def errors(findings: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The findings for which a patch was rejected, without mere warnings."""
    return [finding for finding in findings if finding.get("severity") == "error"]


@register.filter
def at_most(value: int, limit: int) -> int:
    return min(value, limit)


@register.filter
def unlocal(value: float) -> str:
    """A number as HTML attributes want it."""
    return f"{value:g}"


@register.filter
def apart(value: int) -> str:
    """12345 -> "12,345"."""
    return f"{value:,}"
