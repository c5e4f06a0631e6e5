"""How long a provider asks to be left alone, wherever its answer is read: on this side, or at a sandbox's gateway."""

from __future__ import annotations

from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

LONGEST_SECONDS = 86_400.0


def retry_after_seconds(told: str | None) -> float | None:
    """Of a Retry-After header: a number of seconds, or a date (RFC 9110, 10.2.3). None where it tells neither, or so
    long a time that nobody can mean it."""
    text = (told or "").strip()
    try:
        seconds = (
            float(text) if text[:1].isdigit() else (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
        )
    except (TypeError, ValueError, OverflowError):
        return None
    return max(seconds, 0.0) if seconds < LONGEST_SECONDS else None
