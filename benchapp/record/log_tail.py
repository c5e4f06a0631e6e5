"""The last log lines about an episode, for anyone watching: a capped list in the broker, gone after a day.

Nothing depends on it. Lines pass through the redactor, like everything that leaves the process.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator
from contextlib import contextmanager

import django_rq
from redis.exceptions import RedisError

from benchapp.record.own_secrets import own_secrets
from benchapp.record.redaction import Redactor
from runner.base.text import cut, storable

MAX_LINES = 200
MAX_TEXT = 2_000  # characters of a line, of its beginning and its end; a traceback is several
KEEP_SECONDS = 24 * 3600
PAUSE_SECONDS = 30.0  # after a failure: work must not wait for the broker at every line

FORMAT = logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
FORMAT.converter = time.gmtime


class Tail(logging.Handler):
    """Publish this process's lines under one episode. A work-horse works on one at a time."""

    def __init__(self, episode: str) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(FORMAT)
        self._key = _key(episode)
        self._silent_until = 0.0
        self._redactor = Redactor(own_secrets())

    def emit(self, record: logging.LogRecord) -> None:
        if time.monotonic() < self._silent_until:
            return
        try:
            lines = [
                cut(line, MAX_TEXT) for line in self._redactor.text(storable(self.format(record))).splitlines() if line
            ]
            pipeline = django_rq.get_connection().pipeline(transaction=False)
            pipeline.rpush(self._key, *lines[-MAX_LINES:])
            pipeline.ltrim(self._key, -MAX_LINES, -1)
            pipeline.expire(self._key, KEEP_SECONDS)
            pipeline.execute()
        except (RedisError, OSError):  # not logged: a handler that logs would call itself
            self._silent_until = time.monotonic() + PAUSE_SECONDS
        except Exception:  # a line that cannot be formatted, from any logger: no reason to stop the work
            self.handleError(record)


@contextmanager
def keep_tail(episode: str) -> Iterator[None]:
    """Keep what is logged inside the block as the episode's tail."""
    tail, root = Tail(episode), logging.getLogger()
    root.addHandler(tail)
    try:
        yield
    finally:
        root.removeHandler(tail)


def read(episode: str, count: int = MAX_LINES) -> list[str] | None:
    """Return the last lines, oldest first. None when the broker is offline."""
    try:
        found = django_rq.get_connection().lrange(_key(episode), -count, -1)
    except (RedisError, OSError):
        return None
    return [line.decode("utf-8", "replace") if isinstance(line, bytes) else line for line in found]


def _key(episode: str) -> str:
    return f"log:{episode}"
