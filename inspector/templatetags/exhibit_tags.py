"""Masks inside texts."""

from __future__ import annotations

from django import template
from django.utils.safestring import SafeString, mark_safe

from inspector.pages.review.exhibits.masking import HIDDEN
from inspector.templatetags.hostile_tags import fold_blanks

register = template.Library()


@register.simple_tag
def masked(text: str) -> SafeString:
    """The text with every mask marked up. Its characters stay as they are: offsets count them."""
    return mark_safe(fold_blanks(text).replace(HIDDEN, f'<span class="mask">{HIDDEN}</span>'))  # noqa: S308 (escaped)
