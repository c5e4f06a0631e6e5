"""Times as sources write them. Those without a zone are used only for lengths."""

from __future__ import annotations

from datetime import UTC, datetime

from benchapp.imports.reading.documents import Document


def read_time(document: Document, key: str) -> datetime | None:
    """Return the time below `key`: aware (UTC) or naive, as in the source. None, with a report, if malformed."""
    text = document.text(key, 64)
    if not text:
        return None
    try:
        value = datetime.fromisoformat(text)
        return value if value.tzinfo is None else value.astimezone(UTC)
    except (ValueError, OverflowError):
        document.report(key, "an ISO 8601 time between the years 1 and 9999", f"found {text!r}")
        return None


def aware(value: datetime | None) -> datetime | None:
    return value if value is not None and value.tzinfo is not None else None


def seconds_between(document: Document, start: datetime | None, end: datetime | None) -> float | None:
    """Return seconds from start to end if both have a zone or neither has. A negative length is reported."""
    if start is None or end is None or (start.tzinfo is None) != (end.tzinfo is None):
        return None
    seconds = (end - start).total_seconds()
    if seconds < 0:
        document.report("finished_at", "an end after its start", f"it is {-seconds:.1f} seconds before")
        return None
    return seconds


def phase_seconds(document: Document) -> float | None:
    """Return the length of an object with started_at and finished_at."""
    return seconds_between(document, read_time(document, "started_at"), read_time(document, "finished_at"))


def zoneless_text(document: Document, key: str, value: datetime | None) -> str:
    """Return the source's own text if it is not an aware time."""
    return (document.text(key, 64) or "") if aware(value) is None else ""
