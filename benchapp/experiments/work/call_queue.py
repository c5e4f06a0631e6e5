"""The queue of calls to each model server, and the models that do not answer: in the broker, which all workers reach.

A server's queue is a list of tickets in the order of arrival; the first ones, up to the server's slots, may call. Each
ticket is also a key that expires, so the place of a killed worker is free within TICKET_SECONDS.
"""

from __future__ import annotations

import logging
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta

import django_rq
from django.utils import timezone
from redis.exceptions import RedisError

from benchapp.models import Episode
from benchapp.record import log_context
from benchapp.record.json_shape import Shaped
from benchapp.record.redaction import Redactor, own_secrets
from runner.base.digests import digest_json
from runner.base.text import storable
from runner.models.wire.call_slots import Endpoint

log = logging.getLogger(__name__)

TICKET_SECONDS = 20
OUTAGE_SECONDS = 900  # an outage is kept this long after the last failed call: longer than any pause of an episode
MAX_REASON = 300
MAX_OUTAGES = 20
OUTAGES = "skillglass:outages"
WAITING = "episode:"  # fields of an outage: when the episode gives up its call; "" if it is not waiting now


class BrokerQueue:
    """See `runner.models.wire.call_slots.CallQueue`."""

    def count_ahead(self, endpoint: Endpoint, ticket: str, *, is_held: bool = False) -> int | None:
        queue = f"skillglass:calls:{digest_json(endpoint.server)}"
        try:
            broker = django_rq.get_connection()
            pipeline = broker.pipeline()
            pipeline.set(_ticket(ticket), "", ex=TICKET_SECONDS)
            pipeline.expire(queue, 3_600)
            pipeline.lrange(queue, 0, -1)
            tickets = [found.decode() for found in pipeline.execute()[-1]]
            if ticket not in tickets:
                (broker.lpush if is_held else broker.rpush)(queue, ticket)
                return self.count_ahead(endpoint, ticket, is_held=is_held)
            ahead = tickets[: tickets.index(ticket)]
            alive = broker.mget([_ticket(each) for each in ahead]) if ahead else []
            for each, key in zip(ahead, alive, strict=True):
                if key is None:
                    broker.lrem(queue, 0, each)
            return sum(key is not None for key in alive)
        except (RedisError, OSError) as error:
            log.warning("queue of calls to %s: cannot reach the broker: %s", endpoint.model, error)
            return None

    def leave(self, endpoint: Endpoint, ticket: str) -> None:
        try:
            pipeline = django_rq.get_connection().pipeline()
            pipeline.lrem(f"skillglass:calls:{digest_json(endpoint.server)}", 0, ticket)
            pipeline.delete(_ticket(ticket))
            pipeline.execute()
        except (RedisError, OSError) as error:
            log.warning("queue of calls to %s: its slot is free in %d s: %s", endpoint.model, TICKET_SECONDS, error)

    def note_failure(self, endpoint: Endpoint, reason: str, seconds_left: float | None) -> None:
        now = timezone.now()
        until = "" if seconds_left is None else (now + timedelta(seconds=seconds_left)).isoformat()
        values = {"model": endpoint.model, "reason": Redactor(own_secrets()).text(storable(reason))[:MAX_REASON]}
        if episode := log_context.present().get("episode"):
            values[f"{WAITING}{episode}"] = until
        key = _outage(endpoint)
        try:
            pipeline = django_rq.get_connection().pipeline()
            pipeline.hsetnx(key, "since", now.isoformat())
            for name, value in values.items():
                pipeline.hset(key, name, value)
            pipeline.expire(key, OUTAGE_SECONDS)
            pipeline.sadd(OUTAGES, key)
            pipeline.execute()
        except (RedisError, OSError) as error:
            log.warning("model %s: its outage is not shown: cannot reach the broker: %s", endpoint.model, error)

    def note_answer(self, endpoint: Endpoint) -> None:
        try:
            pipeline = django_rq.get_connection().pipeline()
            pipeline.delete(_outage(endpoint))
            pipeline.srem(OUTAGES, _outage(endpoint))
            pipeline.execute()
        except (RedisError, OSError) as error:
            log.warning("model %s: that it answers is not shown: cannot reach the broker: %s", endpoint.model, error)


def _ticket(ticket: str) -> str:
    return f"skillglass:call:{ticket}"


def _outage(endpoint: Endpoint) -> str:
    return f"skillglass:outage:{digest_json([endpoint.server, endpoint.model])}"


@dataclass(frozen=True, slots=True)
class Outage(Shaped):
    """A model that has not answered since its first failed call after the last answer."""

    model: str
    since: datetime
    reason: str
    episodes: tuple[str, ...]  # that wait for it
    given_up_at: datetime | None  # the first of the calls that wait now; None: no call waits, later tries ask again


def list_outages() -> list[Outage]:
    """Return the longest first; none if the broker cannot be reached. Episodes that wait no longer are left out."""
    try:
        broker = django_rq.get_connection()
        keys = sorted(broker.smembers(OUTAGES))
        pipeline = broker.pipeline()
        for key in keys:
            pipeline.hgetall(key)
        kept = list(zip(keys, pipeline.execute(), strict=True))
        if ended := [key for key, values in kept if not values]:
            broker.srem(OUTAGES, *ended)
    except (RedisError, OSError):
        return []
    found = [{name.decode(): value.decode() for name, value in values.items()} for _, values in kept if values]
    named = {name.removeprefix(WAITING) for values in found for name in values if name.startswith(WAITING)}
    waiting = {
        str(each) for each in Episode.objects.open().filter(public_id__in=named).values_list("public_id", flat=True)
    }
    outages = [_read_outage(values, waiting) for values in found]
    return sorted(outages, key=lambda outage: outage.since)[:MAX_OUTAGES]


def _read_outage(values: Mapping[str, str], waiting: set[str]) -> Outage:
    until = {episode: at for name, at in values.items() if (episode := name.removeprefix(WAITING)) in waiting}
    ends = [datetime.fromisoformat(at) for at in until.values() if at]
    return Outage(
        model=values["model"],
        since=datetime.fromisoformat(values["since"]),
        reason=values["reason"],
        episodes=tuple(sorted(until)),
        given_up_at=min((at for at in ends if at > timezone.now()), default=None),
    )
