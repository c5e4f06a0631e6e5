"""Read libraries as jobs of the queue: after an import, after a decision, and on request from the page."""

from __future__ import annotations

import logging
import time

import django_rq
from django.conf import settings
from django.db import DatabaseError
from django.db.models import F, QuerySet
from redis.exceptions import RedisError

from benchapp.analysis.diagnoses.stored_diagnoses import diagnose_episode
from benchapp.models import Episode

log = logging.getLogger(__name__)

SLICE_SECONDS = 20.0  # a job may delay trials by at most this time plus one library


def select_with_library(episodes: QuerySet[Episode]) -> QuerySet[Episode]:
    """Select episodes that have, or had, a library to read."""
    return episodes.exclude(library=None, decisions=None).distinct()


def select_unread(episodes: QuerySet[Episode]) -> QuerySet[Episode]:
    """Select episodes whose current library no rule has read yet."""
    return episodes.filter(library__files_total__gt=0).exclude(diagnoses__snapshot=F("library"))


def read_library(episode_id: str) -> int:
    """Read a library. Safe to run twice, and during the episode's own work: it writes only findings."""
    episode = Episode.objects.select_related("run", "library", "family").filter(public_id=episode_id).first()
    return diagnose_episode(episode) if episode else 0


def read_libraries(episode_ids: list[str]) -> None:
    """Run the job: at least one library, then more while there is time. The rest goes to the end of the queue, so that
    trials take turns with a large import. A library that cannot be read is logged and does not stop the others."""
    deadline = time.monotonic() + SLICE_SECONDS
    for done, episode_id in enumerate(episode_ids, start=1):
        try:
            read_library(episode_id)
        except (DatabaseError, MemoryError, OSError):
            raise  # the machine's failure
        except Exception:
            log.exception("episode %s: its libraries cannot be read", episode_id)
        if episode_ids[done:] and time.monotonic() > deadline:
            _enqueue(episode_ids[done:])
            return


def enqueue_reading(episodes: QuerySet[Episode]) -> int | None:
    """Queue the reading of these libraries. Return how many; None if the broker cannot be reached."""
    asked = [str(public_id) for public_id in episodes.order_by("pk").values_list("public_id", flat=True)]
    try:
        if asked:
            _enqueue(asked)
    except (RedisError, OSError) as error:
        log.warning("libraries not checked: cannot reach the broker: %s", error)
        return None
    return len(asked)


def _enqueue(episode_ids: list[str]) -> None:
    first, more = episode_ids[0], len(episode_ids) - 1
    django_rq.get_queue().enqueue(
        read_libraries,
        episode_ids,
        job_timeout=settings.JOB_SECONDS,
        result_ttl=60,
        failure_ttl=3600,
        description=f"read the libraries of episode {first}" + (f" and {more} more" if more else ""),
    )
