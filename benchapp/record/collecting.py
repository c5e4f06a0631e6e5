"""Run the cycle collector less often while many small objects are created."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

NEW_OBJECTS = 50_000  # before the next collection: about two batches of imported trials, five pages of a site


@contextmanager
def collect_seldom() -> Iterator[None]:
    """Steps, rows and pages are many small objects with few cycles: Python's default takes a twentieth of an import.
    Objects that exist before are not scanned."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
