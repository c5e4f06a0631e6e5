"""Masks inside texts, and the places where a text was folded."""

from __future__ import annotations

from typing import Any
from urllib.parse import urlencode

from django import template
from django.utils.html import format_html, format_html_join
from django.utils.safestring import SafeString

from inspector.review.masking import HIDDEN

register = template.Library()


@register.simple_tag
def masked(text: str) -> SafeString:
    """The text with every mask marked up. Its characters stay as they are: offsets count them."""
    first, *others = text.split(HIDDEN)
    marks = format_html_join("", '<span class="mask">{}</span>{}', ((HIDDEN, other) for other in others))
    return format_html("{}{}", first, marks)


@register.inclusion_tag("review/_exhibit_gap.html")
def gap(exhibit: Any, index: int, step: int, field: Any) -> dict[str, Any]:
    """The link that fetches what was folded. Of a text too long to be masked whole at once only the beginning is
    known, so its length is not told while anything is hidden."""
    is_known = bool(field.tail) or not exhibit.hidden.facts
    return {
        "address": gap_address(
            exhibit.piece_address, index, step, field.name, field.start, field.end if field.tail else None
        ),
        "left_out": field.left_out if is_known else 0,
    }


def gap_address(base: str, index: int, step: int, name: str, start: int, end: int | None) -> str:
    query: dict[str, object] = {"step": step, "field": name, "start": start, "trajectory": index}
    return f"{base}?{urlencode({**query, 'end': end} if end is not None else query)}"
