"""Reading libraries as work for the queue: after a decision, and when somebody asks on the page."""

from __future__ import annotations

import logging

import django_rq
from django.conf import settings
from django.db.models import F, QuerySet
from redis.exceptions import RedisError

from benchapp.diagnosing.storing import diagnose_episode
from benchapp.models import Episode

log = logging.getLogger(__name__)


def with_library(episodes: QuerySet[Episode]) -> QuerySet[Episode]:
    """Those that have, or had, a library to read."""
    return episodes.exclude(library=None, decisions=None).distinct()


def unread(episodes: QuerySet[Episode]) -> QuerySet[Episode]:
    """Those whose present library no rule has read yet."""
    return episodes.filter(library__files_total__gt=0).exclude(diagnoses__snapshot=F("library"))


def read_library(episode_id: str) -> int:
    """The job. Safe to run twice, and beside the episode's own work: it reads what is recorded and writes only findings."""
    episode = Episode.objects.select_related("run", "library", "family").filter(public_id=episode_id).first()
    return diagnose_episode(episode) if episode else 0


def ask_for(episodes: QuerySet[Episode]) -> int | None:
    """Queues the reading of these libraries. How many; None when the broker is away, and then the command does it."""
    asked = 0
    try:
        for public_id in episodes.values_list("public_id", flat=True):
            django_rq.get_queue().enqueue(
                read_library,
                str(public_id),
                job_timeout=settings.JOB_SECONDS,
                result_ttl=60,
                failure_ttl=3600,
                description=f"read the libraries of episode {public_id}",
            )
            asked += 1
    except (RedisError, OSError) as error:
        log.warning("libraries are not read, the broker is away: %s", error)
        return None
    return asked
