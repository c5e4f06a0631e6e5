"""A cache of the latest values of this process."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable
from threading import RLock
from typing import Generic, TypeVar

K = TypeVar("K")
V = TypeVar("V")


class Recent(Generic[K, V]):
    """Values by key. The least recently used is dropped first, the newest never.

    `limit`: of the sizes of all values together; without `size` it counts values. Threads may share it.
    """

    def __init__(self, limit: int, size: Callable[[V], int] = lambda value: 1) -> None:
        self.limit = limit
        self.total = 0
        self._size = size
        self._lock = RLock()
        self._values: OrderedDict[Hashable, V] = OrderedDict()

    def get(self, key: K) -> V | None:
        name = self._name(key)
        with self._lock:
            found = self._values.get(name)
            if found is not None:
                self._values.move_to_end(name)
            return found

    def put(self, key: K, value: V) -> None:
        name = self._name(key)
        with self._lock:
            if (former := self._values.pop(name, None)) is not None:
                self.total -= self._size(former)
            self._values[name] = value
            self.total += self._size(value)
            while self.total > self.limit and len(self._values) > 1:
                self.total -= self._size(self._values.popitem(last=False)[1])

    def get_or_make(self, key: K, make: Callable[[], V]) -> V:
        """Return one value for all threads that ask for it. `make` is called under the lock: it must be quick."""
        with self._lock:
            found = self.get(key)
            if found is None:
                found = make()
                self.put(key, found)
            return found

    def clear(self) -> None:
        with self._lock:
            self._values.clear()
            self.total = 0

    def _name(self, key: K) -> Hashable:
        return key
