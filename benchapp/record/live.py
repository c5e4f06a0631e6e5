"""Steps as they happen, for anyone watching: a capped stream in the broker, gone an hour after its last step.

Nothing depends on it. When the broker is offline, only the live view is missing.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import cast

import django_rq
import orjson
from redis.exceptions import RedisError

from runner.base.text import storable
from runner.base.types import JsonObject, JsonValue, Step
from runner.trajectories.atif_values import step_to_json

log = logging.getLogger(__name__)

MAX_STEPS = 500  # about; the broker trims in blocks
KEEP_SECONDS = 3600
MAX_TEXT = 4_000  # characters of any one text
PAUSE_SECONDS = 30.0  # after a failure: an attempt must not wait for the broker at every step

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
