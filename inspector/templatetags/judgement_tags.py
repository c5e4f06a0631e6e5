"""Looking up what a template has the key or the place of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from django import template

register = template.Library()


@register.filter
def of_key(words: Mapping[str, str], key: str) -> str:
    return words.get(key, key)


@register.filter
def at(items: Sequence[Any], place: int) -> Any:
    """None where the sequence is shorter."""
    return items[place] if place < len(items) else None
