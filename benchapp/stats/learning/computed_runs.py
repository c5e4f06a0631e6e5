"""Computed values cached in this process: the latest by key, and those of runs until a number changes."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Iterable, Mapping
from threading import RLock
from typing import Generic, Protocol, TypeVar
from weakref import WeakSet

from benchapp.models import Run

K = TypeVar("K")
V = TypeVar("V")


def _count_one(value: object) -> int:
    return 1


class Recent(Generic[K, V]):
    """Values by key. The least recently used is dropped first, the newest never.

    `limit`: of the sizes of all values together; without `size` it counts values. Threads may share it.
    """

    def __init__(self, limit: int, size: Callable[[V], int] = _count_one) -> None:
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


class RunCache(Recent[Run, V]):
    """Values by run and revision: what was computed before a number of the run changed is never found again."""

    def __init__(self, limit: int, size: Callable[[V], int] = _count_one) -> None:
        super().__init__(limit, size)
        _EVERY.add(self)

    def read_all(
        self,
        runs: Iterable[Run],
        read: Callable[[list[Run]], Mapping[int, V]],
        may_keep: Callable[[Run], bool] = lambda run: True,
    ) -> dict[int, V]:
        """Return run pk -> value, for every run. `read` is called once, with all runs whose values are not cached."""
        wanted = list(runs)
        found = {run.pk: value for run in wanted if may_keep(run) and (value := self.get(run)) is not None}
        missing = [run for run in wanted if run.pk not in found]
        found |= read(missing) if missing else {}
        for run in missing:
            if may_keep(run):
                self.put(run, found[run.pk])
        return {run.pk: found[run.pk] for run in wanted}

    def _name(self, key: Run) -> Hashable:
        return key.public_id, key.revision


class Forgetful(Protocol):
    """A cache of any values."""

    def clear(self) -> None: ...


_EVERY: WeakSet[Forgetful] = WeakSet()


def forget_runs() -> None:
    """Clear this process's cached values of runs, as if it had just started."""
    for kept in list(_EVERY):
        kept.clear()


def has_ended(run: Run) -> bool:
    """True when the run is done. Before, some values change without another revision."""
    return run.status == Run.Status.DONE
