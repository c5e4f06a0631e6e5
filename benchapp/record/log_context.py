"""Ids of the current work that every log line carries, without being passed around."""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar

_ids: ContextVar[Mapping[str, str] | None] = ContextVar("log_ids", default=None)  # None outside of all work


@contextmanager
def about(**ids: object) -> Iterator[None]:
    """Add these ids (request, episode, run, attempt ...) to the lines inside the block, next to those around it.

    Ids from `add` end with the block: a thread serves many requests one after the other.
    """
    token = _ids.set({**present(), **_texts(ids)})
    try:
        yield
    finally:
        _ids.reset(token)


def add(**ids: object) -> None:
    """Add ids that became known inside an `about` block; None removes one. Outside of a block nothing would end them,
    so they are not kept there."""
    known = _ids.get()
    if known is None:
        return
    gone = {name for name, value in ids.items() if value is None}
    kept = {name: value for name, value in known.items() if name not in gone}
    _ids.set({**kept, **_texts(ids)})


def present() -> Mapping[str, str]:
    return _ids.get() or {}


@contextmanager
def errors_only(logger: str) -> Iterator[None]:
    """Let `logger` log only errors inside the block, where a command reports the rest itself."""
    found = logging.getLogger(logger)
    before = found.level
    found.setLevel(logging.ERROR)
    try:
        yield
    finally:
        found.setLevel(before)


def _texts(ids: Mapping[str, object]) -> dict[str, str]:
    return {name: str(value) for name, value in ids.items() if value is not None}


class AddIds(logging.Filter):
    """Put the current ids on each record as `record.ids`. Belongs on handlers: those see every logger's lines."""

    def filter(self, record: logging.LogRecord) -> bool:
        if not hasattr(record, "ids"):
            record.ids = present()
        return True
