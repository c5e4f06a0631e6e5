"""Filters of the search page."""

from __future__ import annotations

from django import template

register = template.Library()
FIELD_WORDS = {"tool_calls": "call", "observations": "result"}


@register.filter
def field_word(name: str) -> str:
    """A field of a step as the trial page calls it: `tool_calls/2` is a call, `observations/0` a result."""
    return FIELD_WORDS.get(name.partition("/")[0], name)
