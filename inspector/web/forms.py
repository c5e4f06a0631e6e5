"""What an address or a form may hold."""

from __future__ import annotations

from uuid import UUID


def parse_id(text: str) -> UUID | None:
    """The id of a row as an address gives it; nonsense is as if it were not there."""
    try:
        return UUID(text)
    except ValueError:
        return None
