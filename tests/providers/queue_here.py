"""A queue of calls that only this process sees."""

from __future__ import annotations

from threading import Lock

from runner.models.wire.call_slots import Endpoint

ONE_SLOT = Endpoint("smol", "127.0.0.1:8080 here", 1)


class QueueHere:
    """`outage`: model, reason and when it is given up, since the last answer."""

    def __init__(self) -> None:
        self.tickets: list[str] = []
        self.lock = Lock()
        self.is_lost = False
        self.outage: tuple[str, str, float | None] | None = None

    def count_ahead(self, endpoint: Endpoint, ticket: str, *, is_held: bool = False) -> int | None:
        with self.lock:
            if self.is_lost:
                return None
            if ticket not in self.tickets:
                self.tickets.append(ticket)
            return self.tickets.index(ticket)

    def leave(self, endpoint: Endpoint, ticket: str) -> None:
        with self.lock:
            self.tickets = [each for each in self.tickets if each != ticket]

    def note_failure(self, endpoint: Endpoint, reason: str, seconds_left: float | None) -> None:
        self.outage = (endpoint.model, reason, seconds_left)

    def note_answer(self, endpoint: Endpoint) -> None:
        self.outage = None
