"""What an address or a form may hold."""

from __future__ import annotations

from uuid import UUID


def parse_id(text: str) -> UUID | None:
    """Return the id in an address; None for anything that is not one."""
    try:
        return UUID(text)
    except ValueError:
        return None
