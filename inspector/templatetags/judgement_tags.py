"""Looking up what a template has the key or the place of."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TypeVar

from django import template

Item = TypeVar("Item")
register = template.Library()


@register.filter
def of_key(words: Mapping[str, str], key: str) -> str:
    return words.get(key, key)


@register.filter
def at(items: Sequence[Item], place: int) -> Item | None:
    """None where the sequence is shorter."""
    return items[place] if place < len(items) else None
