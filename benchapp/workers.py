"""The rq worker of this project: it reconciles while it has nothing to do, and right after a work-horse was killed."""

from __future__ import annotations

import importlib
import logging
from datetime import timedelta
from typing import Any

from django.db import DatabaseError, connections
from rq import Worker
from rq.utils import now

from benchapp import jobs
from runner.agents import AGENTS
from runner.models import MODELS
from runner.protocols import PROTOCOLS
from runner.sandboxes import SANDBOXES
from runner.suites import SUITES

log = logging.getLogger(__name__)

RECONCILE_SECONDS = 5


def preload() -> None:
    """Imports what episodes name, once, before the first fork: a work-horse then starts without importing."""
    for registry in (AGENTS, MODELS, SANDBOXES, SUITES, PROTOCOLS):
        for place in registry.values():
            importlib.import_module(place.partition(":")[0])


class EpisodeWorker(Worker):
    """Listens for RECONCILE_SECONDS at a time. It is the parent of its work-horses and never works itself."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **{**options, "job_monitoring_interval": 10})
        self._reconciled_at = now() - timedelta(hours=1)

    @property
    def dequeue_timeout(self) -> int:
        return RECONCILE_SECONDS

    def heartbeat(self, timeout: int | None = None, pipeline: Any = None) -> None:
        """Called before and after every job and whenever listening times out."""
        super().heartbeat(timeout, pipeline)
        if (
            not self.is_horse
            and not self.horse_pid
            and now() - self._reconciled_at > timedelta(seconds=RECONCILE_SECONDS)
        ):
            self._reconcile()

    def handle_work_horse_killed(self, job: Any, retpid: Any, ret_val: Any, rusage: Any) -> None:
        super().handle_work_horse_killed(job, retpid, ret_val, rusage)
        self._reconcile()

    def _reconcile(self) -> None:
        """The connection is closed afterwards: a work-horse is a fork and must not share it."""
        self._reconciled_at = now()
        try:
            jobs.reconcile()
        except DatabaseError:
            log.warning("not reconciled: the database is away", exc_info=True)
        finally:
            connections.close_all()
