"""A limit on trials at a time on one engine, over all workers.

Processors, disks and quotas belong to the engine, so each attempt takes one of its places before its sandbox is made. The
time until one is free is before the attempt, and part of no measurement.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from contextlib import AbstractContextManager

from runner.base.errors import NotOnThisMachine
from runner.models.wire.call_slots import Endpoint, call_slot
from runner.sandboxes import SandboxKind


def most_at_once() -> int | None:
    """Read the limit; None: there is none. NotOnThisMachine for anything but a positive number."""
    limit = os.environ.get("SKILLGLASS_ENGINE_TRIALS", "").strip()
    if limit and not (limit.isascii() and limit.isdigit() and int(limit)):
        raise NotOnThisMachine(
            f"SKILLGLASS_ENGINE_TRIALS={limit!r}: expected a positive number, or nothing for no limit"
        )
    return int(limit) if limit else None


def place_on(kind: SandboxKind, pause: Callable[[float], None]) -> AbstractContextManager[float]:
    """Wait for a place on the engine of this kind of sandbox, and hold it. Yields the seconds waited.

    `pause` may raise to end the wait.
    """
    most = most_at_once()
    return call_slot(Endpoint("the engine of sandboxes", f"engine {kind.engine() if most else ''}", most), pause)
