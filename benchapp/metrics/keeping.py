"""What was computed from a run, kept in this process until a number of the run changes."""

from __future__ import annotations

from collections import OrderedDict
from threading import Lock
from typing import Generic, TypeVar
from uuid import UUID

from benchapp.models import Run

T = TypeVar("T")


class Kept(Generic[T]):
    """Values by run and revision; the least recently used is forgotten first."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._lock = Lock()
        self._values: OrderedDict[tuple[UUID, int], T] = OrderedDict()

    def get(self, run: Run) -> T | None:
        key = run.public_id, run.revision
        with self._lock:
            found = self._values.get(key)
            if found is not None:
                self._values.move_to_end(key)
            return found

    def put(self, run: Run, value: T) -> None:
        with self._lock:
            self._values[run.public_id, run.revision] = value
            while len(self._values) > self.limit:
                self._values.popitem(last=False)

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
