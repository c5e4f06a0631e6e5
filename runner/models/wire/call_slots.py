"""The start of a model call: in the queue before its server, which accepts a limited number of calls at a time.

A server with one slot keeps a second call waiting, and that time would count as the agent's. So calls wait here, before
they are sent, and the time is known: the number of workers does not change the measurement. All processes share one
queue, in the order of arrival; a worker gives the runner one with `use_queue`. Without one, calls are sent at once.
"""

from __future__ import annotations

import contextlib
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Protocol

from runner.base.errors import InfrastructureError

NEXT_SECONDS, OTHERS_SECONDS = 0.1, 0.5  # between two looks at the queue, for the next in it and for the others
RENEWAL_SECONDS = 5.0
QUEUE_LOST_SECONDS = 300.0  # without the queue; then the call fails as a failure of the machine


@dataclass(frozen=True, slots=True)
class Endpoint:
    """Where calls to a model go."""

    model: str  # for people
    server: str  # calls to equal ones share their slots
    at_a_time: int | None = None  # calls; None: no limit


class CallQueue(Protocol):
    """State of the calls to one server, shared by all processes. None of these raises."""

    def count_ahead(self, endpoint: Endpoint, ticket: str, *, is_held: bool = False) -> int | None:
        """Count the calls before this one and add it to the queue if it is new. An unrenewed ticket expires.

        `is_held`: the call is in progress, so it keeps its place. None: the queue cannot be reached.
        """
        ...

    def leave(self, endpoint: Endpoint, ticket: str) -> None: ...
    def note_failure(self, endpoint: Endpoint, reason: str, gives_up_in: float | None) -> None:
        """Note that the model did not answer. `gives_up_in`: seconds until this caller stops; None if it stops now."""
        ...

    def note_answer(self, endpoint: Endpoint) -> None: ...


class _NoQueue:
    def count_ahead(self, endpoint: Endpoint, ticket: str, *, is_held: bool = False) -> int | None:
        return 0

    def leave(self, endpoint: Endpoint, ticket: str) -> None: ...
    def note_failure(self, endpoint: Endpoint, reason: str, gives_up_in: float | None) -> None: ...
    def note_answer(self, endpoint: Endpoint) -> None: ...


_queue: CallQueue = _NoQueue()


def use_queue(queue: CallQueue | None) -> None:
    """Use this queue for all calls of this process, and of processes forked from it."""
    global _queue
    _queue = _NoQueue() if queue is None else queue


def note_failure(endpoint: Endpoint, reason: str, gives_up_in: float | None = None) -> None:
    _queue.note_failure(endpoint, reason, gives_up_in)


def note_answer(endpoint: Endpoint) -> None:
    _queue.note_answer(endpoint)


@contextlib.contextmanager
def call_slot(endpoint: Endpoint, pause: Callable[[float], None]) -> Iterator[float]:
    """Wait for one of the server's slots and keep it for one call. Yield the seconds waited; 0 if one was free.

    `pause` may raise to end the wait. InfrastructureError if the queue is lost for long.
    """
    if endpoint.at_a_time is None:
        yield 0.0
        return
    queue, ticket = _queue, uuid.uuid4().hex
    try:
        waited = _wait(queue, endpoint, endpoint.at_a_time, ticket, pause)
        over = threading.Event()

        def renew() -> None:
            while not over.wait(RENEWAL_SECONDS):
                queue.count_ahead(endpoint, ticket, is_held=True)

        renewing = threading.Thread(target=renew, daemon=True)
        renewing.start()
        try:
            yield waited
        finally:
            over.set()
            renewing.join()
    finally:
        queue.leave(endpoint, ticket)


def _wait(queue: CallQueue, endpoint: Endpoint, at_a_time: int, ticket: str, pause: Callable[[float], None]) -> float:
    began = seen = time.monotonic()
    has_waited = False
    while (ahead := queue.count_ahead(endpoint, ticket)) is None or ahead >= at_a_time:
        now = time.monotonic()
        seen = now if ahead is not None else seen
        if now - seen > QUEUE_LOST_SECONDS:
            raise InfrastructureError(f"cannot reach the broker, which has the queue of calls to {endpoint.model}")
        has_waited = True
        pause(NEXT_SECONDS if ahead == at_a_time else OTHERS_SECONDS)
    return time.monotonic() - began if has_waited else 0.0
