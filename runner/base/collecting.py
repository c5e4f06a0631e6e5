"""Look for circles of dead objects less often while many live ones are made."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

NEW_OBJECTS = 50_000  # before Python looks again: some two batches of imported trials, five pages of a site


@contextmanager
def collect_seldom() -> Iterator[None]:
    """Steps, rows and pages are many small objects, and few of them hold each other in a circle: to look for those as often
    as Python does takes a twentieth of an import. What was there before is not looked at."""
    before = gc.get_threshold()
    gc.freeze()
    gc.set_threshold(NEW_OBJECTS, *before[1:])
    try:
        yield
    finally:
        gc.set_threshold(*before)
        gc.unfreeze()
