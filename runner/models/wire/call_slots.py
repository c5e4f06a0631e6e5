"""When a model call is made: in its turn before a server that accepts a limited number of calls at a time, and again
after a failure that may pass.

A server with one slot keeps a second call waiting, and that time would count as the agent's. So calls wait here, before
they are sent, and the time is known: the number of workers does not change the measurement. All processes share one
queue, in the order of arrival; a worker gives the runner one with `use_queue`. Without one, calls are sent at once.

A model that is unreachable, falls silent or is cut off is asked again, after the delay its provider asks for."""

from __future__ import annotations

import contextlib
import logging
import math
import os
import random
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime
from typing import Protocol

from runner.base.errors import InfrastructureError, ModelUnavailable, SetupError
from runner.base.types import FailedTry, Usage, sum_lost_usage

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
    def note_failure(self, endpoint: Endpoint, reason: str, seconds_left: float | None) -> None:
        """Note that the model did not answer. `seconds_left`: seconds until this caller stops; None if it stops now."""
        ...

    def note_answer(self, endpoint: Endpoint) -> None: ...


class _NoQueue:
    def count_ahead(self, endpoint: Endpoint, ticket: str, *, is_held: bool = False) -> int | None:
        return 0

    def leave(self, endpoint: Endpoint, ticket: str) -> None: ...
    def note_failure(self, endpoint: Endpoint, reason: str, seconds_left: float | None) -> None: ...
    def note_answer(self, endpoint: Endpoint) -> None: ...


_queue: CallQueue = _NoQueue()


def use_queue(queue: CallQueue | None) -> None:
    """Use this queue for all calls of this process, and of processes forked from it."""
    global _queue
    _queue = _NoQueue() if queue is None else queue


def note_failure(endpoint: Endpoint, reason: str, seconds_left: float | None = None) -> None:
    _queue.note_failure(endpoint, reason, seconds_left)


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


log = logging.getLogger(__name__)

TRIES = 4
FIRST_PAUSE_SECONDS = 1.0
LONGEST_PAUSE_SECONDS = 60.0
LOOK_AGAIN_SECONDS = 15.0  # between two looks whether a server is ready
WAIT_SECONDS = 600.0  # a large model takes minutes to load
MAX_REASON_CHARS = 300


class TransientFailure(Exception):
    """A failed try that another one may fix. `is_unreachable`: no answer yet, and asking costs nothing. `is_last`: no
    retry in this call, whose time is over. `is_bare`: a server error without a reason."""

    def __init__(
        self,
        reason: str,
        *,
        is_unreachable: bool,
        is_last: bool,
        is_bare: bool,
        retry_after: float | None,
        usage: Usage | None,
    ) -> None:
        super().__init__(reason)
        self.reason, self.is_unreachable, self.is_last, self.is_bare = reason, is_unreachable, is_last, is_bare
        self.retry_after, self.usage = retry_after, usage


def read_seconds(variable: str, default: float) -> float:
    """Read seconds from an environment variable. SetupError for anything else."""
    value = os.environ.get(variable)
    try:
        found = float(value) if value and value.strip() else default
    except ValueError:
        found = math.nan
    if not 0 <= found <= 86_400:
        raise SetupError(f"{variable}={value!r}: expected seconds, 0 to 86400")
    return found


def wait_seconds() -> float:
    return read_seconds("SKILLGLASS_MODEL_WAIT_SECONDS", WAIT_SECONDS)


@dataclass(slots=True)
class Patience:
    """The patience with one completion: `wait_out` each failed try. Servers get time to start, other failures TRIES."""

    name: str
    sleep: Callable[[float], None]
    wait_seconds: float = field(default_factory=wait_seconds)
    failed: list[FailedTry] = field(default_factory=list)
    _began: float = field(default_factory=time.monotonic)
    _waited: float = 0.0
    _others: int = 0  # failed tries that reached the model

    def begin_try(self, waited: float) -> None:
        """Exclude the wait for a free slot from the model's time."""
        self._began += waited

    def seconds_left(self, failure: TransientFailure) -> float | None:
        """Return the seconds left for retries of an unreachable model. None for one that answers with failures."""
        spent = self._waited + time.monotonic() - self._began
        return max(self.wait_seconds - spent, 0.0) if failure.is_unreachable else None

    def wait_out(self, failure: TransientFailure) -> None:
        """Pause before the next try. ModelUnavailable if there is none."""
        took = time.monotonic() - self._began
        pause = self._pause(failure, took)
        self.failed.append(FailedTry(failure.reason[:MAX_REASON_CHARS], took + (pause or 0.0), failure.usage))
        if pause is None:
            raise ModelUnavailable(
                f"{failure.reason} (model {self.name})", failure.retry_after, sum_lost_usage(self.failed)
            )
        reason = failure.reason[:MAX_REASON_CHARS]
        log.warning("model %s: try %d failed, again in %.0f s: %s", self.name, len(self.failed), pause, reason)
        self.sleep(pause)
        self._began = time.monotonic()

    def _pause(self, failure: TransientFailure, took: float) -> float | None:
        """Return the seconds to pause, or None if waiting is over.
        The delay a provider asks for is kept in full, or there is no retry."""
        asked = failure.retry_after or 0.0
        if failure.is_last:
            return None
        if failure.is_unreachable:
            left = self.wait_seconds - self._waited - took
            pause = max(asked, min(_compute_pause(len(self.failed)), LOOK_AGAIN_SECONDS, max(left, 0.0)))
            self._waited += took + pause
            return pause if left > 0 and pause <= left else None
        self._others += 1
        if self._others >= TRIES or asked > LONGEST_PAUSE_SECONDS:
            return None
        return max(asked, _compute_pause(self._others - 1))


def _compute_pause(failed: int) -> float:
    """Return the pause: it doubles from one second, each randomly between half and the whole, so that callers do not
    return all at once."""
    return min(FIRST_PAUSE_SECONDS * 2.0 ** min(failed, 16), LONGEST_PAUSE_SECONDS) * random.uniform(0.5, 1.0)


LONGEST_SECONDS = 86_400.0


def retry_after_seconds(header: str | None) -> float | None:
    """Read a Retry-After header: a number of seconds, or a date (RFC 9110, 10.2.3). None for anything else, or an
    absurdly long time."""
    text = (header or "").strip()
    try:
        seconds = (
            float(text) if text[:1].isdigit() else (parsedate_to_datetime(text) - datetime.now(UTC)).total_seconds()
        )
    except (TypeError, ValueError, OverflowError):
        return None
    return max(seconds, 0.0) if seconds < LONGEST_SECONDS else None
