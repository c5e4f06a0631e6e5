"""Work as it happens, for anyone watching, capped in the broker: an attempt's steps, gone an hour after the last one,
and the last log lines about an episode, gone after a day.

Nothing depends on it. When the broker is offline, only the live view is missing. Log lines pass through the redactor,
like everything that leaves the process; steps are redacted before they come here.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

import django_rq
import orjson
from redis.exceptions import RedisError

from benchapp.record import log_context
from benchapp.record.redaction import Redactor, own_secrets
from runner.base.text import cut, storable
from runner.base.types import JsonObject, JsonValue, Step
from runner.trajectories.atif_values import step_to_json

log = logging.getLogger(__name__)

MAX_STEPS = 500  # about; the broker trims in blocks
KEEP_SECONDS = 3600
MAX_TEXT = 4_000  # characters of any one text
PAUSE_SECONDS = 30.0  # after a failure: an attempt must not wait for the broker at every step or line

_silent_until = 0.0


def publish(attempt: str, step: Step) -> None:
    """Add the step to the attempt's stream. Never raises for a broker that is offline."""
    global _silent_until
    if time.monotonic() < _silent_until:
        return
    try:
        pipeline = django_rq.get_connection().pipeline(transaction=False)
        body = orjson.dumps(_shorten(step_to_json(step)), default=str)
        pipeline.xadd(_key(attempt), {"step": body}, maxlen=MAX_STEPS, approximate=True)
        pipeline.expire(_key(attempt), KEEP_SECONDS)
        pipeline.execute()
    except (RedisError, OSError) as error:
        _silent_until = time.monotonic() + PAUSE_SECONDS
        log.warning("attempt %s: live steps pause for %.0f s: %s", attempt, PAUSE_SECONDS, error)


def read(attempt: str, after: str = "0", count: int = 100) -> list[tuple[str, JsonObject]]:
    """Return (id, ATIF step) of the steps after the one with id `after`, with shortened texts."""
    try:
        return _read_entries(django_rq.get_connection().xrange(_key(attempt), min=f"({after}", count=count))
    except (RedisError, OSError):
        return []


def tail(attempt: str, count: int = 100) -> list[tuple[str, JsonObject]] | None:
    """Return the last `count` steps likewise, oldest first. None when the broker is offline."""
    try:
        return _read_entries(django_rq.get_connection().xrevrange(_key(attempt), count=count))[::-1]
    except (RedisError, OSError):
        return None


def published_at(place: str) -> datetime:
    """Return when the step with this id was published. The broker numbers entries by its clock:
    "<milliseconds>-<count>"."""
    return datetime.fromtimestamp(int(place.partition("-")[0]) / 1000, UTC)


@dataclass(frozen=True, slots=True)
class Seen:
    """A step as it was published, and when, by the broker's clock."""

    at: datetime
    step: JsonObject


def latest_of(attempts: Sequence[str]) -> dict[str, Seen] | None:
    """Return attempt -> its latest published step, if any; in one round. None when the broker is offline."""
    try:
        pipeline = django_rq.get_connection().pipeline(transaction=False)
        for attempt in attempts:
            pipeline.xrevrange(_key(attempt), count=1)
        answers = pipeline.execute()
    except (RedisError, OSError):
        return None
    found = {attempt: _read_entries(answer) for attempt, answer in zip(attempts, answers, strict=True)}
    return {attempt: Seen(published_at(steps[0][0]), steps[0][1]) for attempt, steps in found.items() if steps}


def _read_entries(answer: object) -> list[tuple[str, JsonObject]]:
    """Return (id, ATIF step) of each entry of a stream, in the order of the broker's answer.

    The cast: redis types every answer for all its clients at once; ours is not asynchronous and decodes nothing.
    """
    entries = cast("list[tuple[bytes, dict[bytes, bytes]]]", answer)
    return [(place.decode(), orjson.loads(fields[b"step"])) for place, fields in entries]


def _key(attempt: str) -> str:
    return f"live:{attempt}"


def _shorten(value: JsonValue) -> JsonValue:
    if isinstance(value, str):
        text = storable(value)
        return text if len(text) <= MAX_TEXT else f"{text[:MAX_TEXT]} [... {len(text) - MAX_TEXT:,} characters]"
    if isinstance(value, dict):
        return {storable(key): _shorten(item) for key, item in value.items()}
    return [_shorten(item) for item in value] if isinstance(value, list) else value


MAX_LINES = 200
MAX_LINE = 2_000  # characters of a line, of its beginning and its end; a traceback is several
KEEP_LOG_SECONDS = 24 * 3600

LOG_FORMAT = logging.Formatter("%(asctime)s %(levelname)s %(message)s", "%Y-%m-%dT%H:%M:%SZ")
LOG_FORMAT.converter = time.gmtime


class Tail(logging.Handler):
    """Publish the lines about one episode. A process may work on several, each in a thread with its own ids."""

    def __init__(self, episode: str) -> None:
        super().__init__(logging.INFO)
        self.setFormatter(LOG_FORMAT)
        self._episode, self._key = episode, _log_key(episode)
        self._silent_until = 0.0
        self._redactor = Redactor(own_secrets())

    def filter(self, record: logging.LogRecord) -> bool:
        return log_context.present().get("episode") == self._episode and bool(super().filter(record))

    def emit(self, record: logging.LogRecord) -> None:
        if time.monotonic() < self._silent_until:
            return
        try:
            lines = [
                cut(line, MAX_LINE) for line in self._redactor.text(storable(self.format(record))).splitlines() if line
            ]
            pipeline = django_rq.get_connection().pipeline(transaction=False)
            pipeline.rpush(self._key, *lines[-MAX_LINES:])
            pipeline.ltrim(self._key, -MAX_LINES, -1)
            pipeline.expire(self._key, KEEP_LOG_SECONDS)
            pipeline.execute()
        except (RedisError, OSError):  # not logged: a handler that logs would call itself
            self._silent_until = time.monotonic() + PAUSE_SECONDS
        except Exception:  # a line that cannot be formatted, from any logger: no reason to stop the work
            self.handleError(record)


@contextmanager
def keep_tail(episode: str) -> Iterator[None]:
    """Keep what this thread logs inside the block as the episode's tail; its lines carry the episode's id."""
    tail, root = Tail(episode), logging.getLogger()
    root.addHandler(tail)
    try:
        with log_context.about(episode=episode):
            yield
    finally:
        root.removeHandler(tail)


def read_log(episode: str, count: int = MAX_LINES) -> list[str] | None:
    """Return the last lines, oldest first. None when the broker is offline."""
    try:
        found = django_rq.get_connection().lrange(_log_key(episode), -count, -1)
    except (RedisError, OSError):
        return None
    return [line.decode("utf-8", "replace") if isinstance(line, bytes) else line for line in found]


def _log_key(episode: str) -> str:
    return f"log:{episode}"
