"""Keep the index up to date: a worker's job indexes a slice of what waits, then enqueues itself again."""

from __future__ import annotations

import logging
import uuid

import django_rq
from django.conf import settings
from redis.exceptions import RedisError

from benchapp.search.indexing import has_waiting, index_waiting

log = logging.getLogger(__name__)

HINT = "search"
SLICE_SECONDS = 20.0  # trials wait for a worker at most this long because of it


def follow() -> bool:
    """Enqueue a job unless one is waiting or running. False also when the broker is offline: the next worker that
    checks makes up for it."""
    try:
        queue = django_rq.get_queue()
        known = [*queue.get_job_ids(), *queue.started_job_registry.get_job_ids(cleanup=False)]
        if any(job.startswith(f"{HINT}_") for job in known):
            return False
        _enqueue()
    except (RedisError, OSError) as error:
        log.info("search index not updated: cannot reach the broker: %s", error)
        return False
    return True


def follow_if_waiting() -> bool:
    return has_waiting() and follow()


def index_slice() -> None:
    """Index a slice. Enqueue again at the end while something waits, so that trials take turns with it."""
    done = index_waiting(seconds=SLICE_SECONDS)
    log.info("search: %d indexed", done)
    if done and has_waiting():
        _enqueue()  # the running job is this one


def _enqueue() -> None:
    django_rq.get_queue().enqueue(
        index_slice,
        job_id=f"{HINT}_{uuid.uuid4().hex[:12]}",
        job_timeout=settings.JOB_SECONDS,
        result_ttl=60,
        failure_ttl=3600,
        description="index what waits for search",
    )
